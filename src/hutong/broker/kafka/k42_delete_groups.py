"""DeleteGroups (key 42, versions 0-2): delete empty groups with all their offsets (KIP-229).

That includes offsets of open transactions.

A group with members is refused with NON_EMPTY_GROUP, one that does not exist with GROUP_ID_NOT_FOUND. The client needs
DELETE of the group.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.directory import GroupKind
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 42


def handle(
    request: DeleteGroupsRequest, context: RequestContext[GroupParts]
) -> DeleteGroupsResponse | Pending[DeleteGroupsResponse]:
    pending = PendingInParts(DeleteGroupsResponse())
    for group_id in dict.fromkeys(request.groups_names):
        _delete(group_id, pending, context)
    return pending.answer()


def _delete(group_id: str, pending: PendingInParts[DeleteGroupsResponse], context: RequestContext[GroupParts]) -> None:
    result = DeletableGroupResult(group_id)
    pending.response.results.append(result)
    if not may(context, Operation.DELETE, ResourceType.GROUP, group_id):
        result.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return
    pending.expect_part()

    def deleted(error: ErrorCode) -> None:
        result.error_code = error
        if error is ErrorCode.NONE:
            broker.groups.offsets.transactional.forget_group(group_id, lambda _error: pending.settle_part())
        else:
            pending.settle_part()

    broker = context.broker
    kind = broker.groups.directory.kind(group_id)
    if kind is GroupKind.CONSUMER:
        broker.consumer_groups.delete(group_id, deleted)
    elif kind is GroupKind.STREAMS:
        broker.streams_groups.delete(group_id, deleted)
    elif kind is GroupKind.SHARE:
        broker.share_groups.delete(group_id, deleted)
    else:
        broker.groups.delete(group_id, deleted)
