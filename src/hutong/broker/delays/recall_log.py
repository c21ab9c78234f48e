"""The log of recalls: each one is a record, and a start reads them all before anything comes out.

Decides nothing. All calls come on the loop.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.steps import DelayedRecord, DeliveryPlace, packed, unpacked
from hutong.broker.delays.stored_records import stored_records
from hutong.broker.produce.record_appends import StoredRecords, append_records
from hutong.broker.topics.partition import Partition
from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import Record, iterate_batches

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

READ_BYTES: Final = 256 * 1024
AGAIN_MS: Final = 1_000  # after a read that failed
FORGET_INTERVAL_MS: Final = 60_000
_log: Final = logging.getLogger("hutong.delays")


class RecallLog:
    """Fills `recalls` once `load` was called, until `close`."""

    def __init__(
        self,
        partition: Partition,
        recalls: Recalls,
        passed_ms: Callable[[], int],
        broker: "Broker",
        timers: TimerWheel,
    ) -> None:
        """`passed_ms` tells the time before which all that was due has come."""
        self._partition = partition
        self._recalls = recalls
        self._passed_ms = passed_ms
        self._broker = broker
        self._timers = timers
        self._timer: Timer | None = None
        self._is_closed = False
        self._next_offset = partition.log.start_offset

    def load(self, then: Callable[[], None]) -> None:
        """Read all recalls; `then` is called when they are there, also at once."""
        if self._is_closed:
            return
        log = self._partition.log
        if self._next_offset >= log.last_stable_offset:
            self._forget_later()
            then()
            return
        try:
            self._partition.check_served()
            found = log.read(self._next_offset, READ_BYTES, up_to=log.last_stable_offset)
        # Another node leads it, or its disk has failed: without it recalled records would come.
        except HutongError as error:
            self._read(then, error)
            return
        if isinstance(found, DiskRead):
            log.read_from_disk(found, partial(self._read, then))
        else:
            self._read(then, found.buffers)

    def add(self, topic: str, record_id: bytes, due_ms: int, owner: Owner, then: Continuation[bool]) -> None:
        """Recall a record; `then` gets True once that is certain, False where its time has come first.

        Raises LimitExceeded.
        """
        self._recalls.check_room()
        delayed = DelayedRecord(due_ms, DeliveryPlace(topic, 0), Record(key=record_id))
        clock = self._broker.clock

        def stored(outcome: StoredRecords | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
            elif not outcome.is_flushed:
                then(Expired("the disk takes long"))
            # Noted only now: a record must not be left out whose recall is lost after all.
            elif due_ms <= clock.wall_ms():
                then(False)
            else:
                self._recalls.note(topic, record_id, due_ms, outcome.base_offset)
                self._forget_later()
                then(True)

        append_records(self._broker, self._partition, [packed(delayed, clock.wall_ms())], owner, stored)

    def close(self) -> None:
        """Forget nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _read(self, then: Callable[[], None], outcome: list[memoryview] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            _log.error("recalls of delayed records cannot be read, and none of these comes: %s", outcome)
            self._timer = self._timers.add(self._broker.clock.monotonic_ms() + AGAIN_MS, partial(self._again, then))
            return
        for buffer in outcome:
            for header, batch in iterate_batches(buffer):
                self._note_all(batch)
                self._next_offset = header.last_offset + 1
        self.load(then)

    def _again(self, then: Callable[[], None]) -> None:
        self._timer = None
        self.load(then)

    def _note_all(self, batch: memoryview) -> None:
        for record in stored_records(batch):
            delayed = unpacked(record)
            # A client of Kafka's that may write to the topic may write anything.
            if delayed is None or record.key is None:
                continue
            try:
                self._recalls.check_room()
            except LimitExceeded:
                return
            self._recalls.note(delayed.place.topic, record.key, delayed.due_ms, record.offset)

    def _forget_later(self) -> None:
        if self._timer is None and self._recalls:
            self._timer = self._timers.add(self._broker.clock.monotonic_ms() + FORGET_INTERVAL_MS, self._forget)

    def _forget(self) -> None:
        self._timer = None
        log = self._partition.log
        self._recalls.forget(self._passed_ms())
        try:
            self._partition.check_served()
            log.delete_before(self._recalls.start_offset(log.last_stable_offset))
        # Another node leads it now, or the log was trimmed meanwhile.
        except HutongError:
            pass
        self._forget_later()
