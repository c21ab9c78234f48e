"""ShareGroupDescribe (key 77, version 1): share groups with their members and their assignments (KIP-932)."""

from __future__ import annotations

from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k69_consumer_group_describe import assignment_of
from hutong.broker.rights.authorization import may, operations
from hutong.broker.rights.group_rights import HIDDEN_TOPICS, may_see_all
from hutong.broker.share.parts import ShareParts
from hutong.groups.share.assignor import NAME
from hutong.groups.share.driver import state_of
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k77_share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 77
DEAD = "Dead"


def handle(request: ShareGroupDescribeRequest, context: RequestContext[ShareParts]) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[_seen(group_id, context, request.include_authorized_operations) for group_id in request.group_ids]
    )


def _seen(group_id: str, context: RequestContext[ShareParts], with_operations: bool) -> DescribedGroup:
    """The group, as far as the client may see it and all topics in its assignments."""
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
    group = _describe(group_id, context)
    names = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
    if not may_see_all(context, names):
        return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS, group_id)
    if with_operations and group.error_code == ErrorCode.NONE:
        group.authorized_operations = operations(context, ResourceType.GROUP, group_id)
    return group


def _describe(group_id: str, context: RequestContext[ShareParts]) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id)
    group = context.broker.share_groups.get(group_id)
    if group is None:
        message = f"Group {group_id} not found."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id, DEAD)
    return DescribedGroup(
        group_id=group_id,
        group_state=state_of(group),
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=NAME,
        members=[
            Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=list(member.topics),
                assignment=assignment_of(member.assignment, context.broker.topics.by_id),
            )
            for member in group
        ],
    )
