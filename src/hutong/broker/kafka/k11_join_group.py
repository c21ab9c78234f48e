"""JoinGroup (key 11, versions 0-9): become or stay a member, and wait for the others.

Bad input: no or an overlong group id → INVALID_GROUP_ID; a session timeout out of bounds → INVALID_SESSION_TIMEOUT;
overlong names or metadata → INVALID_REQUEST. All else is the group's decision (`hutong.groups.classic.machine`).

The client needs READ of the group.

A consumer group that has members takes those of the classic protocol in (KIP-848): the broker assigns, nobody leads.

Deviation: more than `members_max` members or `group_metadata_bytes_max` bytes of metadata in a group are refused with
GROUP_MAX_SIZE_REACHED, where Kafka has no bounds by default.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.classic.messages import JoinReply
from hutong.groups.requests import GroupCaller
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 11
_NULL_PROTOCOL_NAME_FROM = 7


def handle(
    request: JoinGroupRequest, context: RequestContext[GroupParts]
) -> JoinGroupResponse | Pending[JoinGroupResponse]:
    pending: Pending[JoinGroupResponse] = Pending()
    version, broker = context.api_version, context.broker
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return _response(JoinReply(ErrorCode.GROUP_AUTHORIZATION_FAILED), version)
    join = broker.groups.join
    if broker.consumer_groups.has_members(request.group_id):
        join = broker.consumer_groups.join
    join(request, caller_of(context), lambda reply: pending.complete(_response(reply, version)))
    return pending


def caller_of(context: RequestContext[GroupParts]) -> GroupCaller:
    """The host is written as Kafka's tools show it, with a slash before the address."""
    session = context.session
    return GroupCaller(
        context.api_version, context.client_id or "", f"/{session.address}", session.owner, holder_of(context)
    )


def _response(reply: JoinReply, api_version: int) -> JoinGroupResponse:
    protocol_name = reply.protocol_name
    if protocol_name is None and api_version < _NULL_PROTOCOL_NAME_FROM:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=protocol_name,
        leader=reply.leader_id,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[JoinGroupResponseMember(*member) for member in reply.members],
    )
