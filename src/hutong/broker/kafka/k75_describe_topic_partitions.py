"""DescribeTopicPartitions (key 75, version 0): topics with their partitions, page by page (KIP-966).

Topics come in the order of their names; no names ask for all. A page ends after `response_partition_limit` partitions
(bounded by ours), and its cursor names the partition to go on with. Eligible leader replicas (KIP-966) are those that
left the set of those in sync while it was too small to commit. Topics that the client may not DESCRIBE are left out
where it asks for all, and refused where it names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may, operations
from hutong.broker.topics.catalogue import why_missing
from hutong.broker.topics.partition import is_listed
from hutong.broker.topics.parts import TopicParts
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Topic

API_KEY = 75
PAGE_PARTITIONS_MAX: Final = 2_000  # max.request.partition.size.limit of Kafka


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext[TopicParts]
) -> DescribeTopicPartitionsResponse:
    topics = context.broker.topics
    response = DescribeTopicPartitionsResponse()
    left = max(1, min(request.response_partition_limit, PAGE_PARTITIONS_MAX))
    cursor = request.cursor or Cursor("", 0)
    names = {topic.name for topic in request.topics}
    if cursor.partition_index < 0 or (request.cursor is not None and names and cursor.topic_name not in names):
        return _refused(request)
    listed = names or {topic.name for topic in topics.all() if is_listed(topic)}
    for name in sorted(name for name in listed if name >= cursor.topic_name):
        topic = topics.get(name)
        if not may(context, Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=not names):
            if names:
                response.topics.append(_denied(name))
            continue
        if topic is None:
            response.topics.append(_missing(name, context))
            continue
        start = max(0, cursor.partition_index) if name == cursor.topic_name else 0
        end = min(start + left, len(topic.partitions))
        if left:
            response.topics.append(_page(topic, start, end, context))
            left -= max(0, end - start)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
    return response


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)


def _missing(name: str, context: RequestContext[TopicParts]) -> DescribeTopicPartitionsResponseTopic:
    allowed = operations(context, ResourceType.TOPIC, name)
    return DescribeTopicPartitionsResponseTopic(why_missing(name), name, topic_authorized_operations=allowed)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Refuse a cursor that no page ended with: the response has this error alone."""
    topics = [DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=topics)


def _page(
    topic: Topic, start: int, end: int, context: RequestContext[TopicParts]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE,
                partition_index=partition.index,
                leader_id=partition.leader,
                leader_epoch=partition.standing.leader_epoch,
                replica_nodes=[*partition.standing.replicas],
                isr_nodes=[*partition.standing.in_sync],
                offline_replicas=partition.offline_replicas,
                # Not null: Java's admin client takes these for lists wherever the API is.
                eligible_leader_replicas=[*partition.standing.eligible],
                last_known_elr=[],
            )
            for partition in topic.partitions[start:end]
        ],
        topic_authorized_operations=operations(context, ResourceType.TOPIC, topic.name),
    )
