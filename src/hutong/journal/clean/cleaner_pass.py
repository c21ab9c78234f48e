"""One pass of cleaning over a journal's closed segments: note the keys of what is dirty, then write the segments again.

Strategy: two walks, oldest segment first. The first puts the newest offset of every key in the dirty parts into a map
of fixed size, and ends early once that is full. The second walk starts at the oldest segment and rewrites each one that
loses something; small adjacent segments become one. Older segments are always done before newer ones. So a pass that
ends anywhere, even by a crash, keeps the newest record of each key, and removes no tombstone before the records that it
deletes.

    yields     int         the number of bytes read or written: a good moment to pause
               Rewritten   a cleaned segment is durable on disk, under a name that replaces its sources

Blocks; runs on a worker, in slices. Every batch that is copied is checked first: rot must not get a new file. Knows
nothing of the running journal: what it may touch is in the plan.
"""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hutong.foundation.errors import CorruptData, ProtocolError, StorageError
from hutong.journal.clean.cleaner_output import CleanedFile
from hutong.journal.clean.newest_keys import KeyMap
from hutong.journal.clean.record_filter import LogRules, RecordFilter
from hutong.journal.files.disk import Disk
from hutong.journal.files.segment import Segment, SegmentName
from hutong.journal.format import chunk
from hutong.journal.format.index import SegmentIndex
from hutong.journal.read.walk import SegmentWindow
from hutong.journal.settings import JournalSettings
from hutong.wire.kafka.batch.records import BatchHeader, is_intact, iterate_batches


class SourceSegment(NamedTuple):
    """A segment as a pass finds it. Without `is_touched` it holds nothing that a pass could change."""

    segment: Segment
    path: Path
    base_position: int
    end_position: int
    range_end: int
    generation: int
    is_touched: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The task of a pass: the oldest segments in order, and the rules of every log that exists."""

    sources: list[SourceSegment]
    rules: dict[int, LogRules]
    dirty_position: int  # where the first segment begins that has anything dirty
    now_ms: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """These segments are replaced by one, of which this is the name and the index."""

    sources: list[SourceSegment]
    name: SegmentName
    index: SegmentIndex


@dataclass(slots=True)
class PassResult:
    """The result of a pass: per log the offset before which no key has two records; `is_complete` if the map sufficed.

    `problems` holds the reason for each log that cannot be cleaned any further.
    """

    clean_offsets: dict[int, int] = field(default_factory=dict)
    is_complete: bool = True
    problems: dict[int, str] = field(default_factory=dict)
    bytes_before: int = 0
    bytes_after: int = 0


Steps = Generator["int | Rewritten", None, PassResult]


class CleaningPass:
    """Carries out one plan."""

    def __init__(self, disk: Disk, directory: Path, settings: JournalSettings, plan: Plan) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._plan = plan
        self._keys = KeyMap(settings.clean_keys_max)
        self._filter = RecordFilter(self._keys, plan.now_ms, settings.clean_batch_bytes_max)
        self._result = PassResult()
        self._oldest_position = plan.sources[0].base_position

    def run(self) -> Steps:
        """Raises StorageError, CorruptData for what it finds damaged; nothing is left half done."""
        rules = self._plan.rules
        # All keys first: a record is old only if a later one of its key was noted.
        end_position = yield from self._note_keys()
        for group in self._groups(end_position):
            yield from self._rewrite(group)
        self._result.clean_offsets = {
            partition_id: log.mapped_offset for partition_id, log in rules.items() if log.is_compacted
        }
        return self._result

    # -- the first walk

    def _note_keys(self) -> Generator[int, None, int]:
        """Fill the map of keys. Returns the position up to which segments are to be rewritten."""
        rules = self._plan.rules
        for log in rules.values():
            # Before its clean offset a log holds each key once, so those keys need no room in the map.
            log.mapped_offset = log.clean_offset
        for source in self._plan.sources:
            # Nothing before this position is dirty: the first walk reads none of it.
            if source.base_position < self._plan.dirty_position or not source.is_touched:
                continue
            is_whole = yield from self._note_source(source)
            if not is_whole:
                self._result.is_complete = False
                # Segments behind this one have keys that were not noted, so only those up to it are rewritten.
                return source.base_position + 1
        for partition_id, log in rules.items():
            # A log with a problem keeps the offset up to which its keys were noted.
            if partition_id not in self._result.problems:
                log.mapped_offset = max(log.mapped_offset, log.limit_offset)
        return self._plan.sources[-1].range_end

    def _note_source(self, source: SourceSegment) -> Generator[int, None, bool]:
        """Note the keys of one segment. Returns False if the map is full."""
        with self._opened(source) as window:
            for header in _chunks(window, source):
                yield header.header_bytes
                for run in header.runs():
                    log = self._plan.rules.get(run.partition_id)
                    # A log that was deleted has no rules: its keys need no room in the map.
                    if log is not None and self._is_dirty(log, run):
                        view = window.view(run.position, run.bytes)
                        window.count_used(run.bytes)
                        is_whole = yield from self._note_run(source, log, view)
                        if not is_whole:
                            return False
        return True

    def _is_dirty(self, log: LogRules, run: chunk.LogRun) -> bool:
        return (
            log.is_compacted
            and run.kind == chunk.BATCHES
            and run.end_offset > log.mapped_offset
            and run.base_offset < log.limit_offset
            and log.partition_id not in self._result.problems
        )

    def _note_run(self, source: SourceSegment, log: LogRules, view: memoryview) -> Generator[int, None, bool]:
        yield len(view)
        for header, batch in _batches(source, view):
            # The first dirty run may begin with batches that an earlier pass has cleaned.
            if header.last_offset < log.mapped_offset:
                continue
            # The limit keeps out what is too young (`min.compaction.lag.ms`) or in an open transaction.
            if header.base_offset >= log.limit_offset:
                break
            is_first = not len(self._keys)
            noted = yield from self._filter.note(log, header, batch)
            # A batch counts only if all of its keys fit: otherwise its older records would look like the newest.
            if noted.is_whole:
                log.mapped_offset = header.last_offset + 1
            elif not noted.is_readable:
                self._give_up(log, f"the batch at offset {header.base_offset} cannot be unpacked")
                return True
            elif is_first:  # even an empty map is too small, so another pass would end here as well
                self._give_up(log, f"the batch at offset {header.base_offset} has more keys than cleaning has room for")
                return True
            else:
                return False
        return True

    def _give_up(self, log: LogRules, sentence: str) -> None:
        self._result.problems[log.partition_id] = sentence

    # -- the second walk

    def _groups(self, end_position: int) -> Iterator[list[SourceSegment]]:
        """Adjacent segments that fit into one; untouched segments are left out."""
        group: list[SourceSegment] = []
        size = 0
        for source in self._plan.sources:
            if source.base_position >= end_position:
                break
            source_bytes = source.end_position - source.base_position
            # An untouched segment separates groups: one file replaces only segments that follow each other.
            if group and (not source.is_touched or size + source_bytes > self._settings.segment_bytes):
                yield group
                group, size = [], 0
            if source.is_touched:
                group.append(source)
                size += source_bytes
        if group:
            yield group

    def _rewrite(self, group: list[SourceSegment]) -> Generator["int | Rewritten", None, None]:
        """Write a group again, if anything in it changes.

        Setting the delete horizon of tombstones (KIP-534) costs some bytes for each record of a batch. If nothing else
        shrinks, the result can outgrow the group's range of positions; then a second attempt sets no horizons.
        """
        base_position, range_end = group[0].base_position, group[-1].range_end
        met = [(log.transactions, log.transactions.bookmark()) for log in self._plan.rules.values()]
        for sets_horizons in (True, False):
            self._filter.sets_horizons = sets_horizons
            # Both attempts must meet the same aborted transactions and markers.
            for transactions, bookmark in met:
                transactions.go_back(bookmark)
            output = yield from self._filter_group(group)
            if output is None:
                return
            # The name states the range, and the next segment begins at its end: a larger file would overlap it.
            if output.position <= range_end:
                name = output.publish(range_end, 1 + max(source.generation for source in group))
                self._result.bytes_before += sum(source.end_position - source.base_position for source in group)
                self._result.bytes_after += output.position - base_position
                yield Rewritten(group, name, output.index)
                return
            output.discard()
        raise StorageError(f"{group[0].path} would outgrow its place by being cleaned")

    def _filter_group(self, group: list[SourceSegment]) -> Generator["int | Rewritten", None, CleanedFile | None]:
        """Write the remains of a group, not yet published. Returns None if nothing changes."""
        base_position = group[0].base_position
        output = CleanedFile(self._disk, self._directory, base_position, self._settings)
        try:
            # Merging small segments is worth a rewrite even if every record stays.
            is_changed = len(group) > 1
            starts = _Starts(output)
            for source in group:
                is_changed |= yield from self._filter_source(source, output, starts)
            # A log of which the group keeps nothing still has its start stated.
            starts.state_rest()
            if is_changed:
                output.seal_chunk()
                yield output.position - base_position
        # A full disk must get its space back; the sources are intact.
        except StorageError:
            output.discard()
            raise
        except GeneratorExit:
            output.close()  # the journal has ended, perhaps with the power: nothing more is done to its files
            raise
        if is_changed:
            return output
        output.discard()
        return None

    def _filter_source(
        self, source: SourceSegment, output: CleanedFile, starts: "_Starts"
    ) -> Generator[int, None, bool]:
        """Copy the remains of one segment. Returns True if anything was left out or rewritten."""
        is_changed = False
        written = output.position
        with self._opened(source) as window:
            for header in _chunks(window, source):
                # Chunks of one epoch may be merged; an epoch is in each batch too, so they must agree.
                output.begin_source_chunk(header.leader_epoch, header.append_time_ms)
                # Bytes read and bytes written both count, as Kafka's throttle counts both.
                yield header.end - header.position + output.position - written
                written = output.position
                for run in header.runs():
                    log = self._plan.rules.get(run.partition_id)
                    if run.kind != chunk.BATCHES:
                        is_changed |= not self._keep_statement(output, starts, run, log)
                    # The log was deleted: its batches are left out.
                    elif log is None:
                        is_changed = True
                    else:
                        view = window.view(run.position, run.bytes)
                        window.count_used(run.bytes)
                        is_changed |= yield from self._filter_run(source, log, view, output, starts)
        return is_changed

    def _filter_run(
        self, source: SourceSegment, log: LogRules, view: memoryview, output: CleanedFile, starts: "_Starts"
    ) -> Generator[int, None, bool]:
        is_changed = False
        for header, batch in _batches(source, view):
            starts.note_batch(log, header)
            kept = yield from self._filter.filter_batch(log, header, batch)
            # The filter returns the same object for an unchanged batch, so no bytes are compared.
            is_changed |= kept is not batch
            if kept is not None:
                starts.note_kept(log, header)
                output.add_batch(log.partition_id, header, kept)
        return is_changed

    def _keep_statement(self, output: CleanedFile, starts: "_Starts", run: chunk.LogRun, log: LogRules | None) -> bool:
        """Keep a statement while older segments may hold data of its log. Returns True if it stays."""
        if run.kind == chunk.EPOCH_BEGUN:  # of a time that no replica asks about any more
            return False
        if run.kind == chunk.DELETED:
            # All older data of the log goes in this very segment, but there may be some in older ones.
            stays = log is None and self._oldest_position < output.index.base_position
        elif run.kind == chunk.LOST:
            stays = log is not None and run.offset_count > 0  # its offsets are not given again
        else:
            stays = log is not None and run.base_offset >= log.start_offset and starts.moves_start(run)
        if stays:
            output.add_statement(run)
        return stays and not run.bytes

    # -- both

    @contextmanager
    def _opened(self, source: SourceSegment) -> Iterator[SegmentWindow]:
        with closing(self._disk.open(source.path)) as file:
            size = self._settings.read_ahead_bytes
            yield SegmentWindow(file, source.base_position, source.end_position, size, is_cached_only=False)


class _Starts:
    """The statements on log starts in one cleaned segment.

    A log starts at its first batch unless a statement says otherwise. Cleaning removes batches and leaves the start
    unchanged, so the start must be stated before the first batch that is kept, or alone if none is.
    """

    def __init__(self, output: CleanedFile) -> None:
        self._output = output
        self._stated: dict[int, int] = {}
        self._lost: dict[int, int] = {}  # logs of which nothing is kept so far, and what to state if it stays so
        self._kept: set[int] = set()

    def note_batch(self, log: LogRules, header: BatchHeader) -> None:
        # Other logs lose only batches before their start, which a statement of the writer has moved.
        if log.is_compacted and log.partition_id not in self._kept:
            self._lost.setdefault(log.partition_id, min(log.start_offset, header.base_offset))

    def note_kept(self, log: LogRules, header: BatchHeader) -> None:
        first = self._lost.pop(log.partition_id, header.base_offset)
        if log.partition_id not in self._kept:
            self._kept.add(log.partition_id)
            # Without a statement, recovery would take the first batch that is left for the start of the log.
            if first < header.base_offset:
                self._state(log.partition_id, first)

    def moves_start(self, run: chunk.LogRun) -> bool:
        """True if a statement moves the log's start beyond those stated so far; it counts as stated then."""
        if self._stated.get(run.partition_id, -1) >= run.base_offset:
            return False
        self._stated[run.partition_id] = run.base_offset
        return True

    def state_rest(self) -> None:
        for partition_id, offset in self._lost.items():
            self._state(partition_id, offset)

    def _state(self, partition_id: int, offset: int) -> None:
        if self._stated.get(partition_id, -1) < offset:
            self._stated[partition_id] = offset
            self._output.state_start(partition_id, offset)


def _chunks(window: SegmentWindow, source: SourceSegment) -> Iterator[chunk.Chunk]:
    position = source.base_position
    while position < source.end_position:
        header = window.chunk_at(position)
        yield header
        position = header.end


def _batches(source: SourceSegment, view: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a run, each checked. Raises CorruptData."""
    size = 0
    try:
        for header, batch in iterate_batches(view):
            # A copy of a rotten batch would get a place in a sound file, and its rot would be harder to find.
            if not is_intact(batch, header):
                raise CorruptData(f"the batch at offset {header.base_offset} in {source.path} fails its CRC")
            size += len(batch)
            yield header, batch
    except ProtocolError as error:
        raise CorruptData(f"a batch in {source.path} is damaged: {error}") from error
    if size != len(view):
        raise CorruptData(f"a run of batches in {source.path} ends inside a batch")
