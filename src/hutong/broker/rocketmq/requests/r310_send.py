"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320): store messages in a queue.

A batch is stored whole or not at all. A topic that is missing is created with as many queues as the client asks for,
where the node creates topics. A message with a delay waits in the schedule, or for its time; one that begins a
transaction waits where nobody reads it. One that was retried too often goes to the dead letters of its group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.steps import DeliveryPlace
from hutong.broker.produce.record_appends import StoredRecords, append_batch
from hutong.broker.rights.authorization import check, may
from hutong.broker.rocketmq.cluster.elsewhere import check_led_here, hand_over
from hutong.broker.rocketmq.delays.levels import RealPlace, level_of
from hutong.broker.rocketmq.delays.times import due_of, recall_handle, waiting
from hutong.broker.rocketmq.halves.half_messages import is_prepared
from hutong.broker.rocketmq.records.names import dead_letter_topic, log_name
from hutong.broker.rocketmq.records.packing import packed_batch
from hutong.broker.rocketmq.records.positions import message_id, physical_offset
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.broker.rocketmq.requests.r037_end_transaction import claim_of
from hutong.broker.rocketmq.requests.send_fields import MESSAGE_BYTES_MAX, SendFields
from hutong.broker.topics.internal_topics import DELAY_TOPICS
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.rocketmq_configs import rules_of
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import REPLY_TOPIC_END, RETRY_PREFIX, UNIQUE_KEY, WAITS_FOR_STORE, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import NAME_END, VALUE_END, StoredMessage, decode_properties

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.rocketmq.halves.driver import HalfMessages
    from hutong.broker.rocketmq.halves.machine import Claim
    from hutong.broker.topics.partition import Partition, Topic

QUEUES_OF_NEW_TOPIC_MAX: Final = 64
_NO_WAIT: Final = f"{WAITS_FOR_STORE}{NAME_END}false{VALUE_END}"
_BATCH_SETTINGS: Final = {"max.message.bytes": str(MESSAGE_BYTES_MAX + 64 * 1024)}


def handle(context: RocketContext) -> Answer:
    send = SendRequest(context)
    check(context.kafka(), Operation.WRITE, ResourceType.TOPIC, send.name)
    topic = context.parts.broker.topics.get(send.name)
    if topic is None:
        send.create_topic()
    else:
        send.append_to(topic)
    return send.answer()


class SendRequest:
    """One request to store. `name` is that of the topic in the log."""

    __slots__ = (
        "_answer",
        "_context",
        "_fields",
        "_is_dead",
        "_pending",
        "_queue_id",
        "_recall_handle",
        "_transaction_id",
        "name",
    )

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self._fields = SendFields(context)
        topic = self._fields.text("topic")
        # A client sends a message back by itself where its node has not taken it: such a message was consumed before.
        rules = rules_of(context.parts.broker.group_configs, topic.removeprefix(RETRY_PREFIX))
        times_max = self._fields.integer("maxReconsumeTimes", rules.retry_times)
        self._is_dead = topic.startswith(RETRY_PREFIX) and self._fields.integer("reconsumeTimes", 0) > times_max
        self.name = dead_letter_topic(topic.removeprefix(RETRY_PREFIX)) if self._is_dead else log_name(topic)
        # What is there must name its place, and its queue says how long it waits (`TopicValidator`).
        if self.name in DELAY_TOPICS:
            raise RocketRefused(ResponseCode.NO_PERMISSION, f"Sending to {self.name} is forbidden.")
        self._queue_id = 0
        self._recall_handle: str | None = None
        self._transaction_id: str | None = None  # of a half message
        self._answer: Command | None = None
        self._pending: Pending[ReadyAnswer] | None = None

    def answer(self) -> Answer:
        """The handler's return value: an answer that is there already, or one that comes."""
        if self._answer is not None:
            return self._answer
        self._pending = Pending()
        return self._pending

    def create_topic(self) -> None:
        """Create the topic first. Raises Refused, RocketRefused."""
        context = self._context
        broker, asked = context.parts.broker, context.kafka()
        is_allowed = broker.settings.auto_create_topics and may(asked, Operation.CREATE, ResourceType.TOPIC, self.name)
        # RocketMQ's broker has this topic from the start.
        is_reply = self.name == context.parts.identity.cluster_name + REPLY_TOPIC_END
        if not (is_allowed or is_reply):
            raise RocketRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{self.name}] not exist, apply first please!")
        queues = min(max(1, self._fields.integer("defaultTopicQueueNums", 4)), QUEUES_OF_NEW_TOPIC_MAX)
        queues = 1 if self._is_dead or is_reply else queues

        def created(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._fail(outcome)
                return
            try:
                self.append_to(outcome)
            except HutongError as error:
                self._fail(error)

        broker.topic_creation.get_or_create(asked, self.name, queues, created, _BATCH_SETTINGS)

    def append_to(self, topic: Topic) -> None:
        """Append the messages to their queue. Raises Refused, RocketRefused, ProtocolError."""
        context = self._context
        if topic.config.schemas:
            raise RocketRefused(
                ResponseCode.NO_PERMISSION, f"Topic {topic.name} demands schemas, as Kafka's clients write them."
            )
        queue_id = 0 if self._is_dead else self._fields.integer("queueId", 0)
        # As RocketMQ: a client that names none leaves the choice to the broker.
        if queue_id < 0:
            queue_id = context.command.opaque % len(topic.partitions)
        partition = context.known_partition(topic.name, queue_id)
        self._queue_id = queue_id
        messages = self._fields.messages(queue_id)
        # Before the queue's leader: another node may have the half messages.
        if not self._is_dead and any(map(is_prepared, messages)):
            self._prepare(messages, RealPlace(topic.name, queue_id))
            return
        check_led_here(context, partition)
        # RocketMQ refuses delays in batches at the client, and a dead letter waits for nothing.
        if len(messages) == 1 and not self._is_dead and self._delay(messages[0], RealPlace(topic.name, queue_id)):
            return
        waits = not any(_NO_WAIT in message.properties for message in messages)
        append_batch(
            context.parts.broker,
            partition,
            packed_batch(messages),
            context.channel.peer.owner,
            partial(self._stored, partition, len(messages)),
            waits=waits,
        )

    def _prepare(self, messages: list[StoredMessage], place: RealPlace) -> None:
        """Store a half message. Raises RocketRefused."""
        message, parts = messages[0], self._context.parts
        due_ms = due_of(message, parts.broker.clock.wall_ms(), parts.delay_max_ms)
        # RocketMQ's clients send neither.
        if len(messages) > 1 or level_of(message) or due_ms is not None:
            raise RocketRefused(ResponseCode.MESSAGE_ILLEGAL, "A half message has no delay, and is in no batch.")
        self._transaction_id = decode_properties(message.properties).get(UNIQUE_KEY)
        group = self._fields.text("producerGroup")
        if not self._context.is_handed_over:
            parts.clients.sends_half(group, self._context.number, self._context.channel.peer.address)
        claim = claim_of(self._context, group)
        parts.halves.get(partial(self._put_half, message, place, claim))

    def _put_half(
        self, message: StoredMessage, place: RealPlace, claim: Claim, outcome: HalfMessages | HutongError
    ) -> None:
        if isinstance(outcome, HutongError):
            self._fail(outcome)
            return
        try:
            outcome.put(message, place, claim, self._context.channel.peer.owner, self._scheduled)
        except HutongError as error:
            self._fail(error)

    def _delay(self, message: StoredMessage, place: RealPlace) -> bool:
        """Let a message wait that asks for it; False for others. Raises RocketRefused."""
        parts, owner = self._context.parts, self._context.channel.peer.owner
        level = level_of(message)
        if level:
            parts.schedule.put(message, place, level, owner, self._scheduled)
            return True
        due_ms = due_of(message, parts.broker.clock.wall_ms(), parts.delay_max_ms)
        if due_ms is None:
            return False
        self._recall_handle = recall_handle(message, place, due_ms, parts.identity.broker_name)
        parts.broker.delays().put(waiting(message, DeliveryPlace(*place), due_ms), owner, self._scheduled)
        return True

    def _scheduled(self, outcome: tuple[Partition, StoredRecords] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._fail(outcome)
        else:
            partition, stored = outcome
            self._stored(partition, 1, stored)

    def _stored(self, partition: Partition, count: int, outcome: StoredRecords | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._complete(answer_of(outcome))
            return
        offset, log_id = outcome.base_offset, partition.log.partition_id
        host = self._context.parts.identity.store_host
        ids = [message_id(host, physical_offset(log_id, at)) for at in range(offset, offset + count)]
        # The queue that was asked for, also while the message waits in another one.
        fields = {"msgId": ",".join(ids), "queueId": str(self._queue_id), "queueOffset": str(offset)}
        if self._recall_handle is not None:
            fields["recallHandle"] = self._recall_handle
        # Clients end the transaction by it.
        if self._transaction_id is not None:
            fields["transactionId"] = self._transaction_id
        code = ResponseCode.SUCCESS if outcome.is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT
        self._complete(Command(code, fields=fields))

    def _fail(self, error: HutongError) -> None:
        if isinstance(error, LedElsewhere):
            hand_over(self._context, error, self._complete)
        else:
            self._complete(answer_of(error))

    def _complete(self, answer: Command) -> None:
        if self._pending is None:
            self._answer = answer
        else:
            self._pending.complete(answer)
