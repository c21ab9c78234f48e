"""Epoch regions: memory of the data path that lives and dies together (after Yak, OSDI '16).

Strategy: one byte stream, addressed by position, is kept in regions of a fixed size. Regions are filled in order and
dropped in order, whole, once flushed and outside the cached window. The region that falls out of the window is the next
to be filled, since first touching 4 MiB costs eight times as much as writing them. That is what regions are for: fresh
regions cost a node that is sent records of 1 KB a sixth more processor time, a bytes object for each chunk a twentieth
(docs/bench.md). They save little memory, and do not shorten pauses of the loop, since no collection looks at bytes.

A region is an anonymous private mapping: pages are committed as they are first written, and unmapping hands them back
for certain, where a large `bytearray` is zeroed up front and may stay in the allocator.

A mapping refuses `resize` while views of it are exported, even to its own size. This is how a region that still has a
reader differs from one without: it *escapes*, that is, it is left to its views, which keep it alive, and is never
written again. A slow reader of a few bytes pins a whole region, so from `escaped_bytes_max` on, readers get copies
instead of views.

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

    At most `cached_bytes_max` bytes are kept, apart from unflushed bytes and one region, the one being filled or the
    one to be filled next; readers hold at most `escaped_bytes_max` (as much again by default) on top, and the regions
    that were live when that was reached.

    Figures: regions_live, regions_escaped, regions_reused, regions_mapped, cached_bytes, bytes_unflushed,
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
        self._left_bytes_max = cached_bytes_max + region_bytes  # after a flush: one region is left to the next `_open`
        self._escaped_bytes_max = cached_bytes_max if escaped_bytes_max is None else escaped_bytes_max
        self._regions: deque[Region] = deque()  # contiguous: each starts where the one before ends
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

    def view(self, start: int, end: int, *, is_flush: bool = False) -> list[memoryview] | None:
        """The bytes from position `start` up to `end`, mostly not copied, in order, or None if not all are in memory.

        A view must not outlive its use: it keeps its whole region from being used again. Those of a flush are never
        copied, since what is not flushed is kept in any case.
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
        if self.escaped_bytes >= self._escaped_bytes_max and not is_flush:
            self.copied_views_total += len(views)
            return [memoryview(bytes(view)) for view in views]
        return views

    def flushed(self, position: int) -> None:
        """Everything before `position` is on disk; drops the regions that a burst has left over the window."""
        self.flushed_position = max(self.flushed_position, position)
        # Rarely so: `_open` drops one region for each that it begins, unless a burst was not flushed by then.
        if self.end_position - self.oldest_position > self._left_bytes_max:
            memory = self._drop_unneeded(self._left_bytes_max, kept=1)
            if memory is not None:
                memory.close()

    def close(self) -> None:
        """Drop everything. Views that are still held stay valid."""
        while self._regions:
            memory = self._drop_oldest()
            if memory is not None:
                memory.close()

    def _open(self, total: int) -> None:
        """Begin a region for an append of `total` bytes; an append above the usual size gets a region of its own."""
        if total > REGION_BYTES_MAX:
            raise LimitExceeded("region_bytes_max", REGION_BYTES_MAX)
        # Dropped before the new one is chosen, so that its memory is the next to be filled.
        memory = self._drop_unneeded(self._cached_bytes_max, kept=0)
        if memory is not None and total <= self._region_bytes:
            self.regions_reused += 1
        else:
            if memory is not None:
                memory.close()
            size = max(total, self._region_bytes)
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.regions_mapped += 1
        self._regions.append(Region(self.end_position, memory))

    def _drop_unneeded(self, bytes_max: int, kept: int) -> mmap.mmap | None:
        """Drop from the old end what is flushed and over `bytes_max`, all but `kept` regions at most.

        Returns the memory of one region of the usual size that nobody reads, if there is one.
        """
        regions, memory = self._regions, None
        while len(regions) > kept and regions[0].end <= self.flushed_position and self.cached_bytes > bytes_max:
            if memory is not None:
                memory.close()
            memory = self._drop_oldest()
        return memory

    def _drop_oldest(self) -> mmap.mmap | None:
        region = self._regions.popleft()
        self.oldest_position = region.end
        memory = region.memory
        try:
            # A resize to its own size changes nothing, and fails exactly while a view is exported.
            memory.resize(len(memory))
        except BufferError:
            self._let_escape(memory)
            return None
        # A larger region came from one large append: filled again, it would hold that memory for ordinary ones.
        if len(memory) == self._region_bytes:
            return memory
        memory.close()
        return None

    def _let_escape(self, memory: mmap.mmap) -> None:
        self.escapes_total += 1
        self.escaped_bytes += len(memory)
        self._escaped[weakref.ref(memory, self._escape_ended)] = len(memory)

    def _escape_ended(self, reference: "weakref.ref[mmap.mmap]") -> None:
        self.escaped_bytes -= self._escaped.pop(reference)
