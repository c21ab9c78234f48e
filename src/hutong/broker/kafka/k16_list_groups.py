"""ListGroups (key 16, versions 0-5): every group, filtered by state (version 4, KIP-518) and type (5, KIP-848).

Filters are compared without regard to case; an empty one lets everything through, an unknown word nothing.
Who may not DESCRIBE the cluster sees the groups that he may DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator

from hutong.broker.coordinators.parts import GroupParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may, may_in_cluster
from hutong.groups.directory import GroupKind
from hutong.groups.share.driver import PROTOCOL_TYPE, state_of
from hutong.groups.subscription import CONSUMER_PROTOCOL_TYPE
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

API_KEY = 16


def handle(request: ListGroupsRequest, context: RequestContext[GroupParts]) -> ListGroupsResponse:
    sees_all = may_in_cluster(context, Operation.DESCRIBE, quietly=True)
    states = {state.casefold() for state in request.states_filter}
    types = {kind.casefold() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            group
            for group in all_groups(context.broker)
            if (sees_all or may(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quietly=True))
            and (not states or group.group_state.casefold() in states)
            and (not types or group.group_type in types)
        ]
    )


def all_groups(broker: GroupParts) -> Iterator[ListedGroup]:
    """The groups that this node coordinates."""
    for classic in broker.groups:
        yield ListedGroup(classic.group_id, classic.protocol_type, classic.state.value, GroupKind.CLASSIC.value)
    for group in broker.consumer_groups:
        yield ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, GroupKind.CONSUMER.value)
    for streams in broker.streams_groups:
        # As in Kafka the protocol type is the kind's name.
        yield ListedGroup(streams.group_id, GroupKind.STREAMS.value, streams.state.value, GroupKind.STREAMS.value)
    for shared in broker.share_groups:
        yield ListedGroup(shared.group_id, PROTOCOL_TYPE, state_of(shared), GroupKind.SHARE.value)
