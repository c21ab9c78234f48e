"""The queue of one delay level: its head is delivered when it is due.

    read at the offset ── nothing ──▶ watch the log
            │
       head is due? ── no ──▶ a timer
            │ yes
       append what is due to its real queues ── failed ──▶ the same again after a while
            │ all are safe
       begin the log behind them ──▶ read on

Strategy: the start of the log is what was delivered, so nothing else is stored, and disk space comes back. A node that
dies between an append and that delivers some messages again, as RocketMQ does.

Decides nothing of levels. All calls come on the loop.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from hutong.broker.rocketmq.delays.levels import delivered
from hutong.broker.rocketmq.records.translation import message_of
from hutong.broker.topics.partition import Partition
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused, UsageError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records
from hutong.wire.rocketmq.messages import NO_HOST, StoredMessage

READ_BYTES: Final = 256 * 1024
AGAIN_MS: Final = 1_000  # after a read or an append that failed
TOGETHER_MAX: Final = 500  # messages that are appended before the first is known to be safe
_log: Final = logging.getLogger("hutong.rocketmq")


class Delivery(Protocol):
    """Appends messages to their real queues."""

    def deliver(self, topic: str, queue_id: int, message: StoredMessage, then: Continuation[None]) -> None:
        """Append the message; `then` is called once it is safe, or lost for good since its topic is gone."""


class LevelQueue:
    """Delivers the messages of one queue, once `run` was called, until `close`."""

    def __init__(
        self, partition: Partition, delay_ms: int, delivery: Delivery, clock: Clock, timers: TimerWheel
    ) -> None:
        self._partition = partition
        self._delay_ms = delay_ms
        self._delivery = delivery
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._is_busy = False  # it reads, or appends
        self._is_closed = False
        self._outstanding = 0
        self._has_failed = False
        self._watched = partition.log
        self._watched.watch(self.run)

    def run(self) -> None:
        """Deliver what is due. Also called when the log has more, or begins later."""
        # A timer waits for the head, and what comes behind that is due later.
        if self._is_busy or self._is_closed or self._timer is not None:
            return
        log = self._partition.log
        # Its journal was opened anew.
        if log is not self._watched:
            self._watched.unwatch(self.run)
            self._watched = log
            log.watch(self.run)
        try:
            self._partition.check_served()
            found = log.read(log.start_offset, READ_BYTES, up_to=log.last_stable_offset)
        # Another node leads it now, or its disk has failed.
        except HutongError:
            return
        self._is_busy = True
        if isinstance(found, DiskRead):
            log.read_from_disk(found, self._read)
        else:
            self._read(found.buffers)

    def close(self) -> None:
        """Deliver nothing more."""
        self._is_closed = True
        self._watched.unwatch(self.run)
        if self._timer is not None:
            self._timer.cancel()

    def _read(self, outcome: Sequence[memoryview] | HutongError) -> None:
        self._is_busy = False
        if self._is_closed:
            return
        # A damaged chunk stays so: each second one line, until somebody mends it (`hutong doctor`).
        if isinstance(outcome, HutongError):
            _log.error("delayed messages of %d s cannot be read: %s", self._delay_ms // 1_000, outcome)
            self._wait(AGAIN_MS)
            return
        due, next_offset, wait_ms = self._due(outcome)
        # Nothing is due, and yet there is something to pass over: markers, or what nobody can read.
        if due or next_offset > self._partition.log.start_offset:
            self._deliver(due, next_offset)
        elif wait_ms is not None:
            self._wait(wait_ms)

    def _due(self, buffers: Sequence[memoryview]) -> tuple[list[Record], int, int | None]:
        """The records that are due, the offset behind what was looked at, and the time until the next one is due."""
        start_offset, now_ms = self._partition.log.start_offset, self._clock.wall_ms()
        due: list[Record] = []
        next_offset = start_offset
        for buffer in buffers:
            for header, batch in iterate_batches(buffer):
                for record in self._records(batch) if not header.is_control else ():
                    wait_ms = record.timestamp_ms + self._delay_ms - now_ms
                    # A read begins with the batch that has the offset.
                    if record.offset < start_offset:
                        continue
                    # Never longer than the delay: the clock may have been set back since.
                    if wait_ms > 0:
                        return due, next_offset, min(wait_ms, self._delay_ms)
                    # After a night without a node everything is due at once.
                    if len(due) >= TOGETHER_MAX:
                        return due, next_offset, None
                    due.append(record)
                    next_offset = record.offset + 1
                next_offset = max(next_offset, header.last_offset + 1)
        return due, next_offset, None

    def _records(self, batch: memoryview) -> list[Record]:
        try:
            return [*iterate_records(batch)]
        # A Kafka client wrote it, maybe with a codec that is not installed here; there is nobody to answer.
        except (ProtocolError, LimitExceeded, UsageError) as error:
            _log.error("a batch among delayed messages cannot be read, and is left out: %s", error)
            return []

    def _deliver(self, due: Sequence[Record], next_offset: int) -> None:
        self._is_busy, self._has_failed = True, False
        # One more than there are: the last call comes from here.
        self._outstanding = len(due) + 1
        for record in due:
            message = message_of(record, "", 0, 0, NO_HOST)
            found = delivered(message)
            # It has no place to go to; it must not hold up the others.
            if found is None:
                self._settle(next_offset, None)
                continue
            message, place = found
            self._delivery.deliver(place.topic, place.queue_id, message, partial(self._settle, next_offset))
        self._settle(next_offset, None)

    def _settle(self, next_offset: int, error: HutongError | None) -> None:
        self._outstanding -= 1
        self._has_failed = self._has_failed or error is not None
        if self._outstanding:
            return
        self._is_busy = False
        if self._is_closed:
            return
        # Those that were stored come twice then: which of them it was is not kept.
        if self._has_failed:
            self._wait(AGAIN_MS)
            return
        try:
            self._partition.check_served()
            self._partition.log.delete_before(next_offset)
        # Another node leads it now, and delivers them again; or the log was trimmed or deleted meanwhile.
        except Refused:
            self._wait(AGAIN_MS)
            return
        self.run()

    def _wait(self, milliseconds: int) -> None:
        self._timer = self._timers.add(self._clock.monotonic_ms() + milliseconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.run()
