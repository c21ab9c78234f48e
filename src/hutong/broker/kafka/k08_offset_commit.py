"""OffsetCommit (key 8, versions 2-10): remember how far a group has read, with a note of the client's own.

Answered once the offsets are durable. Bad input, per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (from
version 10, which names topics by id), OFFSET_METADATA_TOO_LARGE. What the group refuses (ILLEGAL_GENERATION,
UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and of consumer groups GROUP_ID_NOT_FOUND and
STALE_MEMBER_EPOCH) is the answer for every partition that is otherwise right.

The client needs READ of the group, and of each topic.

As in Kafka the group id may be empty here, and versions up to 4 may set an expiry of their own.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.group_offsets import OffsetChanges, commit_error
from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.authorization import may
from hutong.broker.topics.partition import Topic
from hutong.foundation.waiting.pending import Pending
from hutong.groups.offsets.records import NO_EXPIRY_MS
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 8
TOPIC_IDS_FROM: Final = 10
_NO_RETENTION: Final = -1


def handle(
    request: OffsetCommitRequest, context: RequestContext[GroupParts]
) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return _denied(request)
    now_ms = context.broker.clock.wall_ms()
    has_expiry = request.retention_time_ms != _NO_RETENTION
    expires_at_ms = now_ms + request.retention_time_ms if has_expiry else NO_EXPIRY_MS
    offsets, response = OffsetChanges(request.group_id, now_ms, expires_at_ms), OffsetCommitResponse()
    for asked in request.topics:
        response.topics.append(_topic_result(asked, offsets, context))
    if not offsets.changes:
        return response
    groups = context.broker.groups
    error = commit_error(
        context.broker,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        offsets.partitions,
        context.api_version,
    )
    if error is not ErrorCode.NONE:
        offsets.settle(error)
        return response
    offsets.refuse_long_notes(groups.settings.offset_metadata_bytes_max)
    if not offsets.changes:
        return response
    pending: Pending[OffsetCommitResponse] = Pending()

    def committed(code: ErrorCode) -> None:
        offsets.settle(code)
        pending.complete(response)

    groups.commit(request.group_id, offsets.changes, committed, holder_of(context))
    return pending


def _denied(request: OffsetCommitRequest) -> OffsetCommitResponse:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                asked.name,
                asked.topic_id,
                [PartitionErrorCode(partition.partition_index, code) for partition in asked.partitions],
            )
            for asked in request.topics
        ]
    )


def _topic_result(
    asked: OffsetCommitRequestTopic, offsets: OffsetChanges, context: RequestContext[GroupParts]
) -> OffsetCommitResponseTopic:
    topics = context.broker.topics
    by_id = context.api_version >= TOPIC_IDS_FROM
    topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.name)
    results = []
    # An id that nothing has names no topic, so there is no right to check: the error is UNKNOWN_TOPIC_ID.
    is_known = topic is not None or not by_id
    name = asked.name if topic is None else topic.name
    is_denied = is_known and not may(context, Operation.READ, ResourceType.TOPIC, name)
    for partition in asked.partitions:
        error = _partition_error(partition, topic, by_id)
        if is_denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result = PartitionErrorCode(partition.partition_index, error)
        results.append(result)
        if topic is not None and error is ErrorCode.NONE:
            offsets.add(topic, partition, result)
    return OffsetCommitResponseTopic(asked.name, asked.topic_id, results)


def _partition_error(partition: OffsetCommitRequestPartition, topic: Topic | None, by_id: bool) -> ErrorCode:
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or topic.partition(partition.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
