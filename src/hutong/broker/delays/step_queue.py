"""The queue of one step: its records come out when the step is over, in their order.

    read behind what came out ── nothing ──▶ watch the log
            │
       is the step over for the first? ── no ──▶ a timer
            │ yes
       it comes out ──▶ read on, where the machine has room
            │ settled
       the log begins behind it, and all before it

Strategy: the start of the log is all that is kept, so a node that dies brings some records out again, and disk space
comes back. Decides nothing of what happens to the records. All calls come on the loop.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from hutong.broker.delays.machine import DelayedEntry, entry_of
from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.steps import DelayedRecord, unpacked
from hutong.broker.delays.stored_records import stored_records
from hutong.broker.topics.partition import Partition
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.journal.log import DiskRead, PartitionLog, Views
from hutong.wire.kafka.batch.records import BatchHeader, Record, iterate_batches

READ_BYTES: Final = 256 * 1024
AGAIN_MS: Final = 1_000  # after a read that failed
TOGETHER_MAX: Final = 500  # records that come out in one piece: some 10 ms of the loop
_log: Final = logging.getLogger("hutong.delays")


class Exit(Protocol):
    """Takes the records that come out."""

    def has_room(self, then: Callable[[], None]) -> bool:
        """True if records may come out now; otherwise `then` is called when they may."""

    def come_out(self, entries: Sequence[DelayedEntry]) -> None:
        """Take records, whose progress says when they are settled."""


class StepQueue:
    """Brings records out, once `run` was called, until `close`."""

    def __init__(
        self,
        partition: Partition,
        step_ms: int,
        exit_: Exit,
        clock: Clock,
        timers: TimerWheel,
        delayed_of: Callable[[Record], DelayedRecord | None] = unpacked,
    ) -> None:
        self._partition = partition
        self._watched: PartitionLog | None = None  # before the first run nothing comes out
        self._step_ms = step_ms
        self._exit = exit_
        self._clock = clock
        self._timers = timers
        self._delayed_of = delayed_of
        self._timer: Timer | None = None
        self._is_busy = False  # it reads
        self._is_closed = False
        self.progress = QueueProgress(partition.log.start_offset)

    def run(self) -> None:
        """Bring out what has waited. Also called when the log has more, or begins later."""
        if self._is_busy:
            return
        self._is_busy = True
        while (found := self._next()) is not None:
            if isinstance(found, DiskRead):
                self._partition.log.read_from_disk(found, self._read)
                return
            self._take(found.buffers)
        self._is_busy = False

    @property
    def is_caught_up(self) -> bool:
        """True if all that has waited long enough has come out."""
        return self._timer is not None or self._partition.log.last_stable_offset <= self.progress.next_offset

    def trim(self) -> None:
        """Let the log begin where the first record is that is still needed."""
        log, offset = self._partition.log, self.progress.start_offset
        if self._is_closed or offset <= log.start_offset:
            return
        try:
            self._partition.check_served()
            log.delete_before(offset)
        # Another node leads it now, or the log was trimmed meanwhile: then they come out again.
        except HutongError:
            return

    def close(self) -> None:
        """Bring nothing more out."""
        self._is_closed = True
        self.progress.is_open = False
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> Views | DiskRead[list[memoryview]] | None:
        """The batches that may come out next, None where none may."""
        # A timer waits for the first, and what comes behind that comes out later.
        if self._is_closed or self._timer is not None:
            return None
        log = self._partition.log
        # The first time, and where its journal was opened anew.
        if log is not self._watched:
            self._unwatch()
            self._watched = log
            log.watch(self.run)
        self.progress.begin_at(log.start_offset)
        if log.last_stable_offset <= self.progress.next_offset or not self._exit.has_room(self.run):
            return None
        try:
            self._partition.check_served()
            return log.read(self.progress.next_offset, READ_BYTES, up_to=log.last_stable_offset)
        # Another node leads it now, or its disk has failed.
        except HutongError:
            return None

    def _read(self, outcome: list[memoryview] | HutongError) -> None:
        self._is_busy = False
        if self._is_closed:
            return
        # A damaged chunk stays so: each second one line, until somebody mends it (`hutong doctor`).
        if isinstance(outcome, HutongError):
            _log.error("delayed records of the step of %d s cannot be read: %s", self._step_ms // 1_000, outcome)
            self._wait(AGAIN_MS)
            return
        self._take(outcome)
        self.run()

    def _take(self, buffers: Sequence[memoryview]) -> None:
        entries, wait_ms = self._over(buffers)
        if wait_ms is not None:
            self._wait(wait_ms)
        if entries:
            self._exit.come_out(entries)
        # Records that are not the node's, and markers, were passed over.
        else:
            self.trim()

    def _over(self, buffers: Sequence[memoryview]) -> tuple[list[DelayedEntry], int | None]:
        """The records that come out, and the time until the next one does."""
        now_ms, progress = self._clock.wall_ms(), self.progress
        entries: list[DelayedEntry] = []
        for buffer in buffers:
            for header, batch in iterate_batches(buffer):
                for record in stored_records(batch) if self._is_decided(header) else ():
                    # A read begins with the batch that has the offset.
                    if record.offset < progress.next_offset:
                        continue
                    if len(entries) >= TOGETHER_MAX:
                        return entries, None
                    # Without a step the timestamp says nothing: it may be a client's.
                    wait_ms = record.timestamp_ms + self._step_ms - now_ms if self._step_ms else 0
                    # Never longer than the step: the clock may have been set back since.
                    if wait_ms > 0:
                        return entries, min(wait_ms, self._step_ms)
                    delayed = self._delayed_of(record)
                    # It has no place to go to.
                    if delayed is None:
                        _log.error("a record among delayed ones has no place, and is left out")
                        progress.pass_over(record.offset + 1)
                    else:
                        progress.take(record.offset)
                        entries.append(entry_of(progress, record.offset, delayed))
                progress.pass_over(header.last_offset + 1)
        return entries, None

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._watched.unwatch(self.run)

    def _is_decided(self, header: BatchHeader) -> bool:
        """False for a batch that is no records, or whose transaction was aborted."""
        transactions, offset = self._partition.log.transactions, header.last_offset
        if header.is_control or not header.is_transactional or transactions is None:
            return not header.is_control
        return not any(
            producer_id == header.producer_id and first_offset <= offset
            for producer_id, first_offset in transactions.aborted.between(offset, offset + 1)
        )

    def _wait(self, milliseconds: int) -> None:
        self._timer = self._timers.add(self._clock.monotonic_ms() + milliseconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.run()
