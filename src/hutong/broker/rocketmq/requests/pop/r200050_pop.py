"""POP_MESSAGE (200050): take messages of a topic for a while, or wait for some.

The messages are acquired as a share group's (KIP-932), under a lock that lasts as long as the client asks. One that is
not acknowledged in time is for others again, in its own queue: `%RETRY%GROUP` has nothing of it. After too many times
it is a dead letter. Messages that the filter leaves out are finished at once.

A pop in order gets messages of a queue once all that came before are settled; one that failed comes again first. A
queue of -1 means all queues of the topic that this node leads; in a cluster clients pop at each of those nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.filters import TAG, filter_of
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.translation import message_of
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of, code_of
from hutong.broker.rocketmq.requests.pop.groups import prepare_group
from hutong.broker.rocketmq.requests.pop.receipts import NUMBER_MASK, member_of, offset_fields
from hutong.broker.rocketmq.requests.r011_pull import check_rules
from hutong.broker.share.share_fetches import Wish
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.delivery.messages import Acknowledge, AcknowledgedBatch, Acknowledgement
from hutong.groups.share.records import PartitionKey
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import encode_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.broker.share.share_fetches import FoundRecords
    from hutong.broker.topics.partition import Partition
    from hutong.groups.share.delivery.messages import Settled
    from hutong.wire.kafka.batch.records import Record

MESSAGES_MAX: Final = 32  # as RocketMQ's
ANSWER_BYTES: Final = 256 * 1024
INVISIBLE_MS_MAX: Final = 12 * 60 * 60 * 1_000  # as RocketMQ's proxy allows
ALL_QUEUES: Final = -1
_POLL_MS: Final = 15_000  # as Java's client asks


def handle(context: RocketContext) -> Answer:
    pop = PopRequest(context)
    kafka = context.kafka(pop.group)
    check(kafka, Operation.READ, ResourceType.GROUP, pop.group)
    check(kafka, Operation.READ, ResourceType.TOPIC, pop.name)
    check_rules(context, pop.group)
    context.parts.broker.read_actors.note_member(kafka, pop.group)
    prepare_group(context, pop.group, context.integer("initMode", 1), pop.begin)
    return pop.pending


class PopRequest:
    """One pop. `name` is that of the topic in the log."""

    __slots__ = (
        "_context",
        "_filter",
        "_invisible_ms",
        "_is_ordered",
        "_is_peek",
        "_messages_max",
        "_number",
        "_partitions",
        "_topic",
        "group",
        "name",
        "pending",
    )

    def __init__(self, context: RocketContext, *, is_peek: bool = False) -> None:
        self._context = context
        self._is_peek = is_peek
        self.group = context.text("consumerGroup")
        self._topic = context.text("topic")
        self.name = log_name(self._topic)
        self._is_ordered = context.text("order", "false") == "true"
        self._partitions = self._asked_partitions(context.integer("queueId", ALL_QUEUES))
        self._messages_max = min(max(1, context.integer("maxMsgNums", MESSAGES_MAX)), MESSAGES_MAX)
        self._invisible_ms = context.integer("invisibleTime", 1 if is_peek else None)
        if not 0 < self._invisible_ms <= INVISIBLE_MS_MAX:
            raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"Messages are invisible for 1 to {INVISIBLE_MS_MAX} ms.")
        self._filter = filter_of(context.text("exp", "*"), context.text("expType", TAG))
        # Pops of an earlier life of the node have no locks any more, so the numbers may begin anew.
        self._number = next(context.parts.receipt_numbers) & NUMBER_MASK
        self.pending: Pending[ReadyAnswer] = Pending()

    def begin(self, error: HutongError | None) -> None:
        """Take messages, or wait for some: the group has its settings."""
        if error is not None:
            self.pending.complete(answer_of(error))
            return
        context = self._context
        broker, poll_ms = context.parts.broker, context.integer("pollTime", _POLL_MS)
        wish = Wish(
            self.group,
            member_of(self._number),
            0 if self._is_peek else max(0, min(poll_ms, broker.settings.fetch_wait_ms_max)),
            ANSWER_BYTES,
            self._messages_max,
            self._messages_max,
            is_strict=True,
            lock_ms=self._invisible_ms,
            is_ordered=self._is_ordered,
            is_peek=self._is_peek,
        )
        broker.share_fetches.fetch(wish, [*self._partitions], context.session(self.group), self._found)

    def _asked_partitions(self, queue_id: int) -> Mapping[PartitionKey, Partition]:
        """The partitions to take from, beginning with another one each time. Raises RocketRefused, Refused."""
        topic = self._context.parts.broker.topics.get(self.name)
        partitions = topic.partitions if topic is not None and not topic.is_internal else []
        led = [partition for partition in partitions if partition.standing.is_led_here]
        # One queue, or the error of a topic that is not there, or of which nothing is here.
        if queue_id >= 0 or not led:
            led = [self._context.partition(self.name, max(0, queue_id))]
        assert topic is not None, "it has a partition"
        begin = self._context.command.opaque % len(led)
        return {PartitionKey(self.group, topic.topic_id, each.index): each for each in led[begin:] + led[:begin]}

    def _found(self, found: Mapping[PartitionKey, FoundRecords]) -> None:
        try:
            answer = self._answer(found)
        # A batch that cannot be unpacked. What was taken of it comes again, and ends with the dead letters.
        except HutongError as error:
            answer = answer_of(error)
        self.pending.complete(answer)

    def _answer(self, found: Mapping[PartitionKey, FoundRecords]) -> Command:
        messages: list[bytes] = []
        offsets: dict[int, list[int]] = {}
        error: FoundRecords | None = None
        for key, records in found.items():
            if records.error:
                error = records
                continue
            taken = [*self._messages(key, records)]
            if taken:
                offsets[key.partition] = [offset for offset, _ in taken]
                messages += [message for _, message in taken]
        # What another queue has given is more than that one has failed: the next pop comes there again.
        if error is not None and not messages:
            return refusal(code_of(error.error), error.message or ErrorCode(error.error).name)
        nothing = ResponseCode.PULL_NOT_FOUND if self._is_peek else ResponseCode.POLLING_TIMEOUT
        answer = Command(ResponseCode.SUCCESS if messages else nothing)
        # A peek gives no receipts.
        answer.fields = self._fields() | (offset_fields(offsets) if messages and not self._is_peek else {})
        answer.body = b"".join(messages)
        return answer

    def _messages(self, key: PartitionKey, found: FoundRecords) -> Iterator[tuple[int, bytes]]:
        """The messages for the client, each with its offset; the others are finished."""
        partition = self._partitions[key]
        finished: list[AcknowledgedBatch] = []
        for offset, record, deliveries in _acquired(found):
            # The cleaner has removed it.
            if record is None:
                finished.append(AcknowledgedBatch(offset, offset, [Acknowledgement.GAP]))
                continue
            physical = physical_offset(partition.log.partition_id, offset)
            host = self._context.parts.identity.store_host
            message = message_of(record, self._topic, partition.index, physical, host)
            if not self._filter.takes(message):
                finished.append(AcknowledgedBatch(offset, offset, [Acknowledgement.ACCEPT]))
                continue
            message.reconsume_times += deliveries - 1
            yield offset, encode_message(message)
        if finished and not self._is_peek:
            broker = self._context.parts.broker
            event = Acknowledge(member_of(self._number), broker.clock.monotonic_ms(), finished)
            broker.share_deliveries.acknowledge(key, event, _nobody_asks)

    def _fields(self) -> dict[str, str]:
        broker = self._context.parts.broker
        machines = [(broker.share_deliveries.get(key), partition) for key, partition in self._partitions.items()]
        rest = sum(
            max(0, partition.log.last_stable_offset - machine.end_offset)
            for machine, partition in machines
            if machine is not None
        )
        return {
            "popTime": str(broker.clock.wall_ms()),
            "invisibleTime": str(self._invisible_ms),
            "reviveQid": str(self._number),
            "restNum": str(rest),
        }


def _acquired(found: FoundRecords) -> Iterator[tuple[int, Record | None, int]]:
    """The acquired offsets, with their records and which delivery it is. Raises HutongError."""
    wanted = {offset for each in found.acquired for offset in range(each.first, each.last + 1)}
    last = max(wanted, default=-1)
    records: dict[int, Record] = {}
    for view in found.buffers:
        for header, batch in iterate_batches(view):
            for record in () if header.is_control else iterate_records(batch):
                if record.offset in wanted:
                    records[record.offset] = record
                # A batch of a Kafka client may have thousands behind the 32 of a pop.
                if record.offset >= last:
                    break
    for each in found.acquired:
        for offset in range(each.first, each.last + 1):
            yield offset, records.get(offset), each.deliveries


def _nobody_asks(_settled: Settled) -> None:
    """Leave it: after a failed write the messages come again, and are left out again."""
