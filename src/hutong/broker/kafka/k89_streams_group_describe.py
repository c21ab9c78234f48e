"""StreamsGroupDescribe (key 89, version 0): topology, epochs, members and their tasks of streams groups (KIP-1071).

A group that is not there, or is of another kind, is answered with GROUP_ID_NOT_FOUND. The client needs DESCRIBE of the
group and of all topics of its topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may, operations
from hutong.broker.rights.group_rights import HIDDEN_TOPICS, may_see_all
from hutong.groups.streams.messages import Holding, StreamsGroupDescription, StreamsMemberDescription, TaskRole
from hutong.groups.streams.record_values import tasks_in
from hutong.groups.streams.topology import InternalTopic, Topology
from hutong.groups.streams.wire_topology import encoded_topics
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k89_streams_group_describe import (
    DescribedGroup,
    DescribedSubtopology,
    DescribedTopology,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskAssignment,
)
from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 89


def handle(request: StreamsGroupDescribeRequest, context: RequestContext[GroupParts]) -> StreamsGroupDescribeResponse:
    response = StreamsGroupDescribeResponse(groups=[_seen(group_id, context) for group_id in request.group_ids])
    if request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations(context, ResourceType.GROUP, group.group_id)
    return response


def _seen(group_id: str, context: RequestContext[GroupParts]) -> DescribedGroup:
    """The group, as far as the client may see it and all topics of its topology."""
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
    groups = context.broker.streams_groups
    group = groups.get(group_id)
    if group is None and not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, group_id)
    if group is None:
        reason = "not found" if groups.kind(group_id) is None else "is not a streams group"
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.", group_id)
    if not may_see_all(context, group.topic_names):
        return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS, group_id)
    return _found(group.describe())


def _found(description: StreamsGroupDescription) -> DescribedGroup:
    topology = description.topology
    return DescribedGroup(
        group_id=description.group_id,
        group_state=description.state,
        group_epoch=description.epoch,
        assignment_epoch=description.assignment_epoch,
        topology=None if topology is None else _topology(topology, description.partition_counts),
        members=[_member(member) for member in description.members],
    )


def _topology(topology: Topology, counts: Mapping[str, int]) -> DescribedTopology:
    """The topology with the partitions that it comes to; without subtopologies where that is not known."""
    if not counts:
        return DescribedTopology(topology.epoch, None)
    return DescribedTopology(
        topology.epoch,
        [
            DescribedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                repartition_sink_topics=list(each.sink_topics),
                state_changelog_topics=encoded_topics(_counted(each.own_changelogs, counts)),
                repartition_source_topics=encoded_topics(_counted(each.repartition_topics, counts)),
            )
            for each in topology.subtopologies
        ],
    )


def _counted(topics: Iterable[InternalTopic], counts: Mapping[str, int]) -> Iterable[InternalTopic]:
    return (replace(topic, partition_count=counts[topic.name]) for topic in topics)


def _member(member: StreamsMemberDescription) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(*member.endpoint),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(member.target),
    )


def _assignment(holdings: Iterable[Holding]) -> TaskAssignment:
    return TaskAssignment(tasks_in(holdings, TaskRole.ACTIVE), tasks_in(holdings, TaskRole.STANDBY), [])
