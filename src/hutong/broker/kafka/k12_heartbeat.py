"""Heartbeat (key 12, versions 0-4): keep a membership alive.

REBALANCE_IN_PROGRESS tells the member to join again, ILLEGAL_GENERATION and UNKNOWN_MEMBER_ID that it has lost its
place, FENCED_INSTANCE_ID (KIP-345) that another process has taken it.
The client needs READ of the group.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 12


def handle(request: HeartbeatRequest, context: RequestContext[GroupParts]) -> HeartbeatResponse:
    broker = context.broker
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if broker.consumer_groups.has_members(request.group_id):
        error = broker.consumer_groups.heartbeat_classic(request)
    else:
        error = broker.groups.heartbeat(request)
    if error is ErrorCode.NONE:
        broker.read_actors.note_member(context, request.group_id)
    return HeartbeatResponse(error_code=error)
