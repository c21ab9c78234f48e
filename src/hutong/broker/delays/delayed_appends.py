"""The appends of delayed records that have come out of their queues: to their topics, or to the queue of a step.

Strategy: one timer of the loop for all that is held. At most TURN_RECORDS come out at a tick of the loop's wheel, so
that others have their turn between. `machine` decides.

Decides nothing. All calls come on the loop.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.machine import Append, DelayedEntry, DelayMachine, LeaveOut
from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.step_queue import StepQueue
from hutong.broker.delays.steps import DeliveryPlace, packed, queue_of
from hutong.broker.produce.record_appends import StoredRecords, append_records
from hutong.broker.topics.internal_topics import DELAYED_TOPIC
from hutong.broker.topics.partition import Partition
from hutong.foundation.errors import HutongError, OwnerGone, Refused
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.wire.kafka.batch.records import Record
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

TURN_RECORDS: Final = 1_000
_log: Final = logging.getLogger("hutong.delays")


class DelayedAppends:
    """The exit of all queues of this node, until `close`. Those of `recalls` are left out."""

    def __init__(self, broker: "Broker", timers: TimerWheel, recalls: Recalls) -> None:
        self._broker = broker
        self._timers = timers
        self._machine = DelayMachine(recalls)
        self._owner = Owner()
        self._queues: dict[QueueProgress, StepQueue] = {}
        self._is_closed = False
        self._wake: Timer | None = None
        self._wake_ms = 0  # of the wall clock
        self._left = TURN_RECORDS  # of this turn
        self._next_turn: Timer | None = None
        self._waiting: dict[Callable[[], None], None] = {}  # queues, for room or the next turn

    def add(self, queue: StepQueue) -> None:
        """Trim this queue when its records are settled."""
        self._queues[queue.progress] = queue

    def remove(self, queue: StepQueue) -> None:
        """Close a queue, and leave out what is held of it: who leads it now reads it again."""
        queue.close()
        del self._queues[queue.progress]

    def close(self) -> None:
        """Append nothing more. What is held is still in the queues."""
        self._is_closed = True
        for timer in (self._wake, self._next_turn):
            if timer is not None:
                timer.cancel()
        self._owner.end(OwnerGone("the node is stopping"))

    @property
    def oldest_due_ms(self) -> int | None:
        """The least time of what has come out and is not settled, None where there is nothing."""
        return self._machine.oldest_due_ms

    # -- the exit of the queues

    def has_room(self, then: Callable[[], None]) -> bool:
        if self._machine.has_room and self._left > 0:
            return True
        self._waiting[then] = None
        return False

    def come_out(self, entries: Sequence[DelayedEntry]) -> None:
        self._left -= len(entries)
        self._arm_turn()
        self._carry_out(self._machine.come_out(entries, self._broker.clock.wall_ms()))

    # -- inside

    def _arm_turn(self) -> None:
        if self._next_turn is None and not self._is_closed:
            self._next_turn = self._timers.add(self._broker.clock.monotonic_ms(), self._turn)

    def _turn(self) -> None:
        """Begin another turn: a tick of the wheel is over."""
        self._next_turn = None
        self._left = TURN_RECORDS
        self._fire()
        waiting = list(self._waiting)
        self._waiting.clear()
        # Those for which there is no room wait again.
        for run in waiting:
            run()

    def _fire(self) -> None:
        appends = self._machine.fire(self._broker.clock.wall_ms(), max(0, self._left))
        count = sum(len(append.entries) for append in appends)
        # What did not fit this turn is held still.
        if count:
            self._left -= count
            self._arm_turn()
        self._carry_out(appends)

    def _woken(self) -> None:
        self._wake = None
        # The next turn fires what this one has no time for.
        if self._left > 0:
            self._fire()

    def _set_wake(self) -> None:
        """Come back for the first that is held."""
        wake_ms = self._machine.wake_ms
        if self._is_closed or wake_ms is None or (self._wake is not None and self._wake_ms <= wake_ms):
            return
        if self._wake is not None:
            self._wake.cancel()
        clock = self._broker.clock
        self._wake_ms = wake_ms
        self._wake = self._timers.add(clock.monotonic_ms() + max(0, wake_ms - clock.wall_ms()), self._woken)

    def _carry_out(self, instructions: Iterable[Append | LeaveOut]) -> None:
        for each in instructions:
            if isinstance(each, LeaveOut):
                self._settle(each.entries)
            elif each.place is None:
                self._go_on(each)
            else:
                self._deliver(each, each.place)
        self._set_wake()

    def _go_on(self, append: Append) -> None:
        """Append to the queue of another step."""
        topic = self._broker.topics.get(DELAYED_TOPIC)
        assert topic is not None, "queues run once it is there, and nobody may delete it"
        now_ms = self._broker.clock.wall_ms()
        records = [packed(entry.delayed, now_ms) for entry in append.entries]
        self._append(append.entries, queue_of(topic.partitions, append.step), records)

    def _deliver(self, append: Append, place: DeliveryPlace) -> None:
        """Append to the topic; to another partition where it has fewer by now."""
        found = self._broker.topics.get(place.topic)
        # It was deleted: as with every record of it.
        if found is None or found.is_internal:
            self._settle(append.entries)
            return
        now_ms = self._broker.clock.wall_ms()
        records = [_at(entry.delayed.record, now_ms) for entry in append.entries]
        self._append(append.entries, found.partitions[place.partition % len(found.partitions)], records)

    def _append(self, entries: list[DelayedEntry], partition: Partition, records: list[Record]) -> None:
        def stored(outcome: StoredRecords | HutongError) -> None:
            if isinstance(outcome, StoredRecords) and outcome.is_flushed:
                self._settle(entries)
            # The node takes smaller batches by now: one at a time, and what is too large alone would be so for ever.
            elif not isinstance(outcome, Refused) or outcome.code != ErrorCode.MESSAGE_TOO_LARGE:
                self._machine.fail(entries, self._broker.clock.wall_ms())
                self._set_wake()
            elif len(entries) > 1:
                for entry, record in zip(entries, records, strict=True):
                    self._append([entry], partition, [record])
            else:
                _log.error("a delayed record for %s is lost: %s", entries[0].delayed.place.topic, outcome)
                self._settle(entries)

        # Also where the topic acknowledges from memory: it is on the disk in its queue.
        append_records(self._broker, partition, records, self._owner, stored, is_durable=True)

    def _settle(self, entries: list[DelayedEntry]) -> None:
        self._machine.settle(entries)
        for progress in {entry.progress for entry in entries}:
            queue = self._queues.get(progress)
            # None where it was closed meanwhile.
            if queue is not None:
                queue.trim()
        # There is room again.
        if self._waiting:
            self._arm_turn()


def _at(record: Record, now_ms: int) -> Record:
    record.timestamp_ms = now_ms
    return record
