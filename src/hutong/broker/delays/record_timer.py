"""The timer of a node: takes delayed records in, and brings them to their topics.

The topic of its queues is created with the first delayed record. What becomes due while the node is down comes at its
start. A record is at one place at least at any time, so a node that dies may bring some of them twice.

Strategy: one timer of the loop for all that is held. At most TURN_RECORDS come out at a tick of the loop's wheel, so
that others have their turn between. `machine` decides.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.inboxes import Inboxes
from hutong.broker.delays.machine import Append, DelayedEntry, DelayMachine, LeaveOut
from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.recall_log import RecallLog
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.step_queue import StepQueue
from hutong.broker.delays.steps import (
    KEPT_UNTIL_DELIVERED,
    QUEUES,
    QUEUES_MIN,
    RECALLS_QUEUE,
    STEPS_S,
    DelayedRecord,
    DeliveryPlace,
    packed,
    step_for,
)
from hutong.broker.produce.record_appends import StoredRecords, append_records, stored_there
from hutong.broker.topics.internal_topics import DELAYED_TOPIC
from hutong.broker.topics.partition import Partition, Topic
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner
from hutong.wire.kafka.batch.records import Record
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

TURN_RECORDS: Final = 1_000
_log: Final = logging.getLogger("hutong.delays")


class RecordTimer:
    """Call `start` once, then `close` once."""

    def __init__(self, broker: "Broker", timers: TimerWheel) -> None:
        self._broker = broker
        self._timers = timers
        self._recalls = Recalls()
        self._machine = DelayMachine(self._recalls)
        self._recall_log: RecallLog | None = None
        self._owner = Owner()
        self._topic: Topic | None = None
        self._steps: dict[QueueProgress, StepQueue] = {}
        self._inboxes = Inboxes(broker, self, timers, self._open)
        self._is_closed = False
        self._wake: Timer | None = None
        self._wake_ms = 0  # of the wall clock
        self._left = TURN_RECORDS  # of this turn
        self._next_turn: Timer | None = None
        self._waiting: dict[Callable[[], None], None] = {}  # queues, for room or the next turn

    def start(self) -> None:
        """Bring out what earlier lives of the node have left."""
        topic = self._broker.topics.get(DELAYED_TOPIC)
        # It is created by the first delayed record, so that others need not have it.
        if topic is not None and len(topic.partitions) >= QUEUES_MIN:
            self._begin(topic)
        self._inboxes.start()

    def close(self) -> None:
        """Bring nothing more out. What waits stays in the log."""
        self._is_closed = True
        self._inboxes.close()
        self._close_steps()
        for timer in (self._wake, self._next_turn):
            if timer is not None:
                timer.cancel()
        self._owner.end(OwnerGone("the node is stopping"))

    def put(self, delayed: DelayedRecord, owner: Owner, then: Continuation[tuple[Partition, StoredRecords]]) -> None:
        """Store a record that waits; `then` gets its queue and its offset there. Raises Refused."""

        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            now_ms = self._broker.clock.wall_ms()
            try:
                self._begin(outcome)
                partition = self._queue_of(step_for(delayed.due_ms - now_ms))
            except Refused as refused:
                then(refused)
                return
            record = packed(delayed, now_ms)
            append_records(self._broker, partition, [record], owner, partial(stored_there, partition, then))

        self._get_queues(ready)

    def recall(self, topic: str, record_id: bytes, due_ms: int, owner: Owner, then: Continuation[bool]) -> None:
        """Keep a record from its topic; `then` gets False where its time has come first.

        It need not be there: that is not known. Raises Refused.
        """

        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            try:
                self._begin(outcome)
                assert self._recall_log is not None, "it has begun"
                self._recall_log.add(topic, record_id, due_ms, owner, then)
            except (Refused, LimitExceeded) as refused:
                then(refused)

        self._get_queues(ready)

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

    def _get_queues(self, then: Continuation[Topic]) -> None:
        """The topic of the queues, made where it is missing. Raises Refused."""
        # Among several nodes the queues would be led by several of them.
        if not self._broker.cluster.is_alone:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Among several nodes there are no delays to a time.")
        self._broker.topics.get_or_create(DELAYED_TOPIC, QUEUES, then, overrides=KEPT_UNTIL_DELIVERED)

    def _open(self, then: Callable[[], None]) -> None:
        """Begin the queues for an inbox; `then` is called when they take records."""

        def ready(outcome: Topic | HutongError) -> None:
            try:
                if isinstance(outcome, HutongError):
                    raise outcome
                self._begin(outcome)
            except HutongError as error:
                _log.error("records of inboxes do not come out: %s", error)
                return
            then()

        try:
            self._get_queues(ready)
        except Refused as refused:
            _log.error("records of inboxes do not come out: %s", refused)

    def _begin(self, topic: Topic) -> None:
        """Run the queues of the topic. Raises Refused."""
        # Each delayed record comes here; the first one begins. So does the first after somebody has deleted the topic.
        if self._topic is topic:
            return
        # Somebody else has made it.
        if len(topic.partitions) < QUEUES_MIN:
            raise Refused(ErrorCode.INVALID_PARTITIONS, f"{topic.name} needs {QUEUES} partitions: delete it.")
        self._close_steps()
        self._topic = topic
        self._recall_log = RecallLog(
            topic.partitions[RECALLS_QUEUE], self._recalls, self._passed_ms, self._broker, self._timers
        )
        # With fewer partitions there are fewer steps, and a record takes the longest of them more often.
        for partition, step_s in zip(topic.partitions[1:], STEPS_S, strict=False):
            queue = StepQueue(partition, step_s * 1_000, self, self._broker.clock, self._timers)
            self._steps[queue.progress] = queue
        # Not before: what was recalled must not come out.
        self._recall_log.load(self._run_steps)

    def _run_steps(self) -> None:
        for queue in list(self._steps.values()):
            queue.run()

    def _passed_ms(self) -> int:
        """The time before which all that was due has come, 0 where that is not known."""
        if not all(queue.is_caught_up for queue in self._steps.values()):
            return 0
        now_ms, oldest_ms = self._broker.clock.wall_ms(), self._machine.oldest_due_ms
        return now_ms if oldest_ms is None else min(now_ms, oldest_ms)

    def _close_steps(self) -> None:
        if self._recall_log is not None:
            self._recall_log.close()
        for queue in self._steps.values():
            queue.close()
        self._steps.clear()

    def _queue_of(self, step: int) -> Partition:
        assert self._topic is not None, "it has begun"
        partitions = self._topic.partitions
        return partitions[1 + min(step, len(partitions) - 2)]

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
        now_ms = self._broker.clock.wall_ms()
        records = [packed(entry.delayed, now_ms) for entry in append.entries]
        self._append(append.entries, self._queue_of(append.step), records)

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
            queue = self._steps.get(progress) or self._inboxes.queue_of(progress)
            # None where its topic was deleted meanwhile.
            if queue is not None:
                queue.trim()
        # There is room again.
        if self._waiting:
            self._arm_turn()


def _at(record: Record, now_ms: int) -> Record:
    record.timestamp_ms = now_ms
    return record
