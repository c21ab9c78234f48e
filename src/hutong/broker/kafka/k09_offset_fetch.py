"""OffsetFetch (key 9, versions 1-10): how far groups have read.

An offset of -1 with empty metadata means that nothing is committed. Null for the topics asks for all of them (version 2
on), from version 8 many groups are asked for at once (KIP-709), version 10 names topics by id and answers unknown ones
with UNKNOWN_TOPIC_ID. With `require_stable` (KIP-447, from version 7 on) a partition for which an open transaction has
committed an offset is answered with UNSTABLE_OFFSET_COMMIT: a consumer that begins there might read records twice.

From version 9 on a member of a consumer group gives its id and epoch. If they no longer hold, the answer is
UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH: the offsets may be older than those of the member's successor (KIP-848).

The client needs DESCRIBE of the group and of each topic; where it asks for all topics, others are left out.

As in Kafka the group id may be empty here, and a group that does not exist has committed nothing.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.group_offsets import offset_fetch_error
from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.groups.offsets.records import StoredOffset
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 9
_GROUP_ERROR_FROM: Final = 2
_MANY_GROUPS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
_NOTHING: Final = StoredOffset(-1, -1, "", -1)


def handle(request: OffsetFetchRequest, context: RequestContext[GroupParts]) -> OffsetFetchResponse:
    if context.api_version >= _MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=[_group(asked, request.require_stable, context) for asked in request.groups])
    group_id, store = request.group_id, context.broker.groups.offsets.table
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _denied(request, context.api_version)
    if request.topics is None:
        wanted = [
            (name, list(partitions))
            for name, partitions in store.of_group(group_id).items()
            if may(context, Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
        ]
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    find = _Find(group_id, request.require_stable, context)
    return OffsetFetchResponse(topics=[_topic(name, indexes, find) for name, indexes in wanted])


class _Find:
    """A look-up of one group's committed offsets, as the request wants to see them."""

    __slots__ = ("_context", "_group_id", "_must_be_stable")

    def __init__(self, group_id: str, must_be_stable: bool, context: RequestContext[GroupParts]) -> None:
        self._group_id = group_id
        self._must_be_stable = must_be_stable
        self._context = context

    def __call__(self, name: str, index: int) -> tuple[StoredOffset, ErrorCode]:
        groups = self._context.broker.groups
        if not may(self._context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            return _NOTHING, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        # KIP-447: the consumer asks again until the transaction has ended, then reads from the offset that counts.
        if self._must_be_stable and groups.offsets.transactional.is_unstable(self._group_id, name, index):
            return _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
        return groups.offsets.table.get(self._group_id, name, index) or _NOTHING, ErrorCode.NONE


def _denied(request: OffsetFetchRequest, api_version: int) -> OffsetFetchResponse:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    # Older versions have no field for the group's error, so each partition carries it.
    if api_version >= _GROUP_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name, [OffsetFetchResponsePartition(index, -1, -1, "", code) for index in topic.partition_indexes]
            )
            for topic in request.topics or ()
        ]
    )


def _topic(name: str, indexes: list[int], find: _Find) -> OffsetFetchResponseTopic:
    partitions = []
    for index in indexes:
        found, error = find(name, index)
        partitions.append(OffsetFetchResponsePartition(index, found.offset, found.leader_epoch, found.metadata, error))
    return OffsetFetchResponseTopic(name, partitions)


def _group(
    asked: OffsetFetchRequestGroup, must_be_stable: bool, context: RequestContext[GroupParts]
) -> OffsetFetchResponseGroup:
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return OffsetFetchResponseGroup(asked.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = offset_fetch_error(context.broker, asked.group_id, asked.member_id, asked.member_epoch)
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(asked.group_id, error_code=error)
    find = _Find(asked.group_id, must_be_stable, context)
    if asked.topics is None:
        topics = _everything(asked.group_id, find, context)
    else:
        topics = [_asked_topic(topic, find, context) for topic in asked.topics]
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _everything(group_id: str, find: _Find, context: RequestContext[GroupParts]) -> list[OffsetFetchResponseTopics]:
    """All committed offsets of the group. By id, only topics that still exist can be named."""
    answers = []
    for name, partitions in context.broker.groups.offsets.table.of_group(group_id).items():
        if not may(context, Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=True):
            continue
        answer = OffsetFetchResponseTopics(name=name)
        if context.api_version >= _TOPIC_IDS_FROM:
            topic = context.broker.topics.get(name)
            if topic is None:
                continue
            answer.topic_id = topic.topic_id
        answer.partitions = [_partition(index, *find(name, index)) for index in partitions]
        answers.append(answer)
    return answers


def _asked_topic(
    asked: OffsetFetchRequestTopics, find: _Find, context: RequestContext[GroupParts]
) -> OffsetFetchResponseTopics:
    name = asked.name
    answer = OffsetFetchResponseTopics(name, asked.topic_id)
    if context.api_version >= _TOPIC_IDS_FROM:
        topic = context.broker.topics.by_id(asked.topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            answer.partitions = [_partition(index, _NOTHING, error) for index in asked.partition_indexes]
            return answer
        name = topic.name
    answer.partitions = [_partition(index, *find(name, index)) for index in asked.partition_indexes]
    return answer


def _partition(index: int, committed: StoredOffset, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata, error)
