"""Reads from the disk: batches that have left the cache, read from segments.

Strategy: the loop plans (which extents of which segment), and the plan is carried out in one of two places: first on
the loop, with reads that never wait for the device (`RWF_NOWAIT`, so what the page cache holds costs no change of
thread), and on a worker when one of them would block or the segment's index is not in memory. A plan is fixed before
it is handed out: a worker sees no structure that the loop still changes.

Knows nothing of the purpose of a read; that is the plan's `work`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from hutong.foundation.errors import CorruptData, HutongError, LimitExceeded, StorageError
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.files.disk import DiskFile
from hutong.journal.files.segment import Segment
from hutong.journal.format.index import Extent, Extents, SegmentIndex
from hutong.journal.read.read_failures import ReadFailures
from hutong.journal.read.read_memory import LARGE_BYTES, SMALL_BYTES, ReadMemory
from hutong.journal.read.rebuild import load_or_rebuild_index, rebuild_index
from hutong.journal.read.walk import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, SegmentWindow, Walk, WouldBlock
from hutong.journal.resources import JournalPart, JournalResources

T = TypeVar("T")
_HEADERS_SHARE: Final = 64  # of the bytes of a partition that is alone, at most one in 64 is of chunk headers
LENT_PIECES_MAX: Final = 4
"""A fetch has at most 2 MiB, in three. A search by time has a whole segment, and fills one piece again and again."""


@dataclass(frozen=True, slots=True)
class DiskRead(Generic[T]):
    """A read that needs a worker. `size` is about how many bytes it brings, at least 1."""

    segment: Segment
    partition_id: int
    size: int
    read_ahead_bytes: int
    disk_end: int  # the flushed position when it was planned
    select: Callable[[Extents], list[Extent]]
    extents: list[Extent] | None  # what `select` chose, None while the segment's index is not in memory
    work: Callable[[Walk], T]


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    result: T | HutongError
    file: DiskFile | None  # opened for this read
    index: SegmentIndex | None  # loaded for this read


class JournalReader(JournalPart):
    """Carries out the disk reads of one journal. Figures: cached_reads_total, worker_reads_total."""

    def __init__(self, resources: JournalResources) -> None:
        super().__init__(resources)
        self.failures = ReadFailures(resources.clock)
        self.cached_reads_total = 0
        self.worker_reads_total = 0
        self._memory = ReadMemory()

    def plan(
        self,
        segment: Segment,
        partition_id: int,
        size: int,
        held_bytes: int,
        disk_end: int,
        select: Callable[[Extents], list[Extent]],
        work: Callable[[Walk], T],
    ) -> DiskRead[T]:
        """Fix a read of `size` bytes of the `held_bytes` that one partition has in one segment."""
        extents = segment.index.extents.get(partition_id) if segment.index is not None else None
        selected = select(extents) if extents is not None else None
        end = disk_end if segment.end_position is None else segment.end_position
        # Partitions lie mixed in a segment: the bytes of others in between may have to be read along.
        share = min(1.0, held_bytes / max(1, end - segment.base_position))
        read_ahead_bytes = self._read_ahead_bytes(size, share)
        return DiskRead(segment, partition_id, max(1, size), read_ahead_bytes, disk_end, select, selected, work)

    def try_cached(self, read: DiskRead[T]) -> T:
        """Carry it out on the loop from what the machine holds in memory. Raises WouldBlock, StorageError."""
        # Opening a file or loading an index may wait for the device, which the loop must not.
        if read.extents is None or read.segment.file is None:
            raise WouldBlock("the segment's index or file is not open")
        walk = self._walk(read, read.segment.file, read.extents, is_cached_only=True, allocate=self._memory.lend)
        result = read.work(walk)
        self.cached_reads_total += 1
        return result

    def read(self, read: DiskRead[T], then: Continuation[T]) -> None:
        """Carry it out on a worker, then `then` on the loop; at once with LimitExceeded when too many are in flight."""
        # Between planning and reading, cleaning may have replaced the segment.
        successor = self._segments.successor(read.segment)
        if successor is not None:
            read = replace(read, segment=successor, extents=None)
        segment, known_file = read.segment, read.segment.file
        # Nobody kept its file open, so that may be another segment's by now (`recycled`).
        if segment.is_doomed and not segment.readers:
            then(StorageError(f"{segment.path} was removed"))
            return
        # Lent on the loop: `ReadMemory` serves one thread. Enough for all of it: each page of new memory costs a fault.
        # One more than its bytes need, since a run that does not fit the rest of one piece begins the next.
        is_large = read.size > SMALL_BYTES
        piece = LARGE_BYTES if is_large else max(read.read_ahead_bytes, WINDOW_BYTES_MIN)
        pieces = min(2 + read.size // LARGE_BYTES, LENT_PIECES_MAX) if is_large else 1
        lent = [self._memory.lend(piece) for _ in range(pieces)]

        def ended(outcome: _Outcome[T] | BaseException) -> None:
            if isinstance(outcome, BaseException):
                raise outcome
            # The file of a segment that was removed meanwhile is no fault of the disk's.
            if isinstance(outcome.result, StorageError) and not segment.is_doomed:
                self._note_failure(outcome.result)
            self._segments.end_reading(segment, outcome.file, outcome.index)
            then(outcome.result)

        self._segments.begin_reading(segment)
        try:
            self._jobs.submit_read(lambda: self._read_on_worker(read, known_file, lent), ended)
        except LimitExceeded as error:
            self._segments.end_reading(segment, None, None)
            then(error)
        else:
            self.worker_reads_total += 1

    def _note_failure(self, error: StorageError) -> None:
        if not isinstance(error, CorruptData):
            self.failures.add(error)

    def _read_ahead_bytes(self, size: int, share: float) -> int:
        """The size of the first read for `size` bytes of a partition with this share of its segment.

        Foreign bytes in between are read along while they are less than half; in a crowded segment the first read is
        small.
        """
        if share < 0.5:
            return min(size, int(self._settings.read_ahead_bytes * share))
        spread = int(size / share)
        return min(spread + spread // _HEADERS_SHARE, WINDOW_BYTES_MAX + WINDOW_BYTES_MIN)

    def _read_on_worker(self, read: DiskRead[T], known_file: DiskFile | None, lent: list[memoryview]) -> _Outcome[T]:
        """Carry out a read on a worker. The memory that was `lent` is filled first; any more is new."""
        file: DiskFile | None = None
        index: SegmentIndex | None = None
        result: T | HutongError
        more = ReadMemory()

        def allocate(size: int) -> memoryview:
            return lent.pop() if lent and len(lent[0]) >= size else more.lend(size)

        try:
            if known_file is None:
                file = self._disk.open(read.segment.path)
            opened = known_file or file
            assert opened is not None
            extents = read.extents
            if extents is None:
                known, index = self._index(read, opened)
                extents = read.select(known.extents.get(read.partition_id) or Extents(0, 0))
            result = read.work(self._walk(read, opened, extents, is_cached_only=False, allocate=allocate))
        except CorruptData as error:
            result = CorruptData(f"{read.segment.path}: {error}")
        except HutongError as error:
            result = error
        return _Outcome(result, file, index)

    def _index(self, read: DiskRead[T], file: DiskFile) -> tuple[SegmentIndex, SegmentIndex | None]:
        """The index of the segment as far as it is on disk; again, if that is all of it and so may be kept."""
        segment, settings = read.segment, self._settings
        is_closed = segment.end_position is not None and segment.range_end is None
        # Closed, but not flushed to its end: what is indexed now is a part, and must not be kept as the whole.
        if is_closed and read.disk_end < (segment.end_position or 0):
            return rebuild_index(file, segment.base_position, read.disk_end, settings), None
        index = load_or_rebuild_index(self._disk, file, segment, read.disk_end, settings)
        return index, index

    def _walk(
        self,
        read: DiskRead[T],
        file: DiskFile,
        extents: list[Extent],
        *,
        is_cached_only: bool,
        allocate: Callable[[int], memoryview],
    ) -> Walk:
        base_position = read.segment.base_position
        end = read.segment.end_position
        if end is None or read.segment.range_end is None:  # a cleaned one is on disk, and has an end of its own
            end = read.disk_end if end is None else min(read.disk_end, end)
        window = SegmentWindow(file, base_position, end, read.read_ahead_bytes, is_cached_only, allocate)
        return Walk(window, read.partition_id, extents, end)
