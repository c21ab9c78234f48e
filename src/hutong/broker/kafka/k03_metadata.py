"""Metadata (key 3, versions 0-13): the nodes, and the topics with their partitions and leaders.

A null list of topics asks for all (in version 0 an empty one does), of the internal ones for those in use; from 12
topics may be named by id (KIP-516; the field is there from 10, and refused); from 4 the client says whether a missing
topic may be created. A topic that is created here is answered whole once it is durable: clients need not come back for
it. One that another node creates is answered LEADER_NOT_AVAILABLE until this one knows it. A client that asks gets the
operations that it may do with topics and the cluster (KIP-430). Topics that it may not DESCRIBE are left out where it
asks for all, and refused where it names them, there or not; to create one it needs CREATE, of the topic or of the
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.broker.rights.authorization import cluster_operations, may, may_in_cluster, operations, permitted
from hutong.broker.topics.catalogue import why_missing
from hutong.broker.topics.partition import Partition, Topic, is_listed
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 3
ZERO_UUID = bytes(16)
_PASSED_ON = frozenset(
    (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION)
)
_IDS_FROM_VERSION = 12  # the field is there from 10, but no broker took it


def handle(
    request: MetadataRequest, context: RequestContext[TopicParts]
) -> MetadataResponse | Pending[MetadataResponse]:
    broker = context.broker
    if context.api_version < _IDS_FROM_VERSION and any(_is_by_id(topic) for topic in request.topics or ()):
        return _refused(request)
    response = _about_the_cluster(context, request)
    with_operations = request.include_topic_authorized_operations
    # Version 0 has no null lists, so there an empty one asks for all topics.
    if request.topics is None or (context.api_version == 0 and not request.topics):
        response.topics = [
            describe(topic, context, with_operations=with_operations)
            for topic in broker.topics.all()
            if is_listed(topic) and may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
        ]
        return response
    missing = _answer_known(request.topics, context, response, with_operations=with_operations)
    if not missing:
        return response
    # A consumer may set the flag to false: a subscription then creates no topic (KIP-361).
    if not (request.allow_auto_topic_creation and broker.settings.auto_create_topics):
        for entry in missing:
            entry.error_code = why_missing(entry.name or "")
        return response
    return _create(_that_may_be(missing, context), context, response, with_operations=with_operations)


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


def _refused(request: MetadataRequest) -> MetadataResponse:
    """Answer every topic INVALID_REQUEST, and nothing else: ids are not allowed in this version."""
    topics = [
        MetadataResponseTopic(ErrorCode.INVALID_REQUEST, asked.name or "", asked.topic_id)
        for asked in request.topics or ()
    ]
    return MetadataResponse(topics=topics)


def _about_the_cluster(context: RequestContext[TopicParts], request: MetadataRequest) -> MetadataResponse:
    cluster = context.broker.cluster
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node.node_id, node.host, node.port, node.rack)
            for node in cluster.nodes(context.listener)
        ],
        cluster_id=context.broker.identity.cluster_id,
        controller_id=cluster.controller_id,
        cluster_authorized_operations=cluster_operations(
            context, is_asked=request.include_cluster_authorized_operations
        ),
    )


def _answer_known(
    asked: list[MetadataRequestTopic],
    context: RequestContext[TopicParts],
    response: MetadataResponse,
    *,
    with_operations: bool,
) -> list[MetadataResponseTopic]:
    """Fill in what exists and may be seen; returns the entries of named topics that do not exist.

    Each topic is answered once. A client that may not see a topic must not learn that its name exists; ids are no
    secret.
    """
    topics = context.broker.topics
    missing: list[MetadataResponseTopic] = []
    seen: set[str | bytes] = set()
    for item in asked:
        key: str | bytes = item.topic_id if item.topic_id != ZERO_UUID else item.name or ""
        if key in seen:
            continue
        seen.add(key)
        topic = topics.by_id(key) if isinstance(key, bytes) else topics.get(key)
        name = (item.name or "") if topic is None else topic.name
        is_named = not isinstance(key, bytes)
        # An id is random, so one that is unknown betrays no name and is answered as unknown.
        if (topic is not None or is_named) and not may(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            shown = (name, ZERO_UUID) if isinstance(key, str) else (None, key)
            response.topics.append(MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, *shown))
        elif topic is not None:
            response.topics.append(describe(topic, context, with_operations=with_operations))
        # KIP-516: a client with an old id refreshes its metadata by name.
        elif isinstance(key, bytes):
            response.topics.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, key))
        else:
            entry = MetadataResponseTopic(ErrorCode.NONE, key)
            if with_operations:
                entry.topic_authorized_operations = operations(context, ResourceType.TOPIC, key)
            response.topics.append(entry)
            missing.append(entry)
    return missing


def _that_may_be(
    missing: list[MetadataResponseTopic], context: RequestContext[TopicParts]
) -> list[MetadataResponseTopic]:
    """The missing topics that the client may create, by the cluster's right or the topic's. The others are refused."""
    # The cluster's right first, and quietly: without it the topic's right decides, and that refusal is the one to log.
    if may_in_cluster(context, Operation.CREATE, quietly=True):
        return missing
    names = permitted(context, Operation.CREATE, ResourceType.TOPIC, [entry.name or "" for entry in missing])
    for entry in missing:
        if entry.name not in names:
            entry.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [entry for entry in missing if entry.name in names]


def _create(
    missing: list[MetadataResponseTopic],
    context: RequestContext[TopicParts],
    response: MetadataResponse,
    *,
    with_operations: bool,
) -> MetadataResponse | Pending[MetadataResponse]:
    pending, broker, holder = PendingInParts(response), context.broker, holder_of(context)

    def settle(entry: MetadataResponseTopic, outcome: Topic | HutongError) -> None:
        if isinstance(outcome, Topic):
            _fill(entry, outcome, context, with_operations)
        else:
            code = error_code_of(outcome)
            # Clients of Metadata know no throttling: Kafka has this code for a topic that is being created.
            is_busy = code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            entry.error_code = ErrorCode.LEADER_NOT_AVAILABLE if is_busy else code
        pending.settle_part()

    if not broker.cluster.is_controller and missing:
        _create_remotely(missing, context, pending, with_operations=with_operations)
        return pending.answer()
    for entry in missing:
        pending.expect_part()
        try:
            broker.topics.get_or_create(
                entry.name or "",
                broker.settings.default_partitions,
                lambda outcome, entry=entry: settle(entry, outcome),  # type: ignore[misc]
                holder,
            )
        # A name that no topic can have, or no room for its partitions: the others are created all the same.
        except Refused as refused:
            settle(entry, refused)
    return pending.answer()


def _create_remotely(
    missing: list[MetadataResponseTopic],
    context: RequestContext[TopicParts],
    pending: PendingInParts[MetadataResponse],
    *,
    with_operations: bool,
) -> None:
    """Have the controller create the topics. This node knows them once it has applied what the controller wrote."""
    from hutong.broker.topics.remote_creation import create_remotely, new_topic  # late: a node alone never needs it

    def created(outcome: Mapping[str, Refused | None] | HutongError) -> None:
        refusals = {} if isinstance(outcome, HutongError) else outcome
        for entry in missing:
            name = entry.name or ""
            topic = context.broker.topics.get(name)
            if topic is None:
                # As Kafka answers one that is being created: clients ask again soon.
                refused = refusals.get(name)
                is_final = refused is not None and refused.code in _PASSED_ON
                entry.error_code = refused.code if refused is not None and is_final else ErrorCode.LEADER_NOT_AVAILABLE
            else:
                _fill(entry, topic, context, with_operations)
        pending.settle_part()

    pending.expect_part()
    partitions = context.broker.settings.default_partitions
    topics = [new_topic(entry.name or "", partitions) for entry in missing]
    create_remotely(context.broker.cluster, topics, context.session, context.client_id, created)


def describe(topic: Topic, context: RequestContext[TopicParts], *, with_operations: bool) -> MetadataResponseTopic:
    """One topic with all its partitions."""
    entry = MetadataResponseTopic()
    _fill(entry, topic, context, with_operations)
    return entry


def _fill(
    entry: MetadataResponseTopic, topic: Topic, context: RequestContext[TopicParts], with_operations: bool
) -> None:
    entry.error_code = ErrorCode.NONE
    entry.name = topic.name
    entry.topic_id = topic.topic_id
    entry.is_internal = topic.is_internal
    if with_operations:
        entry.topic_authorized_operations = operations(context, ResourceType.TOPIC, topic.name)
    # What is the same for all partitions of a group is looked up once: topics may have thousands of them.
    of_groups: dict[str, tuple[int, int, int, list[int], list[int], list[int]]] = {}
    entry.partitions = []
    for partition in topic.partitions:
        shared = of_groups.get(partition.group)
        if shared is None:
            shared = of_groups[partition.group] = _of_group(partition)
        code, leader, leader_epoch, replicas, in_sync, offline = shared
        entry.partitions.append(
            MetadataResponsePartition(code, partition.index, leader, leader_epoch, replicas, in_sync, offline)
        )


def _of_group(partition: Partition) -> tuple[int, int, int, list[int], list[int], list[int]]:
    """The part of a partition's entry that it shares with all of its group."""
    leader, standing = partition.leader, partition.standing
    # Kafka's code also for a partition whose only replica is in a log directory that is offline.
    code = ErrorCode.LEADER_NOT_AVAILABLE if leader < 0 else ErrorCode.NONE
    replicas, in_sync = [*standing.replicas], [*standing.in_sync]
    return code, leader, standing.leader_epoch, replicas, in_sync, partition.offline_replicas
