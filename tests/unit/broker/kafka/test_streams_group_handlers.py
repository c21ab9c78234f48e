"""Streams groups (KIP-1071) as requests find them: topics are created, tasks given, offsets committed by epoch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.server.configuration.sections.groups import NodeGroupSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from hutong.wire.kafka.apis.k89_streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds, TopicInfo
from hutong.wire.kafka.error_codes import ErrorCode

COUNTING = Topology(
    0,
    [
        Subtopology("0", ["lines"], repartition_sink_topics=["by-word"]),
        Subtopology(
            "1",
            state_changelog_topics=[TopicInfo("counts", 0, 0, [KeyValue("cleanup.policy", "compact")])],
            repartition_source_topics=[TopicInfo("by-word")],
        ),
    ],
)
NONE, NOT_FOUND = ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND


@asynccontextmanager
async def scene(data_dir: Path) -> AsyncIterator[WireClient]:
    """A node with a topic of two partitions, whose streams groups assign at once."""
    settings = Settings(group=NodeGroupSettings(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=0))
    async with running_node(data_dir, settings) as address, client_of(address) as client:
        await client.create("lines", 2)
        yield client


async def beat(client: WireClient, epoch: int = 0, **said: Any) -> StreamsGroupHeartbeatResponse:
    if epoch == 0:
        empty: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        said = {"topology": COUNTING, "rebalance_timeout_ms": 1_000, "process_id": "p", **empty, **said}
    request = StreamsGroupHeartbeatRequest(**{"group_id": "app", "member_id": "m", **said}, member_epoch=epoch)
    response: StreamsGroupHeartbeatResponse = await client.ask(request, 0)
    return response


async def describe(client: WireClient, group_id: str = "app") -> DescribedGroup:
    response = await client.ask(StreamsGroupDescribeRequest([group_id]), 0)
    (group,) = response.groups
    assert isinstance(group, DescribedGroup)
    return group


async def started(client: WireClient, **said: Any) -> int:
    """Bring a member to its tasks; return its epoch."""
    first = await beat(client, **said)
    assert first.error_code == NONE, first.error_message
    return (await beat(client, first.member_epoch)).member_epoch


async def test_internal_topics_are_created_and_then_tasks_are_given(tmp_path: Path) -> None:
    async with scene(tmp_path) as client:
        first = await beat(client)
        assert [(each.status_code, each.status_detail) for each in first.status or ()] == [
            (3, "Internal topics are missing: [by-word, counts]")
        ]
        assert (first.active_tasks, first.standby_tasks, first.warmup_tasks) == ([], [], [])
        metadata = await client.ask(MetadataRequest([MetadataRequestTopic(name="counts")], False), 8)
        assert len(metadata.topics[0].partitions) == 2, "created before the answer left"
        second = await beat(client, first.member_epoch)
        assert second.active_tasks == [TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]
        assert second.status is None


async def test_a_topic_that_cannot_be_created_is_told(tmp_path: Path) -> None:
    wide = Topology(0, [Subtopology("0", ["lines"], state_changelog_topics=[TopicInfo("counts", 0, 5)])])
    async with scene(tmp_path) as client:
        (status,) = (await beat(client, topology=wide)).status or []
        assert status.status_code == 3
        assert "Creation failed: counts: " in status.status_detail


async def test_the_nodes_own_topics_are_no_part_of_a_topology(tmp_path: Path) -> None:
    own = Topology(0, [Subtopology("0", ["lines", "__consumer_offsets"])])
    async with scene(tmp_path) as client:
        refused = await beat(client, topology=own)
        assert refused.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert "__consumer_offsets" in (refused.error_message or "")
        assert (await describe(client)).error_code == NOT_FOUND, "a refused heartbeat leaves no group"


async def test_a_group_is_described_and_listed(tmp_path: Path) -> None:
    async with scene(tmp_path) as client:
        epoch = await started(client, user_endpoint=Endpoint("h", 80), client_tags=[KeyValue("zone", "a")])
        group = await describe(client)
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", epoch, epoch)
        assert group.topology is not None
        zero, one = group.topology.subtopologies or []
        assert (zero.source_topics, zero.repartition_sink_topics) == (["lines"], ["by-word"])
        assert [(each.name, each.partitions) for each in one.state_changelog_topics] == [("counts", 2)]
        (member,) = group.members
        assert (member.user_endpoint, member.client_tags) == (Endpoint("h", 80), [KeyValue("zone", "a")])
        assert member.assignment == member.target_assignment
        assert member.assignment.active_tasks == [TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]
        listed = (await client.ask(ListGroupsRequest([], ["Streams"]), 5)).groups
        assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [("app", "Stable", "streams")]
        assert (await describe(client, "nobody")).error_code == NOT_FOUND
        assert (await describe(client, "")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_offsets_are_committed_by_epoch(tmp_path: Path) -> None:
    async def commit(client: WireClient, epoch: int) -> int:
        topics = [OffsetCommitRequestTopic("lines", partitions=[OffsetCommitRequestPartition(0, 7)])]
        request = OffsetCommitRequest("app", epoch, "m", topics=topics)
        code: int = (await client.ask(request, 9)).topics[0].partitions[0].error_code
        return code

    async with scene(tmp_path) as client:
        epoch = await started(client)
        assert await commit(client, epoch) == NONE
        assert await commit(client, epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert await commit(client, epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
        topics = [OffsetDeleteRequestTopic("lines", [OffsetDeleteRequestPartition(0)])]
        busy = await client.ask(OffsetDeleteRequest("app", topics), 0)
        assert busy.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert (await beat(client, -1)).error_code == NONE
        free = await client.ask(OffsetDeleteRequest("app", topics), 0)
        assert free.topics[0].partitions[0].error_code == NONE


async def test_a_group_ends_when_it_is_empty(tmp_path: Path) -> None:
    async with scene(tmp_path) as client:
        await started(client)
        assert (await client.ask(DeleteGroupsRequest(["app"]), 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        left = await client.ask(LeaveGroupRequest("app", members=[MemberIdentity("m")]), 5)
        assert left.members[0].error_code == NONE
        assert (await client.ask(DeleteGroupsRequest(["app"]), 2)).results[0].error_code == NONE
        assert (await describe(client)).error_code == NOT_FOUND


async def test_a_group_has_one_kind_while_it_has_members(tmp_path: Path) -> None:
    join = JoinGroupRequest("app", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    async with scene(tmp_path) as client:
        await started(client)
        assert (await client.ask(join, 3)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await beat(client, -1)
        assert (await client.ask(join, 3)).error_code == NONE
        assert (await beat(client)).error_code == NOT_FOUND


async def test_a_node_that_starts_again_knows_its_groups(tmp_path: Path) -> None:
    async with scene(tmp_path) as client:
        epoch = await started(client)
        before = await describe(client)
    async with running_node(tmp_path) as address, client_of(address) as client:
        assert await describe(client) == before
        assert (await beat(client, epoch)).error_code == NONE
