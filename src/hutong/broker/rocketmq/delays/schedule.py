"""The schedule of a node: takes delayed messages in, and delivers them by the queues of its levels.

The topic of the schedule is created with the first delayed message. Its records stay until they are delivered.

Decides nothing.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.steps import KEPT_UNTIL_DELIVERED
from hutong.broker.produce.record_appends import StoredRecords, append_records, stored_there
from hutong.broker.rocketmq.delays.level_queue import LevelQueue
from hutong.broker.rocketmq.delays.levels import LEVELS_S, RealPlace, scheduled
from hutong.broker.rocketmq.records.translation import record_of
from hutong.broker.topics.internal_topics import OwnTopic
from hutong.broker.topics.partition import Partition, Topic
from hutong.foundation.errors import Expired, HutongError, OwnerGone, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import SCHEDULE_TOPIC
from hutong.wire.rocketmq.messages import StoredMessage

if TYPE_CHECKING:
    from hutong.broker.broker import Broker

_SCHEDULE: Final = OwnTopic(SCHEDULE_TOPIC, len(LEVELS_S), KEPT_UNTIL_DELIVERED)


class DelaySchedule:
    """Call `start` once, then `close` once."""

    def __init__(self, broker: "Broker", timers: TimerWheel) -> None:
        self._broker = broker
        self._timers = timers
        self._owner = Owner()
        self._queues: list[LevelQueue] = []

    def start(self) -> None:
        """Deliver what earlier lives of the node have left."""
        topics = self._broker.topics
        topic = topics.get(SCHEDULE_TOPIC)
        # It is created by the first delayed message, so that others need not have it.
        if topic is not None:
            self._begin(topic)
        topics.on_change.append(self._topic_changed)
        topics.on_standing.append(self._standing_changed)

    def close(self) -> None:
        """Deliver nothing more. What waits stays in the log."""
        topics = self._broker.topics
        topics.on_change.remove(self._topic_changed)
        topics.on_standing.remove(self._standing_changed)
        for queue in self._queues:
            queue.close()
        self._owner.end(OwnerGone("the node is stopping"))

    def put(
        self,
        message: StoredMessage,
        place: RealPlace,
        level: int,
        owner: Owner,
        then: Continuation[tuple[Partition, StoredRecords]],
    ) -> None:
        """Store a message that waits; `then` gets its queue in the schedule and its offset."""

        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            self._begin(outcome)
            partition = outcome.partitions[min(level, len(outcome.partitions)) - 1]
            record = record_of(scheduled(message, place, level))
            append_records(self._broker, partition, [record], owner, partial(stored_there, partition, then))

        self._broker.topic_creation.get_or_create_own(_SCHEDULE, ready)

    def deliver(self, topic: str, queue_id: int, message: StoredMessage, then: Continuation[None]) -> None:
        """Append a message to its real queue; to another one where the topic has fewer by now."""
        found = self._broker.topics.get(topic)
        # It was deleted: as with every message of it.
        if found is None or found.is_internal:
            then(None)
            return
        partition = found.partitions[queue_id % len(found.partitions)]
        message.stored_ms = self._broker.clock.wall_ms()

        def stored(outcome: StoredRecords | HutongError) -> None:
            # Refused for its size, since the topic takes smaller batches by now: it would hold up all behind it.
            is_hopeless = isinstance(outcome, Refused) and outcome.code == ErrorCode.MESSAGE_TOO_LARGE
            # Not on the disk yet: it is appended again rather than lost.
            if isinstance(outcome, StoredRecords) and not outcome.is_flushed:
                outcome = Expired("the disk takes long")
            then(None if isinstance(outcome, StoredRecords) or is_hopeless else outcome)

        append_records(self._broker, partition, [record_of(message)], self._owner, stored, is_durable=True)

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        # Another node has created it, for a message of its own clients.
        if exists and topic.name == SCHEDULE_TOPIC:
            self._begin(topic)

    def _standing_changed(self, _group: str) -> None:
        # The node may lead queues now that another one has led.
        for queue in self._queues:
            queue.run()

    def _begin(self, topic: Topic) -> None:
        # Each delayed message comes here; the first one begins.
        if self._queues:
            return
        for partition, delay_s in zip(topic.partitions, LEVELS_S, strict=False):
            queue = LevelQueue(partition, delay_s * 1_000, self, self._broker.clock, self._timers)
            self._queues.append(queue)
            queue.run()
