"""CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message, and wants it again later.

The message is read again at its physical offset. It waits in the schedule for the group's retry topic, longer each
time, and goes to the dead letters after too many. The consumer goes on behind it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hutong.broker.produce.record_appends import StoredRecords, append_records
from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.elsewhere import check_led_here
from hutong.broker.rocketmq.delays.levels import RealPlace, retry_level
from hutong.broker.rocketmq.records.names import dead_letter_topic, log_name, retry_topic, rocketmq_name
from hutong.broker.rocketmq.records.positions import log_and_offset, message_id
from hutong.broker.rocketmq.records.translation import message_of, record_of
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.rocketmq_configs import rules_of
from hutong.journal.log import DiskRead
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records
from hutong.wire.rocketmq.codes import ORIGIN_MESSAGE_ID, RETRY_TOPIC, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import StoredMessage, decode_properties, encode_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.topics.partition import Partition, Topic

NEVER_AGAIN: Final = -1  # a delay level: to the dead letters at once


def handle(context: RocketContext) -> Answer:
    group = context.text("group")
    check(context.kafka(), Operation.READ, ResourceType.GROUP, group)
    # As `AbstractSendMessageProcessor`: a group without retry queues wants nothing again.
    if rules_of(context.parts.broker.group_configs, group).retry_queues == 0:
        return Command(ResponseCode.SUCCESS)
    back = SentBack(context, group)
    back.begin()
    return back.pending


class SentBack:
    """One message on its way back."""

    __slots__ = ("_context", "_group", "_offset", "_partition", "_physical", "pending")

    def __init__(self, context: RocketContext, group: str) -> None:
        self._context = context
        self._group = group
        self._physical = context.integer("offset")
        self._partition, self._offset = self._place()
        self.pending: Pending[ReadyAnswer] = Pending()

    def begin(self) -> None:
        """Read the message. Raises Refused."""
        log = self._partition.log
        found = log.read(self._offset, 1, up_to=log.last_stable_offset)
        # A message that failed is often old.
        if isinstance(found, DiskRead):
            log.read_from_disk(found, self._read)
        else:
            self._read(found.buffers)

    def _place(self) -> tuple[Partition, int]:
        """The partition and the offset that a physical offset names. Raises RocketRefused, Refused."""
        log_id, offset = log_and_offset(self._physical)
        name = log_name(self._context.text("originTopic"))
        check(self._context.kafka(), Operation.READ, ResourceType.TOPIC, name)
        topic = self._context.parts.broker.topics.get(name)
        # By the topic that the client names: who may read that may name any message of it.
        index = topic.log_ids.index(log_id) if topic is not None and log_id in topic.log_ids else -1
        if topic is None or topic.is_internal or index < 0:
            raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {self._physical}")
        partition = topic.partitions[index]
        check_led_here(self._context, partition)
        return partition, offset

    def _read(self, outcome: Sequence[memoryview] | HutongError) -> None:
        try:
            message = self._message(outcome)
            asked = self._context.integer("delayLevel", 0)
            rules = rules_of(self._context.parts.broker.group_configs, self._group)
            times_max = self._context.integer("maxReconsumeTimes", rules.retry_times)
            # As `AbstractSendMessageProcessor`: 16 times, or as many as the consumer allows.
            if message.reconsume_times >= times_max or asked == NEVER_AGAIN:
                self._bury(self._again(message))
            else:
                place = RealPlace(retry_topic(self._group), self._offset % max(1, rules.retry_queues))
                level, owner = retry_level(asked, message.reconsume_times), self._context.channel.peer.owner
                self._context.parts.schedule.put(self._again(message), place, level, owner, self._settle)
        except HutongError as error:
            self._settle(error)

    def _message(self, outcome: Sequence[memoryview] | HutongError) -> StoredMessage:
        """The message that was read. Raises HutongError."""
        # Raised here, for one answer to all that can go wrong.
        if isinstance(outcome, HutongError):
            raise outcome
        for buffer in outcome:
            for _header, batch in iterate_batches(buffer):
                for record in iterate_records(batch):
                    if record.offset == self._offset:
                        host = self._context.parts.identity.store_host
                        topic = rocketmq_name(self._partition.topic_name)
                        return message_of(record, topic, self._partition.index, self._physical, host)
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {self._physical}")

    def _again(self, message: StoredMessage) -> StoredMessage:
        """The message as its group gets it once more. It keeps the name of its first topic, and its first id."""
        properties = decode_properties(message.properties)
        # Set once: at the second time the message is one of the retry topic.
        properties.setdefault(RETRY_TOPIC, message.topic)
        properties.setdefault(ORIGIN_MESSAGE_ID, message_id(message.store_host, self._physical))
        now_ms = self._context.parts.broker.clock.wall_ms()
        return replace(
            message,
            properties=encode_properties(properties),
            reconsume_times=message.reconsume_times + 1,
            stored_ms=now_ms,
        )

    def _bury(self, message: StoredMessage) -> None:
        """Put a message to the dead letters of the group."""
        broker = self._context.parts.broker

        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._settle(outcome)
                return
            owner = self._context.channel.peer.owner
            append_records(broker, outcome.partitions[0], [record_of(message)], owner, self._settle)

        asked = self._context.kafka()
        broker.topic_creation.get_or_create(asked, dead_letter_topic(self._group), 1, ready)

    def _settle(self, outcome: tuple[Partition, StoredRecords] | StoredRecords | HutongError) -> None:
        self.pending.complete(answer_of(outcome) if isinstance(outcome, HutongError) else Command(ResponseCode.SUCCESS))
