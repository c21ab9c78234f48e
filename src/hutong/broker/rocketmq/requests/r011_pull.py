"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): read messages of a queue from an offset on, or wait for one.

The read is a Fetch of Kafka's with a committed reader's eyes: from memory, or from disk in fair turns of its consumer
group, and parked until data arrives. Its batches are turned into messages here. A filter by tags is applied by the
text, not by the hash that RocketMQ's clients compute: two tags may share a hash, and a client filters again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.kafka import k01_fetch
from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.routes import own_broker_id
from hutong.broker.rocketmq.filters import ALL, Filter, filter_of
from hutong.broker.rocketmq.offsets import commit_offset
from hutong.broker.rocketmq.records.collected import Collected
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.records.plain_batches import Collecting
from hutong.broker.rocketmq.records.stored_forms import QueueOfForms
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of, code_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.rocketmq_configs import rules_of
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import PULL_COMMITS, PULL_HAS_EXPRESSION, PULL_WAITS, ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext

MESSAGES_MAX: Final = 1_024  # of one answer, whatever is asked for
QUEUES_REMEMBERED_MAX: Final = 1_000
ANSWER_BYTES: Final = 256 * 1024  # as `maxTransferBytesOnMessageInMemory`: a pull is sent soon, not full
_FETCH_VERSION: Final = 11
_READ_COMMITTED: Final = 1


def handle(context: RocketContext) -> Answer:
    pull = PullRequest(context)
    kafka = context.kafka(pull.group, _FETCH_VERSION)
    check(kafka, Operation.READ, ResourceType.GROUP, pull.group)
    check(kafka, Operation.READ, ResourceType.TOPIC, pull.name)
    check_rules(context, pull.group)
    # A pull names its group, which Kafka's fetch does not: its disk reads take turns under that name.
    context.parts.broker.read_actors.note_member(kafka, pull.group)
    if pull.commits:
        commit_offset(context, pull.group, pull.name, pull.queue_id, pull.commit_offset, _nobody_asks)
    found = k01_fetch.handle(pull.fetch(), kafka)
    if isinstance(found, FetchResponse):
        return pull.answer(found)
    pending: Pending[ReadyAnswer] = Pending()
    found.then(lambda response: pending.complete(_answered(pull, response)))
    return pending


def check_rules(context: RocketContext, name: str) -> None:
    """Check that the group's settings let it read. Raises RocketRefused."""
    rules = rules_of(context.parts.broker.group_configs, name)
    if not rules.consumes:
        raise RocketRefused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name:.127}")
    group = context.parts.clients.group(name)
    if group is not None and group.is_broadcasting and not rules.broadcasts:
        text = f"the consumer group[{name:.127}] can not consume by broadcast way"
        raise RocketRefused(ResponseCode.NO_PERMISSION, text)


def _answered(pull: PullRequest, response: FetchResponse) -> Command:
    """The answer that comes later, where nobody else answers for an error."""
    try:
        return pull.answer(response)
    except HutongError as error:
        return answer_of(error)


class PullRequest:
    """One pull. `name` is that of the topic in the log."""

    __slots__ = (
        "_context",
        "_filter",
        "_messages_max",
        "_offset",
        "_partition",
        "_topic",
        "_wait_ms",
        "commit_offset",
        "commits",
        "group",
        "name",
        "queue_id",
    )

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self.group = context.text("consumerGroup")
        self._topic = context.text("topic")
        self.name = log_name(self._topic)
        self.queue_id = context.integer("queueId")
        self._offset = context.integer("queueOffset")
        self._messages_max = min(max(1, context.integer("maxMsgNums", 32)), MESSAGES_MAX)
        flags = context.integer("sysFlag", 0)
        self._wait_ms = max(0, context.integer("suspendTimeoutMillis", 0)) if flags & PULL_WAITS else 0
        self.commit_offset = context.integer("commitOffset", 0)
        # Go and ali-ons commit -1 before they have read anything.
        self.commits = bool(flags & PULL_COMMITS) and self.commit_offset >= 0
        self._partition = context.partition(self.name, self.queue_id)
        self._filter = self._find_filter(flags)

    def fetch(self) -> FetchRequest:
        """The same question in Kafka's terms."""
        bytes_max = self._bytes_max()
        partition = FetchPartition(self.queue_id, fetch_offset=self._offset, partition_max_bytes=bytes_max)
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(self.name, partitions=[partition])],
        )

    def _bytes_max(self) -> int:
        """As many bytes as the messages have that are asked for, if they are like those of the last answer.

        A fetch knows no count. With 256 KiB of little messages it would find eight times as many as a pull takes.
        """
        average = self._averages().get((self.name, self.queue_id), 0)
        return ANSWER_BYTES if not average else min(ANSWER_BYTES, self._messages_max * average)

    def _averages(self) -> dict[tuple[str, int], int]:
        """The bytes of a message in the log, as this connection has last read it, by queue."""
        averages: dict[tuple[str, int], int] = self._context.channel.attributes.setdefault("averages", {})
        # A client could read queues without end.
        if len(averages) > QUEUES_REMEMBERED_MAX:
            averages.clear()
        return averages

    def answer(self, response: FetchResponse) -> Command:
        """The answer to what the fetch has found."""
        # Of the request as a whole, which a fetch without a session hardly has.
        if response.error_code:
            return refusal(code_of(response.error_code), ErrorCode(response.error_code).name)
        (topic,) = response.responses
        (data,) = topic.partitions
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._moved(data)
        if data.error_code:
            return refusal(code_of(data.error_code), ErrorCode(data.error_code).name)
        found = self._read(data)
        code = ResponseCode.SUCCESS
        if found.count:
            # A quarter more, since no two messages are alike: a fetch that finds too few costs another pull.
            self._averages()[self.name, self.queue_id] = found.read_bytes * 5 // (found.count * 4) + 1
        else:
            # Everything that was read is filtered out, or belongs to no reader: the client asks on at once.
            has_moved = found.next_offset > self._offset
            code = ResponseCode.PULL_RETRY_IMMEDIATELY if has_moved else ResponseCode.PULL_NOT_FOUND
        answer = self._placed(code, found.next_offset)
        answer.body = b"".join(found.pieces)
        return answer

    def _read(self, data: PartitionData) -> Collected:
        """The messages, and the offset behind the last record that was looked at."""
        found = Collected(self._offset, self._messages_max, ANSWER_BYTES)
        takes = None if self._filter is ALL else self._filter.takes
        Collecting(found, self._forms(), self._context.parts.converted, takes).collect(data)
        return found

    def _forms(self) -> QueueOfForms:
        """The facts that the messages of the queue share."""
        host = self._context.parts.identity.store_host
        return QueueOfForms(self._topic, self.queue_id, self._partition.log.partition_id, host)

    def _moved(self, data: PartitionData) -> Command:
        """The offset is not in the log: the client goes on at its start, or at its end."""
        log = self._partition.log
        is_behind = self._offset < log.start_offset
        answer = self._placed(ResponseCode.PULL_OFFSET_MOVED, log.start_offset if is_behind else log.last_stable_offset)
        answer.remark = f"offset {self._offset} is not in queue {data.partition_index} of {self.name}"
        return answer

    def _placed(self, code: ResponseCode, next_offset: int) -> Command:
        log = self._partition.log
        fields = {
            "suggestWhichBrokerId": str(own_broker_id(self._context)),
            "nextBeginOffset": str(next_offset),
            "minOffset": str(log.start_offset),
            "maxOffset": str(log.last_stable_offset),
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        return Command(code, remark=code.name if code else "FOUND", fields=fields)

    def _find_filter(self, flags: int) -> Filter:
        """The filter of the request, or else of the group's heartbeat: Java and Go leave it out of their pulls."""
        if flags & PULL_HAS_EXPRESSION:
            context = self._context
            return filter_of(context.text("subscription", "*"), context.text("expressionType", "TAG"))
        # The newest heartbeat counts for all members, as in RocketMQ: they must subscribe to the same.
        group = self._context.parts.clients.group(self.group)
        subscription = group.subscriptions.get(self._topic) if group is not None else None
        if subscription is None:
            return ALL
        return filter_of(subscription.subString, subscription.expressionType or "TAG")


def _nobody_asks(_error_code: int) -> None:
    """Leave the outcome of a commit by the way: the next pull commits again."""
