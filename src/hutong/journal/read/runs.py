"""The places of one log's batches in the cache: every run, exactly.

Strategy: three parallel arrays, offsets and positions rising, so that a read is one bisection and then a straight walk.
Entries of evicted bytes are trimmed in bulk, by the next append to the log or by the writer in rotation.

Knows nothing of disks: runs that are not in the cache are simply not here.
"""

from array import array
from bisect import bisect_left, bisect_right

from hutong.foundation.regions import RegionCache
from hutong.journal.format.batches import cut
from hutong.wire.kafka.batch.records import HEADER_BYTES


class Views:
    """The result of a read from memory: whole batches in order, `size` bytes in all."""

    __slots__ = ("buffers", "size")

    def __init__(self, buffers: list[memoryview], size: int) -> None:
        self.buffers = buffers
        self.size = size


class CachedRuns:
    """The runs of one log that may still be in the cache."""

    __slots__ = ("_base_offsets", "_end_offset", "_positions", "_sizes")

    def __init__(self) -> None:
        self._end_offset = 0  # of the newest run
        self._base_offsets = array("q")
        self._positions = array("q")
        self._sizes = array("q")

    def __len__(self) -> int:
        return len(self._base_offsets)

    def add(self, base_offset: int, end_offset: int, position: int, size: int, oldest_position: int) -> None:
        positions = self._positions
        if positions and positions[0] < oldest_position:
            self.trim(oldest_position)
        self._base_offsets.append(base_offset)
        positions.append(position)
        self._sizes.append(size)
        self._end_offset = end_offset

    def trim(self, oldest_position: int) -> None:
        """Forget the runs before `oldest_position`."""
        count = bisect_left(self._positions, oldest_position)
        if count:
            del self._base_offsets[:count]
            del self._positions[:count]
            del self._sizes[:count]

    def header_near(self, cache: RegionCache, offset: int) -> memoryview | None:
        """The header of the first batch of the run that holds `offset`; None if that one is not in the cache."""
        first = bisect_right(self._base_offsets, offset) - 1
        if first < 0 or offset >= self._end_offset or self._positions[first] < cache.oldest_position:
            return None
        position = self._positions[first]
        views = cache.view(position, position + HEADER_BYTES)
        return views[0] if views else None

    def read(
        self, cache: RegionCache, offset: int, limit: int, max_bytes: int, at_least_one: bool, runs_max: int
    ) -> Views | None:
        """Whole batches from the one that holds `offset` up to `limit`, or None if that one is not in the cache.

        At most `max_bytes` and `runs_max` runs; with `at_least_one` the first batch at any size.
        """
        base_offsets, positions, sizes = self._base_offsets, self._positions, self._sizes
        first = bisect_right(base_offsets, offset) - 1
        if first < 0 or positions[first] < cache.oldest_position:
            return None
        buffers: list[memoryview] = []
        found = 0
        for number in range(first, min(len(base_offsets), first + runs_max)):
            base_offset, position, size = base_offsets[number], positions[number], sizes[number]
            if base_offset >= limit:
                break
            views = cache.view(position, position + size)
            assert views, "what is newer than a cached position is cached"
            view = views[0]  # a chunk never spans two regions, so neither does a run
            end_offset = base_offsets[number + 1] if number + 1 < len(base_offsets) else self._end_offset
            is_last = found + size > max_bytes or end_offset > limit
            if is_last or base_offset < offset:
                view = cut(view, offset, limit, max_bytes - found, at_least_one and not found)
            if view:
                buffers.append(view)
                found += len(view)
            if is_last or found >= max_bytes:
                break
        return Views(buffers, found)
