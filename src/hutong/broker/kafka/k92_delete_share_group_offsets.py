"""DeleteShareGroupOffsets (key 92, version 0): let an empty share group forget topics (KIP-932).

A group with members → NON_EMPTY_GROUP; one that is not there → GROUP_ID_NOT_FOUND; topics that are not there, or that
the group knows nothing of → UNKNOWN_TOPIC_OR_PARTITION. The client needs DELETE of the group and READ of the topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import error_code_of
from hutong.broker.kafka.k91_alter_share_group_offsets import NO_SUCH_PARTITION, NOT_EMPTY
from hutong.broker.rights.authorization import may, refusal
from hutong.broker.share.parts import ShareParts
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.records import PartitionKey, ProgressSummary
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.schema import ZERO_UUID

API_KEY = 92
NOTHING_KNOWN = "There is no offset information to delete."


def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext[ShareParts]
) -> DeleteShareGroupOffsetsResponse | Pending[DeleteShareGroupOffsetsResponse]:
    groups = context.broker.share_groups
    if not may(context, Operation.DELETE, ResourceType.GROUP, request.group_id):
        denied = refusal(ResourceType.GROUP)
        return DeleteShareGroupOffsetsResponse(error_code=denied.code, error_message=denied.message)
    group = groups.get(request.group_id)
    if group is None:
        message = f"Group {request.group_id} not found."
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    if len(group):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=NOT_EMPTY)
    pending: Pending[DeleteShareGroupOffsetsResponse] = Pending()
    response = DeleteShareGroupOffsetsResponse()

    def failed(error: HutongError) -> None:
        response.error_code, response.error_message = error_code_of(error), str(error)
        pending.complete(response)

    def found(outcome: Mapping[PartitionKey, ProgressSummary] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            failed(outcome)
            return
        doomed = _doomed(request, response, outcome, context)
        groups.begin_at(request.group_id, dict.fromkeys(doomed), forgotten)

    def forgotten(error: HutongError | None) -> None:
        if error is not None:
            failed(error)
        else:
            pending.complete(response)

    groups.progress.summaries(request.group_id, found)
    return pending


def _doomed(
    request: DeleteShareGroupOffsetsRequest,
    response: DeleteShareGroupOffsetsResponse,
    known: Iterable[PartitionKey],
    context: RequestContext[ShareParts],
) -> list[PartitionKey]:
    """The progress to be forgotten. Each topic gets its answer."""
    doomed: list[PartitionKey] = []
    for asked in request.topics:
        if not may(context, Operation.READ, ResourceType.TOPIC, asked.topic_name):
            denied = refusal(ResourceType.TOPIC)
            response.responses.append(
                DeleteShareGroupOffsetsResponseTopic(asked.topic_name, ZERO_UUID, denied.code, denied.message)
            )
            continue
        topic = context.broker.topics.get(asked.topic_name)
        topic_id = topic.topic_id if topic is not None else ZERO_UUID
        result = DeleteShareGroupOffsetsResponseTopic(asked.topic_name, topic_id)
        response.responses.append(result)
        keys = [key for key in known if topic is not None and key.topic_id == topic_id]
        if not keys:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = NO_SUCH_PARTITION if topic is None else NOTHING_KNOWN
        doomed += keys
    return doomed
