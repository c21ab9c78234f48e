"""Walking a segment: from chunk header to chunk header, through a window of the file.

Strategy: the window is a stretch of the file, brought into an arena of memory by positional reads. A run that continues
past the window is completed by a read behind it into the same arena. So nothing is read twice, and a run that straddles
two reads is still one view. A read brings more while most of its bytes are wanted (a partition read from end to end)
and less while they are not (one quiet partition among a thousand busy ones), so that reading ahead follows demand.
Behind a wide stretch of other partitions only what is wanted is read: the header, then the run.

Batches that a walk returns have passed its checks: the chunk's header guarantees the place and the offsets of a run,
each batch's own CRC the rest. Damage ends a read; a read that begins there fails with CorruptData.

Runs on the loop and on workers alike; knows nothing of either.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from hutong.foundation.errors import CorruptData, HutongError
from hutong.journal.files.disk import DiskFile
from hutong.journal.format import chunk
from hutong.journal.format.batches import Damage, find_damage, has_gaps, step
from hutong.journal.format.index import Extent, Extents
from hutong.journal.read.read_memory import ReadMemory
from hutong.wire.kafka.batch.records import HEADER_BYTES

WINDOW_BYTES_MIN: Final = 16 * 1024
WINDOW_BYTES_MAX: Final = 1024 * 1024
_SEARCH_BYTES: Final = 128 * 1024
EXTENTS_PLANNED_MAX: Final = 256
_ONE_ENTRY_BYTES: Final = chunk.header_bytes_for(1)
_HOLE_BYTES_MIN: Final = 64 * 1024  # of foreign bytes, which cost more to copy than one more read of the file
_HEADER_BYTES_READ: Final = 4096  # at least: a chunk header of a hundred partitions
_END_SHARE: Final = 4  # a read that lacks a quarter of its bytes or less ends with a whole run
_RUN_BYTES_AT_ONCE: Final = 2 * 1024 * 1024  # of a run of which a part is wanted; a larger one holds large batches
LOADS_ON_LOOP_MAX: Final = 64  # a read on the loop brings what these find, so that it never holds the loop up
LOADED_ON_LOOP_MAX: Final = 4 * 1024 * 1024  # the same in bytes, with those of other partitions


class WouldBlock(HutongError):
    """The bytes are not in memory; a worker must wait for the device."""


class SegmentWindow:
    """A segment's file seen through one stretch of it at a time. Positions are the journal's.

    What `allocate` gives is written once, from its beginning to its end, except where nothing of it was `count_used`.
    """

    def __init__(
        self,
        file: DiskFile,
        base_position: int,
        end_position: int,
        size: int,
        is_cached_only: bool,
        allocate: Callable[[int], memoryview] | None = None,
    ) -> None:
        self.base_position = base_position
        self.end_position = end_position
        self._file = file
        self._size = max(WINDOW_BYTES_MIN, size)
        self._is_cached_only = is_cached_only
        self._allocate = allocate or ReadMemory().lend
        self._arena = memoryview(b"")
        self._filled = 0  # bytes of the arena
        self._base = 0  # where in the arena the window begins; it ends at `_filled`
        self._start = base_position  # the journal's position of that place
        self._loaded_bytes = 0  # by the latest read of the file
        self._used_bytes = 0  # of those
        self._is_used = False  # whether somebody may hold a view of the window
        self._header_bytes = _HEADER_BYTES_READ  # the next chunk header is likely to be as long as the latest
        self._loads = 0
        self._loaded_total = 0  # bytes

    @property
    def is_spent(self) -> bool:
        """True if the loop has read enough for one time; only a worker may continue."""
        return self._is_cached_only and (self._loads >= LOADS_ON_LOOP_MAX or self._loaded_total >= LOADED_ON_LOOP_MAX)

    def view(self, position: int, count: int) -> memoryview:
        """The bytes there; to be kept only once they are `count_used`.

        Raises WouldBlock, CorruptData where the journal ends before, StorageError.
        """
        at = position - self._start + self._base
        # The common case costs two comparisons: the bytes are in the window.
        if at < self._base or at + count > self._filled:
            at = self._load(position, count)
        return self._arena[at : at + count]

    def count_used(self, count: int) -> None:
        """Count bytes of the window that were wanted."""
        self._used_bytes += count
        self._is_used = True

    def find_header(self, position: int, end_position: int) -> int:
        """The next place from `position` on that looks like a header written for it, else `end_position`.

        Bypasses the window: the searched bytes are not wanted. Raises StorageError.
        """
        while end_position - position >= chunk.FIXED.size:
            content = bytes(self._file.read(min(_SEARCH_BYTES, end_position - position), position - self.base_position))
            # The file is shorter than the journal expects: nothing more can be found.
            if len(content) < chunk.FIXED.size:
                break
            at = content.find(chunk.MAGIC)
            while at >= 0:
                # A recycled file has hundreds of thousands of stale headers, which name other positions.
                if chunk.may_begin(content, at, position + at):
                    return position + at
                at = content.find(chunk.MAGIC, at + 1)
            # Overlap by all but one byte of a header, which may straddle two reads.
            position += len(content) - chunk.FIXED.size + 1
        return end_position

    def chunk_at(self, position: int) -> chunk.Chunk:
        """The chunk that begins there. Raises as `view` does."""
        header_bytes = chunk.header_bytes_at(self.view(position, chunk.FIXED.size), 0, position)
        return chunk.parse_header(self.view(position, max(header_bytes, chunk.FIXED.size)), 0, position)

    def run_at(self, position: int, partition_id: int) -> tuple[int, int, chunk.LogRun | None]:
        """The end of the chunk at `position`, its leader epoch, and the partition's run in it. Raises as `view`."""
        at = position - self._start + self._base
        # The header of a chunk with one entry is in the window already; a longer one may continue beyond it.
        if at < self._base or at + _ONE_ENTRY_BYTES > self._filled or chunk.entry_count_at(self._arena, at) > 1:
            self._bring_header(position)
            header_bytes = chunk.header_bytes_at(self.view(position, chunk.FIXED.size), 0, position)
            self.view(position, max(header_bytes, chunk.FIXED.size))
            self._header_bytes = max(header_bytes, _HEADER_BYTES_READ)
            at = position - self._start + self._base
        return chunk.find_run(self._arena, at, position, partition_id)

    def bring(self, position: int, count: int) -> None:
        """Try to have these bytes in the window after one read. Raises only StorageError: `view` reports what lacks."""
        at = position - self._start + self._base
        count = min(count, self.end_position - position)
        if self._base <= at and at + count <= self._filled:
            return
        with suppress(CorruptData, WouldBlock):
            self._load(position, count)

    def _bring_header(self, position: int) -> None:
        """Read a chunk header alone where foreign bytes were left out before it: its runs may be far behind it."""
        if self._is_behind_hole(position):
            self.bring(position, self._header_bytes)

    def _is_behind_hole(self, position: int) -> bool:
        """True if a wide stretch between the window and `position` is not wanted: more of it may follow."""
        return self._loaded_bytes > 0 and position - self._start + self._base > self._filled + _HOLE_BYTES_MIN

    def _load(self, position: int, count: int) -> int:
        """Read at least `count` bytes; returns their place in the arena."""
        self._loads += 1
        # A long search on the loop would delay everything else: a worker takes over.
        if self._is_cached_only and (
            self._loads > 2 * LOADS_ON_LOOP_MAX or self._loaded_total > 2 * LOADED_ON_LOOP_MAX
        ):
            raise WouldBlock("the next batch is too far away")
        wanted = min(self._next_size(position, count), self.end_position - position)
        if wanted < count:
            raise CorruptData(f"what begins at position {position} goes on beyond the end of the segment")
        at = position - self._start + self._base
        # Continue right behind the window if the arena has room, so that what is there is not read again.
        if self._base <= at <= self._filled and at + count <= len(self._arena):
            wanted = min(wanted, len(self._arena) - at)
        else:
            at = self._begin(position, wanted)
        self._fill(at + wanted)
        # Cached-only reads come short where the page cache ends; other reads only where the file does.
        if self._filled < at + count:
            if self._is_cached_only:
                raise WouldBlock(f"position {position} is not in memory")
            raise CorruptData(f"the segment's file ends before position {position + count}")
        return at

    def _next_size(self, position: int, count: int) -> int:
        """The size of the next read, by the share of the latest one that was wanted."""
        if self._loaded_bytes:
            # Foreign bytes are read along while they are at most half, as in `JournalReader._read_ahead_bytes`.
            is_wanted = self._used_bytes * 2 >= self._loaded_bytes
            size = self._size * 2 if is_wanted else self._size // 2
            self._size = min(max(size, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
            self._used_bytes = 0
        return count if self._is_behind_hole(position) else max(count, self._size)

    def _begin(self, position: int, wanted: int) -> int:
        """Begin the window at `position`, with room for `wanted` bytes; returns its place in the arena."""
        # Memory of which no view was handed out may be overwritten.
        if not self._is_used:
            self._filled = self._base
        # Views of the old arena live on with their readers: it is replaced, never overwritten.
        if len(self._arena) - self._filled < wanted:
            self._arena = memoryview(b"")  # so that it can be lent again, if nobody else holds a view of it
            self._arena = self._allocate(wanted)
            self._filled = 0
        self._base, self._start, self._is_used = self._filled, position, False
        return self._base

    def _fill(self, end: int) -> None:
        buffer = self._arena[self._filled : end]
        at = self._start - self.base_position + self._filled - self._base
        file = self._file
        self._loaded_bytes = file.read_cached_into(buffer, at) if self._is_cached_only else file.read_into(buffer, at)
        self._filled += self._loaded_bytes
        self._loaded_total += self._loaded_bytes


class Walk:
    """The runs of one partition in the given extents of one segment, up to `end_position`."""

    def __init__(self, window: SegmentWindow, partition_id: int, extents: list[Extent], end_position: int) -> None:
        self.extents = extents
        self._window = window
        self._partition_id = partition_id
        self._end_position = end_position
        self._leader_epoch = -1  # of the chunk that holds the latest run

    def runs(self, extents: list[Extent]) -> Iterator[chunk.LogRun]:
        for extent in extents:
            position = extent.first_position
            while position <= extent.last_position and position < self._end_position:
                position, self._leader_epoch, run = self._window.run_at(position, self._partition_id)
                if run is not None:
                    yield run

    @property
    def leader_epoch(self) -> int:
        """The epoch of the run that came last."""
        return self._leader_epoch

    def epoch_of(self, extent: Extent) -> int:
        """The leader epoch in which an extent begins."""
        return self._window.run_at(extent.first_position, self._partition_id)[1]

    def view(self, run: chunk.LogRun) -> memoryview:
        """The batches of a run, unchecked, until the next call."""
        return self._window.view(run.position, run.bytes)

    def read(self, offset: int, limit: int, max_bytes: int, at_least_one: bool, runs_max: int) -> list[memoryview]:
        """Whole, sound batches from the one that holds `offset` up to `limit`: at most `max_bytes` and `runs_max` runs.

        With `at_least_one` the first batch at any size. Damage, or a part that is not in memory, ends the result; with
        nothing found before it, CorruptData or WouldBlock is raised.
        """
        found: list[memoryview] = []
        found_bytes = 0
        try:
            for run in self.runs(self.extents):
                # An extent of the index covers many runs, so the first of them may end before the offset.
                if run.end_offset <= offset:
                    continue
                if run.base_offset >= limit:
                    break
                # A read that ends inside a run makes the next one begin there, and bring what comes before it again.
                left = max_bytes - found_bytes
                if found and left < run.bytes and left <= max_bytes // _END_SHARE:
                    break
                view, is_last = self._take(run, offset, limit, left, at_least_one and not found)
                if view:
                    self._window.count_used(len(view))
                    found.append(view)
                    found_bytes += len(view)
                # A busy journal may hold a partition in thousands of small runs, each a buffer of the answer.
                if is_last or found_bytes >= max_bytes or len(found) >= runs_max or self._window.is_spent:
                    break
        except (CorruptData, WouldBlock):
            # A reader gets the sound batches first, and the error with the next read.
            if not found:
                raise
        return found

    def _take(
        self, run: chunk.LogRun, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> tuple[memoryview, bool]:
        """The wanted part of a run, and True if the read ends with it. Raises CorruptData if it begins damaged."""
        run_end = run.position + run.bytes
        # The whole run is wanted: its chunk's header has its place, so no batch header is read before the check.
        if run.bytes <= max_bytes and run.base_offset >= offset and run.end_offset <= limit:
            position, end, next_offset = run.position, run_end, run.base_offset
        else:
            position, end, next_offset = self._bounds(run, offset, limit, max_bytes, at_least_one)
        if position == end:
            return memoryview(b""), end < run_end
        view = self._window.view(position, end - position)
        damage = self._damage(run, view, next_offset)
        if damage is None:
            return view, end < run_end
        if not damage.at:
            raise _corrupt(damage, position)
        return view[: damage.at], True

    def _bounds(
        self, run: chunk.LogRun, offset: int, limit: int, max_bytes: int, at_least_one: bool
    ) -> tuple[int, int, int]:
        """Begin and end of the wanted batches of a run, and the offset that the first one should have.

        Follows the batches' headers, which are not checked yet.
        """
        first = first_offset = -1
        last = run.position
        # One read of the file for all headers and what is wanted behind them, instead of one for each batch.
        needed = run.bytes if run.base_offset < offset else min(run.bytes, max_bytes + HEADER_BYTES)
        if needed <= _RUN_BYTES_AT_ONCE:
            self._window.bring(run.position, needed)
        try:
            for position, end, next_offset, base_offset, end_offset in self._steps(run):
                if base_offset >= limit or (first >= 0 and end - first > max_bytes):
                    break
                if first < 0 and end_offset > offset:
                    # KIP-74: only the first batch of a fetch may exceed its bound, so that a consumer always makes
                    # progress.
                    if end - position > max_bytes and not at_least_one:
                        return position, position, next_offset
                    first, first_offset = position, next_offset
                last = end
            else:
                # The run has no batch from the offset on: a gap if cleaning has removed it, else damage.
                if first < 0 and not self._is_gap(run, last, run.base_offset, run.end_offset - 1):
                    raise _corrupt(Damage(0, "does not hold what its chunk says"), run.position)
        except CorruptData:
            if first < 0:
                raise
        return (first, last, first_offset) if first >= 0 else (last, last, run.end_offset)

    def _steps(self, run: chunk.LogRun) -> Iterator[tuple[int, int, int, int, int]]:
        """For each batch of a run: position, end, expected offset, and base and end offset by its header."""
        position, run_end, next_offset = run.position, run.position + run.bytes, run.base_offset
        while position < run_end:
            header = self._window.view(position, min(HEADER_BYTES, run_end - position))
            stepped = step(header, run_end - position)
            # An unchecked length must not lead into the middle of another batch: each header is compared with the run.
            if stepped is None or not self._may_follow(run, position, next_offset, stepped[0]):
                raise _corrupt(Damage(0, "is not the one that belongs there"), position)
            base_offset, end_offset, size = stepped
            yield position, position + size, next_offset, base_offset, end_offset
            position += size
            next_offset = end_offset

    def _may_follow(self, run: chunk.LogRun, position: int, next_offset: int, base_offset: int) -> bool:
        return base_offset == next_offset or self._is_gap(run, position, next_offset, base_offset)

    def _damage(self, run: chunk.LogRun, view: memoryview, next_offset: int) -> Damage | None:
        damage = find_damage(view, next_offset, run.end_offset, self._leader_epoch)
        # Gaps are legal only in a run that cleaning has thinned out; finding that costs a walk over the whole run.
        if damage is not None and damage.is_gap and has_gaps(self.view(run), run.base_offset, run.offset_count):
            return find_damage(view, next_offset, run.end_offset, self._leader_epoch, gaps_allowed=True)
        return damage

    def _is_gap(self, run: chunk.LogRun, position: int, next_offset: int, base_offset: int) -> bool:
        """True if cleaning left a gap before the batch at `position`; damage to the batches before it looks alike."""
        if not next_offset <= base_offset < run.end_offset:
            return False
        view = self.view(run)
        if not has_gaps(view, run.base_offset, run.offset_count):
            return False
        before = view[: position - run.position]
        return find_damage(before, run.base_offset, run.end_offset, self._leader_epoch, gaps_allowed=True) is None


def _corrupt(damage: Damage, position: int) -> CorruptData:
    return CorruptData(f"the batch at position {position + damage.at} {damage.what}")


def extents_from(extents: Extents, offset: int, limit: int, max_bytes: int, interval_bytes: int) -> list[Extent]:
    """The extents that a read of `max_bytes` from `offset` up to `limit` may need."""
    first = extents.number_for(offset)
    # Those that begin before the limit; runs may be far larger than the interval, so these are a few too many.
    end = min(first + EXTENTS_PLANNED_MAX, first + max_bytes // max(1, interval_bytes) + 2)
    return extents.between(first, min(end, bisect_left(extents.base_offsets, limit)))
