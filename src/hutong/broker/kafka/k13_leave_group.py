"""LeaveGroup (key 13, versions 0-5): give up one membership, or from version 3 several (KIP-345).

Before version 3 the one member's error is the response's; from 3 each member has its own. A group that is unknown has
no such members: each is answered with UNKNOWN_MEMBER_ID. Administrators remove members of consumer groups by it, too.
The client needs READ of the group.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.assigned.messages import Removal, RemoveReply
from hutong.groups.classic.messages import Leaver, LeaveReply
from hutong.groups.directory import GroupKind
from hutong.groups.requests import group_id_error
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 13
_MANY_MEMBERS_FROM = 3


def handle(
    request: LeaveGroupRequest, context: RequestContext[GroupParts]
) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
    groups = context.broker.groups
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error = group_id_error(request.group_id, groups.settings)
    if error is not ErrorCode.NONE:
        return LeaveGroupResponse(error_code=error)
    if context.api_version < _MANY_MEMBERS_FROM:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(each.member_id, each.group_instance_id, each.reason or "") for each in request.members]
    pending: Pending[LeaveGroupResponse] = Pending()

    def left(reply: LeaveReply | RemoveReply) -> None:
        # Others may stay in the group, but nothing speaks for it on this connection until its next heartbeat.
        if ErrorCode.NONE in reply.errors:
            context.broker.read_actors.forget(context.session)
        pending.complete(_response(leavers, reply, context.api_version))

    kind = groups.directory.kind(request.group_id)
    if kind in (GroupKind.CONSUMER, GroupKind.STREAMS):
        removals = [Removal(leaver.member_id, leaver.group_instance_id) for leaver in leavers]
        broker = context.broker
        assigned = broker.consumer_groups if kind is GroupKind.CONSUMER else broker.streams_groups
        assigned.remove(request.group_id, removals, left)
    else:
        groups.leave(request.group_id, leavers, left)
    return pending


def _response(leavers: list[Leaver], reply: LeaveReply | RemoveReply, api_version: int) -> LeaveGroupResponse:
    if api_version < _MANY_MEMBERS_FROM:
        return LeaveGroupResponse(error_code=reply.errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(leaver.member_id, leaver.group_instance_id, error)
            for leaver, error in zip(leavers, reply.errors, strict=True)
        ]
    )
