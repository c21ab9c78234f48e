"""Walking a segment: from chunk header to chunk header, through a window of the file.

Strategy: the window is one positional read at a time. It grows while most of what it brings is wanted (a partition
read from end to end) and shrinks while it is not (one quiet partition among a thousand busy ones), so that reading
ahead follows demand.

Runs on the loop and on workers alike; knows nothing of either.
"""

from collections.abc import Iterator
from typing import Final

from hutong.foundation.errors import CorruptData, HutongError
from hutong.journal import chunk
from hutong.journal.batches import cut
from hutong.journal.disk import DiskFile
from hutong.journal.index import Extent, Extents

WINDOW_BYTES_MIN: Final = 16 * 1024
WINDOW_BYTES_MAX: Final = 1024 * 1024
EXTENTS_PLANNED_MAX: Final = 256
LOADS_ON_LOOP_MAX: Final = 16  # a read on the loop brings what these find, so that it never holds the loop up


class WouldBlock(HutongError):
    """Memory does not hold it; a worker must wait for the device."""


class Window:
    """A segment's file seen through one buffer at a time. Positions are the journal's."""

    def __init__(self, file: DiskFile, base_position: int, end_position: int, size: int, is_cached_only: bool) -> None:
        self._file = file
        self._base_position = base_position
        self._end_position = end_position
        self._size = max(WINDOW_BYTES_MIN, size)
        self._is_cached_only = is_cached_only
        self._view = memoryview(b"")
        self._start = base_position
        self._used_bytes = 0
        self._loads = 0

    @property
    def is_spent(self) -> bool:
        """Whether enough was read for one time; only a worker may go on."""
        return self._is_cached_only and self._loads >= LOADS_ON_LOOP_MAX

    def view(self, position: int, count: int) -> memoryview:
        """The bytes there. Raises WouldBlock, CorruptData where the journal ends before, StorageError."""
        start = position - self._start
        if start < 0 or start + count > len(self._view):
            self._load(position, count)
            start = 0
        return self._view[start : start + count]

    def used(self, count: int) -> None:
        """Of what was seen, that many bytes were wanted."""
        self._used_bytes += count

    def chunk_at(self, position: int) -> chunk.Chunk:
        """The chunk that begins there. Raises as `view` does."""
        header_bytes = chunk.header_bytes_at(self.view(position, chunk.FIXED.size), 0, position)
        return chunk.parse_header(self.view(position, max(header_bytes, chunk.FIXED.size)), 0, position)

    def _load(self, position: int, count: int) -> None:
        if self._view:
            is_wanted = self._used_bytes * 2 >= len(self._view)
            size = self._size * 2 if is_wanted else self._size // 2
            self._size = min(max(size, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
            self._used_bytes = 0
        self._loads += 1
        if self._is_cached_only and self._loads > 2 * LOADS_ON_LOOP_MAX:
            raise WouldBlock("too much lies between one batch and the next")
        wanted = min(max(count, self._size), self._end_position - position)
        if wanted < count:
            raise CorruptData(f"what begins at position {position} goes on beyond the end of the segment")
        at = position - self._base_position
        content = self._file.read_cached(wanted, at) if self._is_cached_only else self._file.read(wanted, at)
        if content is None:
            raise WouldBlock(f"position {position} is not in memory")
        if len(content) < count:
            raise CorruptData(f"the segment's file ends before position {position + count}")
        self._view, self._start = memoryview(content), position


class Walk:
    """The runs of one partition in the given extents of one segment, up to `end_position`."""

    def __init__(self, window: Window, partition_id: int, extents: list[Extent], end_position: int) -> None:
        self.extents = extents
        self._window = window
        self._partition_id = partition_id
        self._end_position = end_position

    def runs(self, extents: list[Extent]) -> Iterator[chunk.Run]:
        for extent in extents:
            position = extent.first_position
            while position <= extent.last_position and position < self._end_position:
                header = self._window.chunk_at(position)
                position = header.end
                run = header.find(self._partition_id)
                if run is not None:
                    yield run

    def view(self, run: chunk.Run) -> memoryview:
        """The batches of a run."""
        return self._window.view(run.position, run.bytes)

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool, runs_max: int) -> list[memoryview]:
        """Whole batches from the one that holds `offset` up to `limit`: at most `max_bytes` and `runs_max` runs.

        With `at_least_one` the first batch whatever its size.
        """
        found: list[memoryview] = []
        found_bytes = 0
        for run in self.runs(self.extents):
            if run.end_offset <= offset:
                continue
            if run.base_offset >= limit:
                break
            view = self.view(run)
            is_last = found_bytes + run.bytes > max_bytes or run.end_offset > limit
            if is_last or run.base_offset < offset:
                view = cut(view, offset, limit, max_bytes - found_bytes, at_least_one and not found)
            if view:
                self._window.used(len(view))
                found.append(view)
                found_bytes += len(view)
            if is_last or found_bytes >= max_bytes or len(found) >= runs_max or self._window.is_spent:
                break
        return found


def extents_from(extents: Extents, offset: int, limit: int, max_bytes: int, interval_bytes: int) -> list[Extent]:
    """The extents that a read of `max_bytes` from `offset` up to `limit` may need."""
    first = extents.number_for(offset)
    count = min(EXTENTS_PLANNED_MAX, max_bytes // max(1, interval_bytes) + 2, len(extents) - first)
    planned = [extents[number] for number in range(first, first + count)]
    return [extent for extent in planned if extent.base_offset < limit]
