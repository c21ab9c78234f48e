"""Checkpoints, which keep the next start short, and the completion of closed segments.

Strategy: a checkpoint is due once enough was flushed since the last one, in bytes or in runs (a scan spends its time on
small runs), after a segment was closed, or after some time with anything new. The state is copied at the end of the
stream, between two chunks, and written once all of that stream is committed: so a checkpoint never covers bytes that a
crash, or another leader, could still take. The copy is a few numbers for each log. A worker encodes and writes it,
after it has cut closed segments to their exact size and written their indexes.

A checkpoint that fails costs only a longer start, so the journal continues; the error is kept in `last_error`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.append.leader_epochs import LeaderEpochs
from hutong.journal.append.progress import Progress
from hutong.journal.append.qos import Qos
from hutong.journal.append.writer import Writer
from hutong.journal.files.disk import Disk, DiskFile, replace_file
from hutong.journal.files.segment import Segment
from hutong.journal.format.index import SegmentIndex, encode_index
from hutong.journal.log import PartitionLog
from hutong.journal.recover.checkpoint import CHECKPOINT_NAME, Checkpoint, LogState, encode_checkpoint
from hutong.journal.resources import JournalPart, JournalResources


@dataclass(frozen=True, slots=True)
class _Closed:
    """A segment that gets no more chunks, and its complete index."""

    segment: Segment
    index: SegmentIndex
    end_position: int


File = tuple[Path, Callable[[], bytes]]
"""A file to replace and what makes its content, on a worker."""


def _write(disk: Disk, sizes: list[tuple[DiskFile, int]], files: list[File]) -> None:
    """Cut files to their sizes, then replace others, in that order. Blocks. Raises StorageError."""
    for file, size in sizes:
        file.truncate(size)
        file.flush()
    for path, content in files:
        replace_file(disk, path, content())


def _state_of(log: PartitionLog) -> LogState:
    """A copy of a log's state; later changes of the log do not affect it."""
    state = LogState(log.start_offset, log.end_offset)
    if log.producers is not None:
        state.producers = log.producers.states()
    if log.transactions is not None:
        state.open, state.aborted = list(log.transactions.open.items()), log.transactions.aborted.rows()
    return state


class Checkpointer(JournalPart):
    """Writes one journal's checkpoints, so far the one of `position`. Figures: checkpoints_total, last_position."""

    def __init__(
        self,
        resources: JournalResources,
        progress: Progress,
        writer: Writer,
        logs: Mapping[int, PartitionLog],
        epochs: LeaderEpochs,
        position: int,
    ) -> None:
        """`position` is that of the last checkpoint on the disk."""
        super().__init__(resources)
        self.last_error: HutongError | None = None
        self.checkpoints_total = 0
        self.last_position = position
        self._progress = progress
        self._writer = writer
        self._logs = logs
        self._epochs = epochs
        self._last_runs_total = 0  # of the writer, when the last checkpoint was begun
        self._unfinished: list[_Closed] = []  # since the last checkpoint, oldest first
        self._is_running = False
        self._timer: Timer | None = None

    def segment_closed(self, segment: Segment) -> None:
        """Complete the segment with the next checkpoint: it gets no more chunks, and its index is complete."""
        assert segment.index is not None
        assert segment.end_position is not None
        self._unfinished.append(_Closed(segment, segment.index, segment.end_position))

    def flushed(self) -> None:
        """Begin a checkpoint if the advance of the flushed position makes one due, or set its timer."""
        flushed_position = self._progress.flushed_position
        is_closed = bool(self._unfinished) and self._unfinished[0].end_position <= flushed_position
        behind = flushed_position - self.last_position
        settings = self._settings
        is_much = (
            behind >= settings.checkpoint_interval_bytes
            or self._writer.runs_total - self._last_runs_total >= settings.checkpoint_interval_runs
        )
        # After a failure only the timer tries again, not every flush.
        if (is_closed or is_much) and self.last_error is None:
            self.begin_checkpoint()
        elif behind > 0 and self._timer is None:
            deadline_ms = self._clock.monotonic_ms() + self._settings.checkpoint_interval_ms
            self._timer = self._timers.add(deadline_ms, self._interval_passed)

    def begin_checkpoint(self) -> None:
        """Write a checkpoint, unless one is on its way."""
        if not self._is_running:
            self.write_checkpoint(is_clean=False, then=lambda error: self._events.checkpoint_ended(error))

    def write_checkpoint(self, is_clean: bool, then: Continuation[None]) -> None:
        """Write a checkpoint of the stream as it is now; `then` gets the error if it fails."""
        self._is_running = True
        self._writer.seal_chunk()
        position = self._writer.position
        self._last_runs_total = self._writer.runs_total
        state = self._state(position, is_clean)
        active = self._segments.active
        files: list[File] = []
        # An empty segment has no file yet, and needs no index.
        if active is not None and position > active.base_position:
            files.append((active.index_path, partial(encode_index, self._segments.active_index.copy(), position)))
        files.append((self._segments.directory / CHECKPOINT_NAME, partial(encode_checkpoint, state)))

        def committed(error: HutongError | None) -> None:
            if error is not None:
                self._ended(position, [], error, then)
            else:
                self._submit(position, files, is_clean, then)

        # Not only flushed here: a replica may have to cut what another leader never had, and then starts from before.
        self._writer.when_safe(Qos.ALL, committed)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _state(self, position: int, is_clean: bool) -> Checkpoint:
        logs = {partition_id: _state_of(log) for partition_id, log in self._logs.items()}
        return Checkpoint(position, self._writer.leader_epoch, is_clean, logs, self._epochs.starts())

    def _submit(self, position: int, files: list[File], is_clean: bool, then: Continuation[None]) -> None:
        closed = [entry for entry in self._unfinished if entry.end_position <= position and not entry.segment.is_doomed]
        self._unfinished = [entry for entry in self._unfinished if entry.end_position > position]
        sizes: list[tuple[DiskFile, int]] = []
        indexes: list[File] = []
        for entry in closed:
            segment = entry.segment
            assert segment.file is not None, "what is flushed has a file"
            sizes.append((segment.file, entry.end_position - segment.base_position))
            indexes.append((segment.index_path, partial(encode_index, entry.index, entry.end_position)))
            self._segments.begin_reading(segment)  # keeps its file open, whatever retention does meanwhile
        active = self._segments.active
        # A clean stop cuts the newest file too, so that no file ends with a blank tail.
        if is_clean and active is not None and active.file is not None:
            sizes.append((active.file, position - active.base_position))
        self._jobs.submit(
            lambda: _write(self._disk, sizes, indexes + files),
            lambda outcome: self._ended(position, closed, outcome, then),
        )

    def _ended(
        self, position: int, closed: list[_Closed], outcome: BaseException | None, then: Continuation[None]
    ) -> None:
        self._is_running = False
        for entry in closed:
            entry.segment.is_complete = outcome is None
            self._segments.end_reading(entry.segment, None, None)
        if isinstance(outcome, HutongError):
            self.last_error = outcome  # the timer tries again
            self._unfinished = closed + self._unfinished
        elif outcome is not None:
            raise outcome
        else:
            self.last_error = None
            self.checkpoints_total += 1
            self.last_position = position
        then(outcome)
        if self._unfinished and not isinstance(outcome, HutongError):
            self.flushed()  # a segment was closed meanwhile, perhaps with nothing to be flushed after it

    def _interval_passed(self) -> None:
        self._timer = None
        self.last_error = None
        if self._progress.flushed_position > self.last_position:
            self.begin_checkpoint()
