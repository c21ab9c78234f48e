"""SyncGroup (key 14, versions 0-5): the leader hands in the assignment, everyone waits for their share of it.

The answer is given once the assignment is durable. From version 5 the protocol's type and name are mandatory and must
be the group's, else INCONSISTENT_GROUP_PROTOCOL (KIP-559). The client needs READ of the group.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k11_join_group import caller_of
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.classic.messages import SyncReply
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 14


def handle(
    request: SyncGroupRequest, context: RequestContext[GroupParts]
) -> SyncGroupResponse | Pending[SyncGroupResponse]:
    pending: Pending[SyncGroupResponse] = Pending()
    broker = context.broker
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    sync = broker.groups.sync
    if broker.consumer_groups.has_members(request.group_id):
        sync = broker.consumer_groups.sync

    def synced(reply: SyncReply) -> None:
        # Before the member has its partitions, so its first fetch is the group's.
        if reply.error is ErrorCode.NONE:
            broker.read_actors.note_member(context, request.group_id)
        pending.complete(_response(reply))

    sync(request, caller_of(context), synced)
    return pending


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
