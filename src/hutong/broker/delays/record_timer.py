"""The timer of a node: takes delayed records in, and brings them to their topics.

    inbox, on the node that leads it ──┐
    RocketMQ's producers, on any node ─┴─▶ queues of steps, on the one node that leads them ──▶ topics, on any node

The topic of the queues is created with the first delayed record. What becomes due while no node leads it comes at the
start of the next lead. A record is at one place at least at any time, so a node that dies may bring some of them twice.

Decides nothing.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.delayed_appends import DelayedAppends
from hutong.broker.delays.inboxes import Inboxes
from hutong.broker.delays.led_steps import LedSteps
from hutong.broker.delays.recalls import Recalls
from hutong.broker.delays.steps import KEPT_UNTIL_DELIVERED, QUEUES, DelayedRecord, packed, queue_of, step_for
from hutong.broker.produce.record_appends import StoredRecords, append_records, stored_there
from hutong.broker.topics.internal_topics import DELAYED_TOPIC, OwnTopic
from hutong.broker.topics.led_topics import LedTopics
from hutong.broker.topics.partition import Partition, Topic
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

_STEPS: Final = OwnTopic(DELAYED_TOPIC, QUEUES, KEPT_UNTIL_DELIVERED)


class RecordTimer:
    """Call `start` once, then `close` once."""

    def __init__(self, broker: "Broker", timers: TimerWheel) -> None:
        self._broker = broker
        recalls = Recalls()
        self._appends = DelayedAppends(broker, timers, recalls)
        self._led = LedTopics(broker, (_STEPS,), partial(LedSteps, broker, timers, self._appends, recalls))
        self._inboxes = Inboxes(broker, self._appends, timers, self._make_queues)

    def start(self) -> None:
        """Bring out what is in the queues that this node leads, now and later."""
        self._led.start()
        self._inboxes.start()

    def close(self) -> None:
        """Bring nothing more out. What waits stays in the log."""
        self._inboxes.close()
        self._led.close()
        self._appends.close()

    def put(self, delayed: DelayedRecord, owner: Owner, then: Continuation[tuple[Partition, StoredRecords]]) -> None:
        """Store a record that waits; `then` gets its queue and its offset there."""

        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            now_ms = self._broker.clock.wall_ms()
            partition = queue_of(outcome.partitions, step_for(delayed.due_ms - now_ms))
            record = packed(delayed, now_ms)
            append_records(self._broker, partition, [record], owner, partial(stored_there, partition, then))

        self._make_queues(ready)

    def recall(self, topic: str, record_id: bytes, due_ms: int, owner: Owner, then: Continuation[bool]) -> None:
        """Keep a record from its topic; `then` gets False where its time has come first, LedElsewhere on other nodes.

        It need not be there: that is not known.
        """

        def found(outcome: LedSteps | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            try:
                outcome.recall_log.add(topic, record_id, due_ms, owner, then)
            except LimitExceeded as full:
                then(full)

        self._led.get(found)

    def _make_queues(self, then: Continuation[Topic]) -> None:
        """The topic of the queues, created where it is missing."""
        self._broker.topic_creation.get_or_create_own(_STEPS, then)
