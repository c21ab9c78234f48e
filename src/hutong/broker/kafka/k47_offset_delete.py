"""OffsetDelete (key 47, version 0): forget committed offsets of single partitions (KIP-496).

Refused for the whole request: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, and NON_EMPTY_GROUP where members are of another
kind than consumers. Refused per partition: UNKNOWN_TOPIC_OR_PARTITION, and GROUP_SUBSCRIBED_TO_TOPIC for topics that
members are reading; a subscription that cannot be understood counts as one to every topic.
The client needs DELETE of the group and READ of the topics.
"""

from __future__ import annotations

from typing import Any

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.assigned.core import AssignedGroupCore
from hutong.groups.classic.states import GroupState
from hutong.groups.record_keys import OffsetKey
from hutong.groups.requests import group_id_error
from hutong.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 47


def handle(
    request: OffsetDeleteRequest, context: RequestContext[GroupParts]
) -> OffsetDeleteResponse | Pending[OffsetDeleteResponse]:
    groups = context.broker.groups
    if not may(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = _group_error(request.group_id, context)
    if error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=error)
    subscribed = _subscribed(request.group_id, context)
    response = OffsetDeleteResponse()
    open_results: dict[OffsetKey, PartitionErrorCode] = {}
    for topic in request.topics:
        answer = OffsetDeleteResponseTopic(topic.name)
        response.topics.append(answer)
        # KIP-496: offsets of a topic that members are reading would come back with their next commit.
        is_read = subscribed is None or topic.name in subscribed
        topic_error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        is_permitted = may(context, Operation.READ, ResourceType.TOPIC, topic.name)
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            exists = context.broker.topics.partition(topic.name, index) is not None
            result = PartitionErrorCode(index, topic_error if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answer.partitions.append(result)
            if not is_permitted:
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif exists and topic_error is ErrorCode.NONE:
                open_results[OffsetKey(request.group_id, topic.name, index)] = result
    pending: Pending[OffsetDeleteResponse] = Pending()

    def forgotten(code: ErrorCode) -> None:
        for result in open_results.values():
            result.error_code = code
        pending.complete(response)

    groups.offsets.forget(request.group_id, open_results, forgotten)
    return pending


def _group_error(group_id: str, context: RequestContext[GroupParts]) -> ErrorCode:
    error = group_id_error(group_id, context.broker.groups.settings)
    if error is not ErrorCode.NONE:
        return error
    group = context.broker.groups.get(group_id)
    if group is None and _assigned_group(group_id, context) is not None:
        return ErrorCode.NONE
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    # Only consumers' subscriptions can be read; of other members nobody knows which topics they use.
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _subscribed(group_id: str, context: RequestContext[GroupParts]) -> frozenset[str] | None:
    """The topics that members are reading; None if it is not known."""
    assigned = _assigned_group(group_id, context)
    if assigned is not None:
        return assigned.topic_names if assigned.members else frozenset()
    group = context.broker.groups.get(group_id)
    return subscribed_topics(group.subscriptions()) if group is not None else frozenset()


def _assigned_group(group_id: str, context: RequestContext[GroupParts]) -> AssignedGroupCore[Any, Any] | None:
    """The group, if it is one in which the broker assigns."""
    broker = context.broker
    return broker.consumer_groups.get(group_id) or broker.streams_groups.get(group_id)
