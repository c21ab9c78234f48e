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

from hutong.broker.coordinators.group_offsets import commit_error
from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.authorization import may
from hutong.broker.topics.partition import Topic
from hutong.foundation.waiting.pending import Pending
from hutong.groups.offsets.offset_log import Change
from hutong.groups.offsets.records import NO_EXPIRY_MS, StoredOffset
from hutong.groups.record_keys import OffsetKey
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


class _OffsetCommit:
    """One request on its way: the response in the making, and the part of it that the group decides."""

    __slots__ = ("changes", "expires_at_ms", "now_ms", "open_results", "partitions", "request", "response")

    def __init__(self, request: OffsetCommitRequest, now_ms: int) -> None:
        self.request = request
        self.now_ms = now_ms
        has_expiry = request.retention_time_ms != _NO_RETENTION
        self.expires_at_ms = now_ms + request.retention_time_ms if has_expiry else NO_EXPIRY_MS
        self.response = OffsetCommitResponse()
        self.changes: list[Change] = []
        self.partitions: list[tuple[bytes, int]] = []  # (topic id, index) of the changes
        self.open_results: list[PartitionErrorCode] = []

    def settle(self, error: ErrorCode) -> OffsetCommitResponse:
        for result in self.open_results:
            result.error_code = error
        return self.response

    def refuse_long_notes(self, metadata_bytes_max: int) -> None:
        """Said only to who may commit at all, as Kafka does."""
        kept = [offset is None or len(offset.metadata) <= metadata_bytes_max for _, offset in self.changes]
        for result, is_kept in zip(self.open_results, kept, strict=True):
            result.error_code = ErrorCode.NONE if is_kept else ErrorCode.OFFSET_METADATA_TOO_LARGE
        self.open_results = [result for result, is_kept in zip(self.open_results, kept, strict=True) if is_kept]
        self.changes = [change for change, is_kept in zip(self.changes, kept, strict=True) if is_kept]


def handle(
    request: OffsetCommitRequest, context: RequestContext[GroupParts]
) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
    commit = _OffsetCommit(request, context.broker.clock.wall_ms())
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return _denied(request)
    for asked in request.topics:
        _take_topic(asked, commit, context)
    if not commit.changes:
        return commit.response
    groups = context.broker.groups
    error = commit_error(
        context.broker,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        commit.partitions,
        context.api_version,
    )
    if error is not ErrorCode.NONE:
        return commit.settle(error)
    commit.refuse_long_notes(groups.settings.offset_metadata_bytes_max)
    if not commit.changes:
        return commit.response
    pending: Pending[OffsetCommitResponse] = Pending()
    groups.commit(
        request.group_id, commit.changes, lambda code: pending.complete(commit.settle(code)), holder_of(context)
    )
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


def _take_topic(asked: OffsetCommitRequestTopic, commit: _OffsetCommit, context: RequestContext[GroupParts]) -> None:
    topics = context.broker.topics
    by_id = context.api_version >= TOPIC_IDS_FROM
    topic = topics.by_id(asked.topic_id) if by_id else topics.get(asked.name)
    results = []
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
            commit.open_results.append(result)
            commit.changes.append(_change(partition, topic, commit))
            commit.partitions.append((topic.topic_id, partition.partition_index))
    commit.response.topics.append(OffsetCommitResponseTopic(asked.name, asked.topic_id, results))


def _partition_error(partition: OffsetCommitRequestPartition, topic: Topic | None, by_id: bool) -> ErrorCode:
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or topic.partition(partition.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _change(partition: OffsetCommitRequestPartition, topic: Topic, commit: _OffsetCommit) -> Change:
    committed = StoredOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        committed_at_ms=commit.now_ms,
        expires_at_ms=commit.expires_at_ms,
    )
    return OffsetKey(commit.request.group_id, topic.name, partition.partition_index), committed
