"""Produce (key 0, versions 3-13, advertised from 0): append record batches.

Versions below 3 carry message sets of magic 0 and 1; they are advertised because librdkafka otherwise disables
compression (KAFKA-18659), and refused. From 10 NOT_LEADER errors name the leader (KIP-951), from 13 topics
come by id (KIP-516). Version 11 knows TRANSACTION_ABORTABLE, and from 12 partitions join a transaction by being
produced to (KIP-890).

Without WRITE on the transactional id the whole request is refused; without WRITE on a topic only that topic's
partitions are.

The content of every batch is checked before any batch of the request is appended (`produce.record_checks`). A little
is checked at once; more is checked on a worker, and the request is held meanwhile (`produce.examinations`). Where the
topic demands schemas, the ids that records name are looked up as well (`produce.schema_gate`).

A transactional batch is accepted while its producer's transaction is open (`produce.admissions`); a plain one of that
producer is refused. Without a transactional id a transactional batch is unauthorized for every client.

Acknowledgement: acks=0 is never answered, and an error closes the connection; acks=1 waits for the topic's QoS;
acks=-1 waits for ALL. Each partition answers for itself; the response leaves when the last of them is settled. A
partition that is not settled in time (acks=-1: `timeout_ms` of the request; acks=1: a bound of the node) is answered
REQUEST_TIMED_OUT: as in Kafka the records stay, and the client does not know whether they became durable.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.produce.admissions import SubmittedBatch
from hutong.broker.produce.examinations import Submitted, is_little
from hutong.broker.produce.outcomes import put_outcome, put_start, why_refused, why_unsafe
from hutong.broker.produce.record_checks import check_header, check_records, rules_for
from hutong.broker.rights.authorization import may, permitted
from hutong.broker.topics.internal_topics import check_writable
from hutong.foundation.errors import HutongError, ProtocolError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.journal.append.qos import Qos
from hutong.reactor.connections.channel import HELD, Held
from hutong.security.acls import Operation, ResourceType
from hutong.security.principals import CLUSTER_NODE
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from hutong.wire.kafka.batch.records import TRANSACTIONAL
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hutong.broker.handling.node_facts import BrokerSettings
    from hutong.broker.produce.admissions import Refusals
    from hutong.broker.produce.examinations import Outcome
    from hutong.broker.produce.parts import ProduceParts
    from hutong.broker.produce.record_checks import BatchRules, CheckedBatch
    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.broker.topics.topic_config import TopicConfig

API_KEY = 0
_WRITE: Final = Operation.WRITE
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
_ZSTD_FROM_VERSION: Final = 7  # KIP-110
_IDS_FROM_VERSION: Final = 13  # KIP-516


def handle(
    request: ProduceRequest, context: RequestContext[ProduceParts]
) -> ProduceResponse | Pending[ProduceResponse] | Held | None:
    denied: frozenset[str] = frozenset()
    if context.broker.authorizer.is_on:
        transactional_id = request.transactional_id
        # Before the topics: without this right a client must not learn which of them exist.
        if transactional_id is not None and not may(context, _WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return _denied_whole(request)
        denied = _denied_topics(request, context)
    # KIP-1: Kafka gave up counts of replicas, so there are three values.
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return _refused_whole(request, ErrorCode.INVALID_REQUIRED_ACKS, context)
    # Before anything is examined: the set is nearly always empty, and a held request must keep no work of ours.
    if context.broker.congestion.groups and _must_wait(request, context):
        return HELD
    # A topic that demands schemas: its batches are looked at before any batch of the request is appended.
    demands_schemas = context.broker.topics.has_schema_demands and _demands_schemas(request, context)
    # Little batches are checked as they are appended, which spares most requests a list of outcomes.
    if not demands_schemas and is_little(request.topic_data):
        return _admitted(request, context, denied, None)
    examinations = context.broker.examinations
    submitted = _submitted(request, context, denied, demands_schemas=demands_schemas)
    outcomes = examinations.examine(submitted, context.session)
    # A worker unpacks the batches. The connection is held, so that a later Produce of the same producer stays later.
    if isinstance(outcomes, Held):
        return HELD
    if demands_schemas:
        outcomes = context.broker.schema_gate.look(_topics_of_batches(request, context), outcomes, context.session)
        if isinstance(outcomes, Held):
            return HELD
    answer = _admitted(request, context, denied, outcomes)
    if answer is not HELD:  # else the outcomes are asked for again with the request
        examinations.forget(context.session)
    return answer


def _admitted(
    request: ProduceRequest,
    context: RequestContext[ProduceParts],
    denied: frozenset[str],
    outcomes: Sequence[Outcome | None] | None,
) -> ProduceResponse | Pending[ProduceResponse] | Held | None:
    """Append what is examined, or little, where its transaction lets it."""
    refusals: Refusals | None = None
    if request.transactional_id is not None:
        try:
            # KIP-890: a batch of a transaction that has ended would hang in the log for ever, so each is checked.
            checked = _check_transaction(request, request.transactional_id, denied, context)
        except Refused as refused:
            return _refused_whole(request, ErrorCode(refused.code), context)
        # From version 12 the check adds partitions to the transaction (KIP-890), which must be durable before the
        # batch.
        if checked is HELD:
            return HELD
        refusals = checked
    pending = PendingInParts(ProduceResponse())
    appender = _Appender(request, context, pending, refusals, denied, outcomes)
    for topic_data in request.topic_data:
        results = appender.append_topic(topic_data)
        pending.response.responses.append(TopicProduceResponse(topic_data.name, topic_data.topic_id, results))
    appender.acknowledge()
    # Kafka's clients expect no answer to acks=0, not even an error: only the end of the connection tells of one.
    if request.acks == ACKS_NONE:
        _close_on_error(pending.response)
        return None
    return pending.answer()


def _demands_schemas(request: ProduceRequest, context: RequestContext[ProduceParts]) -> bool:
    topics = context.broker.topics
    # Delayed records of other nodes: the topic in which they waited had demands of its own, or none.
    if context.principal == CLUSTER_NODE:
        return False
    found = [_topic(topics, topic_data, context.api_version) for topic_data in request.topic_data]
    return any(topic is not None and topic.config.schemas for topic in found)


def _topics_of_batches(request: ProduceRequest, context: RequestContext[ProduceParts]) -> list[Topic | None]:
    """The topic of each batch, in the request's order."""
    found: list[Topic | None] = []
    for topic_data in request.topic_data:
        topic = _topic(context.broker.topics, topic_data, context.api_version)
        found += [topic] * len(topic_data.partition_data)
    return found


def _must_wait(request: ProduceRequest, context: RequestContext[ProduceParts]) -> bool:
    """True if a partition group of the request is congested. The session is released once it no longer is."""
    broker = context.broker
    for topic_data in request.topic_data:
        topic = _topic(broker.topics, topic_data, context.api_version)
        for data in topic_data.partition_data:
            partition = topic.partition(data.index) if topic is not None else None
            # The first congested group is enough: the request is handled again from its start when that has drained.
            if partition is not None and partition.group in broker.congestion.groups:
                broker.congestion.hold(partition.group, context.session)
                return True
    return False


def _submitted(
    request: ProduceRequest, context: RequestContext[ProduceParts], denied: frozenset[str], *, demands_schemas: bool
) -> list[Submitted]:
    """All batches of the request in order, with the rules of their topics; None for those that are refused anyway."""
    topics, now_ms = context.broker.topics, context.broker.clock.wall_ms()
    zstd_allowed = context.api_version >= _ZSTD_FROM_VERSION
    submitted: list[Submitted] = []
    for topic_data in request.topic_data:
        topic = _topic(topics, topic_data, context.api_version)
        rules = None
        # Unpacking a batch costs a worker's time, which a client without the right must not get.
        if topic is not None and not topic.is_internal and topic.name not in denied:
            rules = rules_for(topic.config, now_ms, zstd_allowed=zstd_allowed)
            rules = rules if demands_schemas else rules._replace(schemas=())
        for data in topic_data.partition_data:
            is_there = topic is not None and topic.partition(data.index) is not None
            # In the request's order, refused ones included: the appender takes one outcome for each partition.
            submitted.append(Submitted(data.records, rules if is_there else None))
    return submitted


def _denied_topics(request: ProduceRequest, context: RequestContext[ProduceParts]) -> frozenset[str]:
    """The names of topics that the client may not write to, whether there are such topics or not."""
    # A topic that is named by an unknown id has no name to be denied by, and is answered UNKNOWN_TOPIC_ID.
    names = {_name(topic_data, context) for topic_data in request.topic_data} - {""}
    return frozenset(names - permitted(context, _WRITE, ResourceType.TOPIC, names))


def _name(topic_data: TopicProduceData, context: RequestContext[ProduceParts]) -> str:
    """The topic's name; empty where it is named by an id that nothing has."""
    topic = _topic(context.broker.topics, topic_data, context.api_version)
    return topic_data.name if topic is None else topic.name


def _check_transaction(
    request: ProduceRequest, transactional_id: str, denied: frozenset[str], context: RequestContext[ProduceParts]
) -> Refusals | Held:
    """The partitions whose batches belong to no open transaction, or HELD. Raises Refused."""
    broker = context.broker
    asked: list[SubmittedBatch] = []
    for topic_data in request.topic_data:
        topic = _topic(broker.topics, topic_data, context.api_version)
        for data in topic_data.partition_data:
            partition = topic.partition(data.index) if topic is not None else None
            # Others are refused when they are appended, with an error of their own; they join no transaction.
            is_taken = partition is not None and not partition.is_internal and partition.standing.is_led_here
            if partition is not None and is_taken and partition.topic_name not in denied:
                asked.append(SubmittedBatch(partition, data.records))
    return broker.admissions.check_transaction(
        broker.transaction_gateway, transactional_id, context.api_version, asked, context.session
    )


class _Appender:
    """Appends the batches of one request; `refusals` are those of its transaction, None if it belongs to none.

    To the topics that are `denied` nothing is appended. `outcomes` are those of the batches in the request's order,
    None where they are little and checked here.

    What waits for the disk is acknowledged once for each partition group: its batches are in the stream one behind the
    other, so that all are safe when the last one is. A thousand partitions cost a thousand appends, but one wait.
    """

    __slots__ = (
        "_acks",
        "_context",
        "_denied",
        "_outcomes",
        "_pending",
        "_refusals",
        "_rules",
        "_taken",
        "_timeout_ms",
        "_zstd_allowed",
    )

    def __init__(
        self,
        request: ProduceRequest,
        context: RequestContext[ProduceParts],
        pending: PendingInParts[ProduceResponse],
        refusals: Refusals | None,
        denied: frozenset[str],
        outcomes: Sequence[Outcome | None] | None,
    ) -> None:
        self._context = context
        self._denied = denied
        self._outcomes: Iterator[Outcome | None] | None = iter(outcomes) if outcomes is not None else None
        self._rules: tuple[TopicConfig, BatchRules] | None = None  # of the topic whose batches are appended
        self._zstd_allowed = context.api_version >= _ZSTD_FROM_VERSION
        self._pending = pending
        self._refusals = refusals
        self._acks = request.acks
        self._timeout_ms = timeout_for(request, context.broker.settings)
        self._taken: dict[tuple[str, Qos], list[tuple[Partition, PartitionProduceResponse]]] = {}

    def append_topic(self, topic_data: TopicProduceData) -> list[PartitionProduceResponse]:
        """Append the topic's batches; what becomes of each is filled in now or once the response is complete."""
        topic = _topic(self._context.broker.topics, topic_data, self._context.api_version)
        results = []
        # A topic that is missing is denied by the name asked for, so that clients cannot find out which names exist.
        is_denied = bool(self._denied) and (topic_data.name if topic is None else topic.name) in self._denied
        for data in topic_data.partition_data:
            outcome = next(self._outcomes) if self._outcomes is not None else None
            if is_denied:
                results.append(_denied(data.index))
                continue
            result = PartitionProduceResponse(data.index)
            results.append(result)
            try:
                partition = _find(topic, data.index, self._context)
                self._append(partition, data.records, outcome, result)
            except Refused as refused:
                put_outcome(result, refused)
                if topic is not None and (found := topic.partition(data.index)) is not None:
                    put_start(result, found.log)
                    self._put_leader(result, found)
        return results

    def acknowledge(self) -> None:
        """Wait for the records that are appended and not yet safe."""
        # One wait for each group and QoS: the last log's records are behind all others in the journal.
        for (_, qos), taken in self._taken.items():
            self._pending.expect_part()
            taken[-1][0].log.when_safe(qos, partial(self._settle, taken), self._timeout_ms)

    def _append(
        self,
        partition: Partition,
        records: memoryview | None,
        outcome: Outcome | None,
        result: PartitionProduceResponse,
    ) -> None:
        # The coordinator refused this partition alone, such as one that is not part of the transaction (KIP-890).
        if self._refusals:
            refused = self._refusals.get((partition.topic_name, partition.index))
            if refused is not None:
                raise refused
        if isinstance(outcome, HutongError):
            # Other partitions of the request are appended all the same, as in Kafka.
            put_outcome(result, outcome)
            put_start(result, partition.log)
            return
        # A worker may have corrected the batch's greatest timestamp, so its records replace those of the request.
        header, records, _ = self._checked(partition, records) if outcome is None else outcome
        # Without the id nobody has checked a right to the transaction. Kafka answers with this code, too.
        if header.attributes & TRANSACTIONAL and self._refusals is None:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch without an id.")
        log, qos = partition.log, qos_for(partition, self._acks)
        appended = log.append([(records, header)], qos)
        if isinstance(appended, HutongError):
            put_outcome(result, why_refused(partition, appended))
            put_start(result, log)
            return
        put_outcome(result, appended)
        # With QoS RECEIVE or acks=0 the append itself was the acknowledgement.
        if not appended.is_safe:
            self._taken.setdefault((partition.group, qos), []).append((partition, result))

    def _checked(self, partition: Partition, records: memoryview | None) -> CheckedBatch:
        """A batch of a request whose batches are little. Raises Refused."""
        config = partition.config
        # All batches of a topic have the same rules: a thousand partitions read the clock once.
        if self._rules is None or self._rules[0] is not config:
            now_ms = self._context.broker.clock.wall_ms()
            self._rules = config, rules_for(config, now_ms, zstd_allowed=self._zstd_allowed)
        rules = self._rules[1]
        header = check_header(records, rules)
        assert records is not None, "null records are refused"
        return check_records(header, records, rules)

    def _settle(self, taken: list[tuple[Partition, PartitionProduceResponse]], error: HutongError | None) -> None:
        if error is not None:
            # A failed flush leaves open which of the batches became durable: all are refused.
            for partition, result in taken:
                put_outcome(result, why_unsafe(partition, error))
                self._put_leader(result, partition)
        self._pending.settle_part()

    def _put_leader(self, result: PartitionProduceResponse, partition: Partition) -> None:
        """Say where the partition is led now, if that is why the batch is refused (KIP-951)."""
        if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            from hutong.broker.handling.leaders import put_leader  # late: a node alone never needs it

            put_leader(result, partition.standing, self._pending.response, self._context)


def qos_for(partition: Partition, acks: int) -> Qos:
    """The QoS that an append waits for. Raises Refused if there are too few replicas for acks=-1."""
    if acks == ACKS_ALL:
        # Kafka refuses such a batch before it appends it, so that a client may send it again elsewhere.
        wanted = partition.config.min_insync_replicas
        if wanted > 1 and wanted > (count := len(partition.standing.in_sync)):
            partition.standing.note_refusal()
            message = "This node is the only replica of the partition." if count == 1 else f"{count} replicas in sync."
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, message)
        return Qos.ALL
    if acks == ACKS_LEADER:
        # As in Kafka acks=1 asks for the leader's own durability, which a topic may lower to memory (`hutong.qos`).
        return Qos.RECEIVE if partition.config.receive_qos else Qos.PERSISTENCE
    return Qos.ONE_WAY


def timeout_for(request: ProduceRequest, settings: BrokerSettings) -> int:
    """The time limit of an acknowledgement, in milliseconds."""
    # Kafka applies the client's time only to acks=-1. Here acks=1 waits for a disk too, so it has a bound of the
    # node's.
    return max(0, request.timeout_ms) if request.acks == ACKS_ALL else settings.acknowledgement_timeout_ms


def _topic(topics: Topics, topic_data: TopicProduceData, api_version: int) -> Topic | None:
    # KIP-516: an id does not outlive its topic, so a batch never goes to a new topic of the same name.
    return topics.by_id(topic_data.topic_id) if api_version >= _IDS_FROM_VERSION else topics.get(topic_data.name)


def _find(topic: Topic | None, index: int, context: RequestContext[ProduceParts]) -> Partition:
    if topic is None:
        if context.api_version >= _IDS_FROM_VERSION:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This node hosts no topic with that id.")
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such topic.")
    partition = topic.partition(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic has no such partition.")
    if partition.is_internal:
        check_writable(partition, context.principal)
    standing = partition.standing
    if not standing.is_led_here:
        standing.check_led_here()
    return partition


def _close_on_error(response: ProduceResponse) -> None:
    """Close the connection if there is an error: with acks=0 a client learns of one in no other way."""
    for topic in response.responses:
        for result in topic.partition_responses:
            # The first error is enough: the client learns nothing but the end of its connection.
            if result.error_code:
                raise ProtocolError(f"produce with acks=0 failed with error code {result.error_code}")


def _refused_whole(
    request: ProduceRequest, code: ErrorCode, context: RequestContext[ProduceParts]
) -> ProduceResponse | None:
    """Refuse every batch with this code, except those whose partition does not exist."""
    if request.acks == ACKS_NONE:
        raise ProtocolError(f"produce with acks=0 failed with error code {code}")
    response = ProduceResponse()
    for topic_data in request.topic_data:
        topic = _topic(context.broker.topics, topic_data, context.api_version)
        results = [
            PartitionProduceResponse(data.index, _code_for(topic, data.index, code, context), -1)
            for data in topic_data.partition_data
        ]
        response.responses.append(TopicProduceResponse(topic_data.name, topic_data.topic_id, results))
    return response


def _denied(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


def _denied_whole(request: ProduceRequest) -> ProduceResponse | None:
    """Refuse every batch alike: without the right a client must not learn which partitions exist."""
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.acks == ACKS_NONE:
        raise ProtocolError(f"produce with acks=0 failed with error code {code}")
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic_data.name,
                topic_data.topic_id,
                [PartitionProduceResponse(data.index, code, -1) for data in topic_data.partition_data],
            )
            for topic_data in request.topic_data
        ]
    )


def _code_for(topic: Topic | None, index: int, code: int, context: RequestContext[ProduceParts]) -> int:
    try:
        _find(topic, index, context)
    except Refused as refused:
        return refused.code
    return code
