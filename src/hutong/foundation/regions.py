"""Epoch regions: memory of the data path that lives and dies together (after Yak, OSDI '16).

Strategy: one byte stream, addressed by position, is kept in regions of a fixed size. Regions are filled in order and
dropped in order, whole, once flushed and outside the cached window. So the collector never sees the data path, and
nothing is freed piece by piece. A region is an anonymous private mapping: pages are committed as they are first
written, and unmapping hands them back for certain, where a large `bytearray` is zeroed up front and may stay in the
allocator.

A mapping refuses `resize` while views of it are exported, even to its own size. This is how a region that still has a
reader differs from one without: it *escapes*, that is, it is left to its views, which keep it alive, and is never
written again. Others are re-used, since first touching 4 MiB costs eight times as much as writing them. A slow reader
of a few bytes pins a whole region, so from `escaped_bytes_max` on, readers get copies instead of views.

Knows nothing of chunks, disks or why a position is flushed.
"""

import mmap
import weakref
from collections import deque
from collections.abc import Sequence

from hutong.foundation.errors import LimitExceeded

Buffer = bytes | bytearray | memoryview

REGION_BYTES = 4 << 20
REGION_BYTES_MAX = 1 << 30  # the largest single append
IDLE_OPENS = 16  # a free region that so many openings did not need is given back: a burst leaves no memory behind
FREE_REGIONS_MAX = 2  # a stream opens one region when it drops one; the second covers a flush that frees several
JOIN_BELOW_BYTES = 2048  # mean size below which one join and one copy beat a copy for each buffer (measured)


class Region:
    """A stretch of the stream: `used` bytes of `memory` from position `start` on; never written behind `used`."""

    __slots__ = ("memory", "start", "used")

    def __init__(self, start: int, memory: mmap.mmap) -> None:
        self.start = start
        self.used = 0
        self.memory = memory

    @property
    def end(self) -> int:
        return self.start + self.used


class RegionCache:
    """The newest part of a byte stream that begins at `start_position`.

    At most `cached_bytes_max` bytes are kept, apart from unflushed bytes and the region being filled; readers hold at
    most `escaped_bytes_max` (as much again by default) on top, and the regions that were live when that was reached.

    Figures: regions_live, regions_free, regions_escaped, regions_reused, regions_mapped, cached_bytes, bytes_unflushed,
    escapes_total, escaped_bytes, copied_views_total.
    """

    def __init__(
        self,
        region_bytes: int = REGION_BYTES,
        cached_bytes_max: int = 16 * REGION_BYTES,
        *,
        start_position: int = 0,
        escaped_bytes_max: int | None = None,
    ) -> None:
        if not 0 < region_bytes <= REGION_BYTES_MAX:
            raise ValueError(f"a region has 1 to {REGION_BYTES_MAX} bytes")
        self._region_bytes = region_bytes
        self._cached_bytes_max = cached_bytes_max
        self._escaped_bytes_max = cached_bytes_max if escaped_bytes_max is None else escaped_bytes_max
        self._regions: deque[Region] = deque()  # contiguous: each starts where the one before ends
        self._free: list[mmap.mmap] = []  # used from its end, so that what is never needed stays at its beginning
        self._free_least = 0  # of those, how many were there all the time since the last check
        self._opens = 0
        self._escaped: dict[weakref.ref[mmap.mmap], int] = {}
        self.oldest_position = start_position  # the first that `view` still answers
        self.end_position = start_position
        self.flushed_position = start_position
        self.regions_reused = 0
        self.regions_mapped = 0
        self.escapes_total = 0
        self.escaped_bytes = 0
        self.copied_views_total = 0

    @property
    def regions_live(self) -> int:
        return len(self._regions)

    @property
    def regions_free(self) -> int:
        """Kept to be filled again."""
        return len(self._free)

    @property
    def regions_escaped(self) -> int:
        """No longer the stream's, but still held by readers."""
        return len(self._escaped)

    @property
    def cached_bytes(self) -> int:
        return self.end_position - self.oldest_position

    @property
    def bytes_unflushed(self) -> int:
        return self.end_position - self.flushed_position

    def append(self, buffers: Sequence[Buffer], total: int) -> int:
        """Copy the buffers, `total` bytes in all, to the end of the stream; they never span two regions.

        Returns the position of the first byte. Raises LimitExceeded for more than REGION_BYTES_MAX.
        """
        regions = self._regions
        if not regions or regions[-1].used + total > len(regions[-1].memory):
            self._open(total)
        region = regions[-1]
        memory = region.memory
        at = region.used
        # Many small buffers: each assignment into a mapping costs more than its bytes, so join them first.
        if total < JOIN_BELOW_BYTES * len(buffers):
            memory[at : at + total] = b"".join(buffers)
        else:
            for buffer in buffers:
                end = at + len(buffer)
                memory[at:end] = buffer
                at = end
            # Nothing counts yet: `used` still excludes the bytes, so a wrong total leaves the stream as it was.
            if at != region.used + total:
                raise ValueError(f"the buffers hold {at - region.used} bytes, not {total}")
        region.used += total
        position = self.end_position
        self.end_position = position + total
        return position

    def view(self, start: int, end: int) -> list[memoryview] | None:
        """The bytes from position `start` up to `end` without copying, in order, or None if not all are in memory.

        A view must not outlive its use: it keeps its whole region from being used again.
        """
        if not self.oldest_position <= start <= end <= self.end_position:
            return None
        if start == end:
            return []
        views: list[memoryview] = []
        for region in reversed(self._regions):  # most readers are near the end
            first = region.start
            if first < end:
                views.append(memoryview(region.memory)[max(0, start - first) : min(region.used, end - first)])
                if first <= start:
                    break
        views.reverse()
        # Readers already pin as much as they may. A copy costs its bytes once and pins no region.
        if self.escaped_bytes >= self._escaped_bytes_max:
            self.copied_views_total += len(views)
            return [memoryview(bytes(view)) for view in views]
        return views

    def flushed(self, position: int) -> None:
        """Everything before `position` is on disk; drops the regions that nobody needs any more."""
        self.flushed_position = max(self.flushed_position, position)
        self._drop_unneeded()

    def close(self) -> None:
        """Drop everything. Views that are still held stay valid."""
        while self._regions:
            self._drop_oldest()
        while self._free:
            self._free.pop().close()

    def _open(self, total: int) -> None:
        """Begin a region for an append of `total` bytes; an append above the usual size gets a region of its own."""
        if total > REGION_BYTES_MAX:
            raise LimitExceeded("region_bytes_max", REGION_BYTES_MAX)
        # Free regions all have the usual size, since `_drop_oldest` keeps no other.
        if total <= self._region_bytes and self._free:
            memory = self._free.pop()
            self._free_least = min(self._free_least, len(self._free))
            self.regions_reused += 1
        else:
            size = max(total, self._region_bytes)
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.regions_mapped += 1
        self._regions.append(Region(self.end_position, memory))
        self._drop_unneeded()
        self._opens += 1
        if self._opens % IDLE_OPENS == 0:
            self._give_back_idle()

    def _give_back_idle(self) -> None:
        """Unmap the free regions that nothing needed since the last check."""
        for memory in self._free[: self._free_least]:
            memory.close()
        del self._free[: self._free_least]
        self._free_least = len(self._free)

    def _drop_unneeded(self) -> None:
        """Drop from the old end while flushed and over the cached window, but never the region being filled."""
        regions = self._regions
        while (
            len(regions) > 1 and regions[0].end <= self.flushed_position and self.cached_bytes > self._cached_bytes_max
        ):
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        region = self._regions.popleft()
        self.oldest_position = region.end
        memory = region.memory
        try:
            # A resize to its own size changes nothing, and fails exactly while a view is exported.
            memory.resize(len(memory))
        except BufferError:
            self._let_escape(memory)
            return
        # A larger region came from one large append: kept free, it would hold that memory for ordinary ones.
        if len(memory) == self._region_bytes and len(self._free) < FREE_REGIONS_MAX:
            self._free.append(memory)
        else:
            memory.close()

    def _let_escape(self, memory: mmap.mmap) -> None:
        self.escapes_total += 1
        self.escaped_bytes += len(memory)
        self._escaped[weakref.ref(memory, self._escape_ended)] = len(memory)

    def _escape_ended(self, reference: "weakref.ref[mmap.mmap]") -> None:
        self.escaped_bytes -= self._escaped.pop(reference)
