"""Recovery: from the files in a directory to the state that a journal starts with.

Strategy: start from the last checkpoint and scan only the chunks appended after it, with every check; without a
checkpoint, scan all. The sound part ends at the first chunk that is torn or corrupt. Is that a crash or is it rot?

- A crash takes only bytes that were in flight, and none of those was acknowledged. The file is cut there, so that no
  stale byte can ever be taken for a later chunk. Segments behind the cut are renamed, never removed.
- If a chunk behind the place, or the checkpoint, proves that the place had been flushed, then acknowledged records are
  damaged, and a cut would drop sound ones with them. A person must decide which to give up: the journal is refused
  as it is, and an inspection names the cost of a repair.

One case looks like a crash and is not: rot in the newest chunk, with no chunk behind it and no checkpoint since.

Indexes are read, or rebuilt if missing or wrong. Runs on a worker from end to end: it blocks, and knows no loop.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

from hutong.foundation.errors import CorruptData, StorageError, UnknownFormat
from hutong.journal.append.leader_epochs import EpochStart, LeaderEpochs, epoch_node
from hutong.journal.append.learning import learn_batch
from hutong.journal.append.producers import Producers
from hutong.journal.append.transactions import LogTransactions
from hutong.journal.files.disk import Disk, DiskFile, read_file, replace_file
from hutong.journal.files.segment import PREPARED_NAME, Segment, checked_size, segment_name, select_segments
from hutong.journal.files.spans import span_of
from hutong.journal.format import chunk
from hutong.journal.format.clean_offsets import CLEAN_OFFSETS_NAME, parse_clean_offsets
from hutong.journal.format.index import SegmentIndex, Summary, encode_index, parse_summary
from hutong.journal.read.rebuild import load_index, rebuild_index
from hutong.journal.read.walk import WINDOW_BYTES_MAX, SegmentWindow
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, Checkpoint, parse_checkpoint
from hutong.journal.recover.recovered import Recovered, RecoveredLog, RecoveryReport, UncertainChunks
from hutong.journal.recover.resync import search_behind
from hutong.journal.recover.scan import ScannedChunk, scan_chunks
from hutong.journal.settings import JournalSettings

SET_ASIDE_SUFFIX: Final = ".set-aside"
INSTALL_NAME: Final = "install"  # a leader's files are about to take the place of this journal's


def recover(disk: Disk, directory: Path, settings: JournalSettings, node: int | None = None) -> Recovered:
    """Recover the journal in a directory, created if absent. Blocks. `node` is the number of this node among several.

    Raises StorageError: CorruptData if acknowledged records are damaged or missing, UnknownFormat, and others.
    """
    disk.make_directory(directory)
    return _Recovery(disk, directory, settings, node).run()


class _Recovery:
    def __init__(self, disk: Disk, directory: Path, settings: JournalSettings, node: int | None) -> None:
        self._node = node
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._report = RecoveryReport(directory)
        self._logs: dict[int, RecoveredLog] = {}
        self._leader_epoch = 0
        self._epochs = LeaderEpochs()
        self._uncertain = UncertainChunks() if node is not None else None

    def run(self) -> Recovered:
        self._remove_leftovers()
        segments = self._find_segments()
        checkpoint = self._load_checkpoint(segments)
        # Retention removes the oldest segments, so the first one need not begin at position 0.
        position = segments[0].base_position if segments else 0
        if checkpoint is not None:
            position = checkpoint.position
            self._restore(checkpoint)
        scanned_from = position
        for number, segment in enumerate(segments):
            # A checkpoint is written after the flush of everything before it, so that part needs no scan.
            if segment.next_position is not None and segment.next_position <= scanned_from:
                self._trust(segment)
                continue
            position, is_sound = self._scan(segment, max(scanned_from, segment.base_position), segments[number + 1 :])
            if not is_sound:
                # Chunks behind the cut have no predecessor any more; they were not acknowledged either (`_verdict`).
                self._set_aside(segments[number + 1 :])
                del segments[number + 1 :]
                segment.end_position = None
                break
        # The writer appends to the last segment, and nothing may be appended to a cleaned one.
        if segments and segments[-1].range_end is not None:
            position = self._begin_segment(segments)
        self._settle_offsets(segments)
        self._restore_clean_offsets()
        self._write_again(segments, scanned_from, position)
        report = self._report
        report.position, report.scanned_bytes = position, position - scanned_from
        # An empty directory is a new journal: there is nothing to report.
        is_new = not segments and checkpoint is None
        report.was_clean = is_new or (checkpoint is not None and checkpoint.is_clean and not report.scanned_bytes)
        return Recovered(position, self._leader_epoch, segments, self._logs, report, self._epochs, self._uncertain)

    def _remove_leftovers(self) -> None:
        names = self._disk.list(self._directory)
        if INSTALL_NAME in names:
            from hutong.journal.replicate.install import finish_install  # late: rare, and never for a node alone

            finish_install(self._disk, self._directory)
            names = self._disk.list(self._directory)
        for name in names:
            # A prepared segment without its name, or a file that was not renamed yet: nothing refers to either.
            if name == PREPARED_NAME or name.endswith(".tmp"):
                self._disk.unlink(self._directory / name)

    def _find_segments(self) -> list[Segment]:
        """Every segment in order; all but the last end where the next one begins, and cleaned ones before that."""
        names, replaced = select_segments(self._disk.list(self._directory))
        if replaced:
            # The directory first: a crash must not keep the removal and lose the rename of the cleaned segment.
            self._disk.sync_directory(self._directory)
        for name in replaced:
            self._disk.unlink(self._directory / name)
        segments = [Segment.named(self._directory, name) for name in names]
        for segment, following in pairwise(segments):
            if segment.range_end is None:
                segment.end_position = following.base_position
            # Ordinary segments show a hole by their size (`_trust`, `_scan`); only a cleaned one states its end.
            elif segment.range_end != following.base_position:
                raise CorruptData(f"the segment behind {segment.path} is missing: restore it from a copy")
        return segments

    def _size(self, segment: Segment) -> int:
        with closing(self._disk.open(segment.path)) as file:
            return checked_size(segment.path, file.size())

    def _load_checkpoint(self, segments: list[Segment]) -> Checkpoint | None:
        path = self._directory / CHECKPOINT_NAME
        content = read_file(self._disk, path)
        if content is None:
            if segments:
                # Without a segment the journal is new, and has no checkpoint yet.
                self._report.repairs.append(f"{path} is missing; everything was read.")
            return None
        try:
            checkpoint = parse_checkpoint(content)
        except CorruptData as error:
            # The checkpoint is a shortcut: without it the start takes longer and finds the same.
            self._report.has_damaged_checkpoint = True
            self._report.repairs.append(f"{path}: {error}; everything was read.")
            return None
        end = self._end_of(segments)
        # A checkpoint is newer than the flush of its position, so a shorter journal has lost a file or a part of one.
        if checkpoint.position > end:
            last = segments[-1].path if segments else self._directory
            raise CorruptData(
                f"{last}: the journal ends at position {end}, but everything up to position {checkpoint.position} had "
                "been flushed, as the checkpoint says, so acknowledged records are missing; nothing was changed"
            )
        # Only an older checkpoint, such as one from a copy, gets here: removal and cleaning stay before the newest one.
        if segments and not self._is_covered(segments, checkpoint.position):
            self._report.repairs.append(
                f"{path} speaks of position {checkpoint.position}, which no segment holds; everything was read."
            )
            return None
        return checkpoint

    def _is_covered(self, segments: list[Segment], position: int) -> bool:
        if any(segment.base_position < position < (segment.range_end or 0) for segment in segments):
            return False  # cleaning has moved what was there
        return segments[0].base_position <= position

    def _end_of(self, segments: list[Segment]) -> int:
        """The position at which the files end, with any content."""
        if not segments:
            return 0
        last = segments[-1]
        # A cleaned file is shorter than the positions that it covers, so its name is asked first.
        return last.range_end or last.base_position + self._size(last)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._leader_epoch = checkpoint.leader_epoch
        # A checkpoint of a version without epochs: everything before it counts as one.
        self._epochs = LeaderEpochs(checkpoint.epochs or [EpochStart(checkpoint.leader_epoch, 0)])
        for partition_id, state in checkpoint.logs.items():
            log = self._log(partition_id, state.start_offset)
            log.end_offset = log.committed_offset = state.end_offset
            for producer_id, producer in state.producers.items():
                log.producers.restore(producer_id, producer)  # so that a repetition after the start is recognised
            # Most logs never see a transaction, and save the object.
            if state.open or len(state.aborted):
                log.transactions = LogTransactions(state.open, state.aborted)
                log.producers.in_transaction = log.transactions.open

    def _log(self, partition_id: int, start_offset: int) -> RecoveredLog:
        log = self._logs.get(partition_id)
        if log is None:
            producers = Producers(self._settings.producers_max, self._settings.producer_expiry_ms)
            log = self._logs[partition_id] = RecoveredLog(start_offset, start_offset, producers)
        return log

    def _trust(self, segment: Segment) -> None:
        """Take in a closed segment before the checkpoint by its index, unread. Raises CorruptData at a hole."""
        assert segment.end_position is not None
        # Its content is checked when it is read; a missing end would be found by nobody.
        if self._size(segment) < segment.end_position - segment.base_position:
            raise CorruptData(
                f"{segment.path} is shorter than it was, or the segment after it is missing: restore it from a copy"
            )
        self._note_spans(segment, self._summaries(segment))

    def _note_spans(self, segment: Segment, summaries: list[Summary]) -> None:
        for summary in summaries:
            segment.held_bytes += summary.bytes
            log = self._logs.get(summary.partition_id)
            if log is None:  # it was deleted
                segment.dead_bytes += summary.bytes
            else:
                log.spans.add(span_of(segment.base_position, summary))

    def _summaries(self, segment: Segment) -> list[Summary]:
        content = read_file(self._disk, segment.index_path)
        try:
            if content is None:
                raise CorruptData("there is no index")
            end_position, summaries = parse_summary(content)
            if end_position != segment.end_position:  # an index from before the segment was closed
                raise CorruptData(f"the index ends at position {end_position}")
        except CorruptData as error:
            assert segment.end_position is not None
            with closing(self._disk.open(segment.path)) as file:
                index = self._rebuilt(segment, file, segment.end_position)
            self._save_index(segment, index, segment.end_position)
            self._report.repairs.append(f"{segment.index_path}: {error}; it was rebuilt.")
            return index.summaries()
        return summaries

    def _scan(self, segment: Segment, position: int, later: list[Segment]) -> tuple[int, bool]:
        """Scan a segment from `position` on. Returns the end of its sound part, and True if the segment is complete."""
        file = segment.file = self._disk.open(segment.path)
        file_end = segment.base_position + checked_size(segment.path, file.size())
        # The newest file may be longer than the journal (reserved blocks), a closed one longer than its range.
        end = file_end if segment.end_position is None else min(file_end, segment.end_position)
        index = self._index_up_to(segment, file, position)
        window = SegmentWindow(file, segment.base_position, end, WINDOW_BYTES_MAX, is_cached_only=False)
        problem: CorruptData | None = None
        try:
            for scanned in scan_chunks(window, position, end):
                self._apply(index, scanned)
                if self._uncertain is not None:
                    self._uncertain.add(scanned)
                position = scanned.header.end
        except CorruptData as error:
            problem = error
        except UnknownFormat as error:  # written by a newer version: not damaged, so nothing may be cut
            raise UnknownFormat(f"{segment.path}: {error}; nothing was changed") from error
        is_sound = problem is None and position == (segment.end_position or position)
        # A damaged segment becomes the newest: writing continues at the cut.
        if not is_sound or segment.end_position is None:
            self._cut(segment, file, position, file_end, self._verdict(segment, window, position, problem, later))
            segment.index = index
            if position > segment.base_position:
                with suppress(CorruptData):  # damage before the checkpoint is found by its readers
                    segment.begun_ms = window.chunk_at(segment.base_position).append_time_ms
        else:
            file.flush()  # a page that was read may be in memory alone
            file.close()
            segment.file = None
            self._note_spans(segment, index.summaries())
            self._save_index(segment, index, position)
        return position, is_sound

    def _verdict(
        self, segment: Segment, window: SegmentWindow, position: int, problem: CorruptData | None, later: list[Segment]
    ) -> str | None:
        """Tell a crash from rot: the sentence for a torn tail, None for a blank one. Raises CorruptData for rot."""
        # Each header names the bytes before it that were not flushed when it was made (FAST '18, see `chunk`). So a
        # sound header behind this place, with the place in its flushed part, is a witness that it was once on disk.
        behind = search_behind(window, position, window.end_position, self._windows(later))
        if problem is not None:
            sentence = str(problem)
        # Zeros are a blank tail only if nothing follows them: neither a chunk nor the end of a closed segment.
        elif behind.first is not None or (segment.end_position or position) != position:
            sentence = f"no chunk begins at position {position}, where one should"
        else:
            return None
        if behind.witness is None:  # nobody was ever promised these bytes: a crash took them
            return sentence
        # A chunk of another replica speaks of that one's disk. What is missing here comes from the leader again.
        if self._node is not None and self._epochs.node_of(behind.witness.leader_epoch) != self._node:
            return sentence
        raise CorruptData(
            f"{segment.path}: {sentence}; what lay there had been flushed, as the chunk at position "
            f"{behind.witness.position} says, so acknowledged records are damaged; nothing was changed"
        )

    def _windows(self, segments: list[Segment]) -> Iterator[SegmentWindow]:
        for segment in segments:
            with closing(self._disk.open(segment.path)) as file:
                end = segment.base_position + file.size()
                yield SegmentWindow(file, segment.base_position, end, 0, is_cached_only=False)

    def _index_up_to(self, segment: Segment, file: DiskFile, position: int) -> SegmentIndex:
        """The index of the part of a segment that need not be scanned."""
        if position > segment.base_position:
            try:
                index = load_index(self._disk, segment, position, self._settings)
                if index is not None:
                    return index
            except CorruptData as error:
                self._report.repairs.append(f"{segment.index_path}: {error}; it was rebuilt.")
        return self._rebuilt(segment, file, position)

    def _rebuilt(self, segment: Segment, file: DiskFile, end_position: int) -> SegmentIndex:
        try:
            return rebuild_index(file, segment.base_position, end_position, self._settings)
        except CorruptData as error:
            raise CorruptData(f"{segment.path}: {error}, before the last checkpoint; nothing was changed") from error

    def _apply(self, index: SegmentIndex, scanned: ScannedChunk) -> None:
        header = scanned.header
        # Checked before anything is applied: a chunk is taken in whole or not at all.
        for run, _, _ in scanned.runs:
            known = self._logs.get(run.partition_id)
            if run.kind == chunk.BATCHES and known is not None and run.base_offset < known.end_offset:
                raise CorruptData(
                    f"partition {run.partition_id} in the chunk at position {header.position} goes back to offset "
                    f"{run.base_offset}"
                )
        self._leader_epoch = max(self._leader_epoch, header.leader_epoch)
        self._epochs.note(header.leader_epoch, header.position, epoch_node(header))
        for run, batches, markers in scanned.runs:
            if run.kind == chunk.DELETED:  # its id is not used again while any of its bytes are left
                self._logs.pop(run.partition_id, None)
                continue
            # Of no log, or the repair could not find out of which.
            if run.kind == chunk.EPOCH_BEGUN or (run.kind == chunk.LOST and not run.offset_count):
                continue
            # A log that is younger than the checkpoint begins with its first run, or with a statement that names it.
            log = self._log(run.partition_id, run.base_offset)
            if run.kind == chunk.LOST:
                log.end_offset = max(log.end_offset, run.end_offset)  # its offsets are not given again
                continue
            if run.kind == chunk.START_MOVED:
                log.start_offset = max(log.start_offset, run.base_offset)
                continue
            log.end_offset = run.end_offset
            extents = index.of(run.partition_id)
            extents.add(run.base_offset, run.end_offset, header.position, run.bytes, run.max_timestamp_ms)
            for batch in batches:
                if batch.producer_id >= 0:  # KIP-98: sequences and transactions since the checkpoint
                    learn_batch(log, batch, markers.get(batch.base_offset), header.append_time_ms)

    def _cut(self, segment: Segment, file: DiskFile, position: int, end: int, problem: str | None) -> None:
        """End the journal at `position`: nothing behind it was ever acknowledged."""
        if problem is not None:
            self._report.repairs.append(
                f"{segment.path}: {problem}; nothing says that it was ever flushed, so the journal was cut at position "
                f"{position}."
            )
        # Truncated before anything is appended: stale bytes there could form a chunk that looks sound.
        if end > position:
            file.truncate(position - segment.base_position)
        file.flush()
        segment.allocated_bytes = position - segment.base_position

    def _write_again(self, segments: list[Segment], start: int, end: int) -> None:
        """Write and flush the newest bytes again before anything is acknowledged on top of them.

        A flush that failed before the last stop has left pages that look clean and are not on disk (Rebello et al., ATC
        '20): they read well now and would be gone after a power loss. Only bytes that can have been in flight are
        written again; everything before them was flushed with success.
        """
        settings = self._settings
        # Unflushed bytes are bounded: twice the limit of congestion, then one batch and one chunk on top.
        in_flight_bytes_max = 2 * settings.dirty_bytes_max + settings.batch_bytes_max + settings.chunk_bytes_max
        start = max(start, end - in_flight_bytes_max)
        for segment in segments:
            first = max(start, segment.base_position)
            last = end if segment.end_position is None else segment.end_position
            # Segments before the part in flight were flushed, and those behind the cut are gone.
            if first >= last:
                continue
            file = segment.file or self._disk.open(segment.path)
            for position in range(first, last, WINDOW_BYTES_MAX):
                at = position - segment.base_position
                file.write([file.read(min(WINDOW_BYTES_MAX, last - position), at)], at)
            file.flush()
            if segment.file is None:
                file.close()
        if start < end:
            self._disk.sync_directory(self._directory)

    def _set_aside(self, segments: list[Segment]) -> None:
        for segment in segments:
            target = segment.path.with_name(segment.path.name + SET_ASIDE_SUFFIX)
            self._disk.rename(segment.path, target)
            # An index left behind could be taken for that of a later segment of the same name.
            self._disk.unlink(segment.index_path)
            self._report.repairs.append(f"{segment.path} lies behind the cut; it was set aside as {target.name}.")
        if segments:
            self._disk.sync_directory(self._directory)

    def _save_index(self, segment: Segment, index: SegmentIndex, end_position: int) -> None:
        try:
            replace_file(self._disk, segment.index_path, encode_index(index, end_position))
        except StorageError as error:  # an index is a shortcut: a full disk does not keep the journal from opening
            self._report.repairs.append(f"{segment.index_path} could not be written ({error}); it will be rebuilt.")

    def _restore_clean_offsets(self) -> None:
        """Restore the clean offsets. Without them everything counts as dirty; none may be beyond the end of its log."""
        path = self._directory / CLEAN_OFFSETS_NAME
        content = read_file(self._disk, path)
        try:
            offsets = parse_clean_offsets(content) if content is not None else {}
        except CorruptData as error:
            self._report.repairs.append(f"{path}: {error}; compacted logs will be cleaned from their start.")
            return
        for partition_id, offset in offsets.items():
            if partition_id in self._logs:
                log = self._logs[partition_id]
                # A cut may have taken what was clean; new records there are dirty.
                log.clean_offset = min(offset, log.end_offset)
                # Of what was aborted there nothing is left, perhaps no markers either: the checkpoint may be older.
                if log.transactions is not None:
                    log.transactions.aborted.forget_before(log.clean_offset)

    def _begin_segment(self, segments: list[Segment]) -> int:
        """Begin a new segment behind a cleaned one, whose name fixes its size."""
        position = segments[-1].range_end
        assert position is not None
        settings = self._settings
        active = Segment(position, self._directory / segment_name(position))
        active.index = SegmentIndex(position, settings.index_interval_bytes, settings.index_distance_bytes)
        segments.append(active)
        return position

    def _settle_offsets(self, segments: list[Segment]) -> None:
        """Move the start of each log to its first batch, unless cleaning may have removed batches before that.

        Cleaning leaves the start of a log unchanged: a read of removed records gets those that follow.
        """
        is_cleaned = any(segment.range_end is not None for segment in segments)
        active = segments[-1].index if segments else None
        for partition_id, log in self._logs.items():
            extents = active.extents.get(partition_id) if active is not None else None
            if len(log.spans):
                first = log.spans[0].first_offset
            # Closed segments are older than the active one, so the log's first batch is there if they hold any.
            elif extents is not None:
                first = extents.base_offsets[0]
            else:
                first = log.end_offset
            if not is_cleaned:  # without cleaning, nothing is left of a log before its first batch
                log.start_offset = max(log.start_offset, first)
            log.end_offset = max(log.end_offset, log.start_offset)
            if log.transactions is not None:
                log.transactions.aborted.forget_before(log.start_offset)
