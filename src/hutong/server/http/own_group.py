"""One share group or streams group, from the node that keeps it, for the console.

Strategy: Kafka's own requests. A node alone has its handlers answer them, in a cluster the group's coordinator does.
That is with the rights of the node, so the caller checks those of the user.

Decides nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.coordinators.other_nodes import ask_kafka
from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.own_session import own_session
from hutong.broker.kafka import k77_share_group_describe as share_describe
from hutong.broker.kafka import k89_streams_group_describe as streams_describe
from hutong.broker.kafka import k90_describe_share_group_offsets as share_offsets
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.console.groups.others import SHARE, STREAMS, OtherGroup, OtherMember
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending, settle_future
from hutong.wire.kafka.apis.k77_share_group_describe import ShareGroupDescribeRequest
from hutong.wire.kafka.apis.k89_streams_group_describe import StreamsGroupDescribeRequest
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hutong.broker.broker import Broker
    from hutong.console.groups.others import Assigned
    from hutong.console.groups.resets.plan import Place
    from hutong.wire.kafka.apis.k89_streams_group_describe import DescribedGroup as StreamsGroup
    from hutong.wire.kafka.apis.streams_shared import TaskIds

SHARE_VERSION: Final = 1
STREAMS_VERSION: Final = 0
OFFSETS_VERSION: Final = 1  # the first with the lag (KIP-1226)
_HANDLERS: Final[dict[type, Any]] = {
    ShareGroupDescribeRequest: share_describe.handle,
    StreamsGroupDescribeRequest: streams_describe.handle,
    DescribeShareGroupOffsetsRequest: share_offsets.handle,
}


async def other_group(broker: Broker, name: str) -> OtherGroup | None:
    """The group; None where there is none of these types. Raises HutongError, which names the node that keeps it."""
    node = broker.cluster.coordinator_of(CoordinationKind.GROUP, name)
    if node == NO_LEADER:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No node keeps this group now: its partition has no leader.")
    try:
        return await _share_group(broker, node, name) or await _streams_group(broker, node, name)
    except HutongError as error:
        code = error.code if isinstance(error, Refused) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        raise Refused(code, f"Node {node}, which keeps the group, has not told its members: {error}.") from error


async def _share_group(broker: Broker, node: int, name: str) -> OtherGroup | None:
    response = await _ask(broker, node, ShareGroupDescribeRequest([name]), SHARE_VERSION)
    group = _found(response.groups)
    if group is None:
        return None
    begun = await _begun(broker, node, name)
    members = [
        OtherMember(one.member_id, one.client_id, one.client_host, _partitions(one))
        for one in _by_client(group.members)
    ]
    return OtherGroup(name, SHARE, group.group_state.lower(), node, group.assignor_name or None, members, begun)


async def _begun(broker: Broker, node: int, name: str) -> dict[Place, tuple[int | None, int | None]]:
    """The first open offset and the lag of each partition; None for what is not known."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, None)])
    (group,) = (await _ask(broker, node, request, OFFSETS_VERSION)).groups
    _check(group.error_code, group.error_message)
    return {
        (topic.topic_name, one.partition_index): (
            None if one.start_offset < 0 else one.start_offset,
            None if one.lag < 0 else one.lag,
        )
        for topic in group.topics
        for one in topic.partitions
        if not one.error_code
    }


async def _streams_group(broker: Broker, node: int, name: str) -> OtherGroup | None:
    response = await _ask(broker, node, StreamsGroupDescribeRequest([name]), STREAMS_VERSION)
    group: StreamsGroup | None = _found(response.groups)
    if group is None:
        return None
    members = [
        OtherMember(
            one.member_id,
            one.client_id,
            one.client_host,
            _tasks(one.assignment.active_tasks),
            one.instance_id,
            _tasks(one.assignment.standby_tasks),
            _tasks(one.target_assignment.active_tasks),
        )
        for one in _by_client(group.members)
    ]
    parts = None if group.topology is None else group.topology.subtopologies
    sources = {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in parts or ()
    }
    return OtherGroup(name, STREAMS, group.group_state.lower(), node, None, members, sources=sources)


async def _ask(broker: Broker, node: int, request: Any, version: int) -> Any:
    """The answer of the node. Raises HutongError."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if not broker.cluster.is_alone:
        ask_kafka(broker.cluster, node, request, version, partial(settle_future, told))
        return await told
    outcome = _HANDLERS[type(request)](request, RequestContext(version, None, own_session(), broker))
    if not isinstance(outcome, Pending):
        return outcome
    outcome.then(partial(settle_future, told))
    return await told


def _found(groups: list[Any]) -> Any:
    """The one group of an answer, None where the node has none of this type. Raises Refused."""
    (group,) = groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    _check(group.error_code, group.error_message)
    return group


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise Refused(code, message or "")


def _by_client(members: Iterable[Any]) -> list[Any]:
    return sorted(members, key=lambda one: (one.client_id, one.member_id))


def _partitions(member: Any) -> Assigned:
    return {topic.topic_name: sorted(topic.partitions) for topic in member.assignment.topic_partitions}


def _tasks(tasks: Iterable[TaskIds]) -> Assigned:
    return {each.subtopology_id: sorted(each.partitions) for each in tasks}
