"""AlterShareGroupOffsets (key 91, version 0): let an empty share group go on from other offsets (KIP-932).

What the group knew of the partitions is forgotten, delivery counts too. A group that nobody knows is made. One with
members → NON_EMPTY_GROUP; another kind's → GROUP_ID_NOT_FOUND; unknown partitions → UNKNOWN_TOPIC_OR_PARTITION.
The client needs READ of the group and of each topic.
"""

from __future__ import annotations

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may, refusal
from hutong.broker.share.parts import ShareParts
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.directory import GroupKind
from hutong.groups.share.records import PartitionKey
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.schema import ZERO_UUID

API_KEY = 91
NOT_EMPTY = "The group is not empty."
NO_SUCH_PARTITION = "This server does not host this topic-partition."


def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext[ShareParts]
) -> AlterShareGroupOffsetsResponse | Pending[AlterShareGroupOffsetsResponse]:
    groups = context.broker.share_groups
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        denied = refusal(ResourceType.GROUP)
        return AlterShareGroupOffsetsResponse(error_code=denied.code, error_message=denied.message)
    if context.broker.groups.directory.kind(request.group_id) not in (None, GroupKind.SHARE):
        return _no_share_group(request.group_id)
    if len(groups.get(request.group_id) or ()):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=NOT_EMPTY)
    response = AlterShareGroupOffsetsResponse()
    offsets = _take(request, response, context)
    if not offsets:
        return response  # nothing to keep, so no group comes into being for it
    if not groups.ensure(request.group_id, holder_of(context)):
        return _no_share_group(request.group_id)
    pending: Pending[AlterShareGroupOffsetsResponse] = Pending()

    def altered(error: HutongError | None) -> None:
        if error is not None:
            response.error_code, response.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        pending.complete(response)

    groups.begin_at(request.group_id, offsets, altered)
    return pending


def _no_share_group(group_id: str) -> AlterShareGroupOffsetsResponse:
    message = f"Group {group_id} is not a share group."
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _take(
    request: AlterShareGroupOffsetsRequest,
    response: AlterShareGroupOffsetsResponse,
    context: RequestContext[ShareParts],
) -> dict[PartitionKey, int | None]:
    """The offsets that can be set; the others get their answer."""
    offsets: dict[PartitionKey, int | None] = {}
    for asked in request.topics:
        topic = context.broker.topics.get(asked.topic_name)
        is_permitted = may(context, Operation.READ, ResourceType.TOPIC, asked.topic_name)
        results = []
        for partition in asked.partitions:
            result = AlterShareGroupOffsetsResponsePartition(partition.partition_index)
            results.append(result)
            if not is_permitted:
                put_error(result, refusal(ResourceType.TOPIC))
            elif topic is None or topic.partition(partition.partition_index) is None:
                result.error_code, result.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION
            elif partition.start_offset < 0:
                result.error_code = ErrorCode.INVALID_REQUEST
            else:
                key = PartitionKey(request.group_id, topic.topic_id, partition.partition_index)
                offsets[key] = partition.start_offset
        topic_id = topic.topic_id if topic is not None and is_permitted else ZERO_UUID
        response.responses.append(AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, results))
    return offsets
