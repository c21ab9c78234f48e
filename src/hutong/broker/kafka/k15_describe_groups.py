"""DescribeGroups (key 15, versions 0-6): state, protocol and members of groups.

A group that does not exist is described as one in state Dead; from version 6 with GROUP_ID_NOT_FOUND (KIP-1043). So is
one of another kind: consumer groups are described by ConsumerGroupDescribe.
Metadata and assignments are only shown while the group is stable. The client needs DESCRIBE of the group.
"""

from __future__ import annotations

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import OPERATIONS_NOT_ASKED, may, operations
from hutong.groups.classic.messages import ClassicGroupDescription
from hutong.groups.classic.states import GroupState
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 15
_NOT_FOUND_FROM = 6


def handle(request: DescribeGroupsRequest, context: RequestContext[GroupParts]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_describe(group_id, context, request.include_authorized_operations) for group_id in request.groups]
    )


def _describe(group_id: str, context: RequestContext[GroupParts], with_operations: bool) -> DescribedGroup:
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    allowed = operations(context, ResourceType.GROUP, group_id) if with_operations else OPERATIONS_NOT_ASKED
    groups = context.broker.groups
    group = groups.get(group_id)
    if group is not None:
        return _found(group.describe(), allowed)
    described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value, authorized_operations=allowed)
    if context.api_version >= _NOT_FOUND_FROM:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.authorized_operations = OPERATIONS_NOT_ASKED
        is_other = groups.directory.kind(group_id) is not None
        described.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
    return described


def _found(description: ClassicGroupDescription, allowed: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=description.group_id,
        group_state=description.state,
        protocol_type=description.protocol_type,
        protocol_data=description.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in description.members
        ],
        authorized_operations=allowed,
    )
