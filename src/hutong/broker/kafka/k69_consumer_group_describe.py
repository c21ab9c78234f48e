"""ConsumerGroupDescribe (key 69, versions 0-1): epochs, members and their assignments of consumer groups (KIP-848).

A group that is not there, or is of another kind, is answered with GROUP_ID_NOT_FOUND: clients then ask DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may, operations
from hutong.broker.rights.group_rights import HIDDEN_TOPICS, may_see_all
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.messages import ConsumerGroupDescription, ConsumerMemberDescription, Partition
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from hutong.wire.kafka.apis.shared import GroupAssignment, GroupTopicPartitions
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 69
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext[GroupParts]) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse(groups=[_seen(group_id, context) for group_id in request.group_ids])
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations(context, ResourceType.GROUP, group.group_id)
    return response


def _seen(group_id: str, context: RequestContext[GroupParts]) -> DescribedGroup:
    """The group, as far as the client may see it and all topics that are in its assignments."""
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
    group = _describe(group_id, context)
    assignments = [each for member in group.members for each in (member.assignment, member.target_assignment)]
    names = {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}
    if may_see_all(context, names):
        return group
    return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS, group_id)


def _describe(group_id: str, context: RequestContext[GroupParts]) -> DescribedGroup:
    groups = context.broker.consumer_groups
    group = groups.get(group_id)
    if group is not None:
        return _found(group.describe(), groups.catalogue)
    is_other = groups.kind(group_id) is not None
    if not group_id:
        code, message = ErrorCode.INVALID_GROUP_ID, None
    else:
        reason = "is not a consumer group" if is_other else "not found"
        code, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}."
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def _found(description: ConsumerGroupDescription, catalogue: TopicCatalogue) -> DescribedGroup:
    return DescribedGroup(
        group_id=description.group_id,
        group_state=description.state,
        group_epoch=description.epoch,
        assignment_epoch=description.assignment_epoch,
        assignor_name=description.assignor,
        members=[_member(member, catalogue) for member in description.members],
    )


def _member(member: ConsumerMemberDescription, catalogue: TopicCatalogue) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex or "",
        assignment=assignment_of(member.assigned, catalogue.by_id),
        target_assignment=assignment_of(member.target, catalogue.by_id),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def assignment_of(partitions: Iterable[Partition], by_id: Callable[[bytes], _Named | None]) -> GroupAssignment:
    """The partitions by topic. Only topics that still exist have a name to be shown by."""
    topics: dict[bytes, GroupTopicPartitions] = {}
    for topic_id, index in sorted(partitions):
        topic = by_id(topic_id)
        if topic is not None:
            topics.setdefault(topic_id, GroupTopicPartitions(topic_id, topic.name)).partitions.append(index)
    return GroupAssignment(list(topics.values()))
