"""Handlers where partitions are led by several nodes: answers of one that leads some of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.cluster_scene import HERE, LAST, NEXT, ClusterScene, cluster_scene
from tests.unit.broker.wire_node import batch_of, fetch_request

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.topics.group_standing import GroupStanding
from hutong.cluster.controller.commands import CommandReply, DrainNode, decode_reply, encode_command
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Refused
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from hutong.wire.kafka.apis.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from hutong.wire.kafka.apis.k55_describe_quorum import AskedPartition, AskedTopic, DescribeQuorumRequest
from hutong.wire.kafka.apis.k60_describe_cluster import DescribeClusterRequest
from hutong.wire.kafka.apis.k61_describe_producers import DescribeProducersRequest
from hutong.wire.kafka.apis.k61_describe_producers import TopicRequest as DescribeProducersTopic
from hutong.wire.kafka.apis.k64_unregister_broker import UnregisterBrokerRequest
from hutong.wire.kafka.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest
from hutong.wire.kafka.apis.shared import LeaderIdAndEpoch, NodeEndpoint
from hutong.wire.kafka.error_codes import ErrorCode

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterScene]:
    async with cluster_scene(tmp_path, monkeypatch) as made:
        await made.client.create("t")
        yield made


def a_batch() -> bytes:
    return batch_of(b"v", timestamp_ms=SystemClock().wall_ms())


async def test_a_batch_for_another_node_is_refused_with_the_leader_and_its_address(scene: ClusterScene) -> None:
    scene.lead("days", NEXT, 7)
    for acks in (1, -1):
        request = ProduceRequest(
            None, acks, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, memoryview(a_batch()))])]
        )
        response = await scene.client.ask(request, 10)
        result = response.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset, result.log_start_offset) == (NOT_LEADER, -1, -1)
        assert result.current_leader == LeaderIdAndEpoch(NEXT, 7)
        assert response.node_endpoints == [NodeEndpoint(NEXT, "node-2", 9092, "blue")]
    assert (await scene.client.produce(a_batch())).error_code == NOT_LEADER, "older versions say it without"


async def test_a_batch_behind_one_that_was_refused_is_not_out_of_order(
    scene: ClusterScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client sends both again, in their order, and what an earlier leader has stored is recognized."""

    def numbered(sequence: int) -> bytes:
        now_ms = SystemClock().wall_ms()
        return batch_of(b"v", timestamp_ms=now_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)

    assert [(await scene.client.produce(numbered(sequence))).base_offset for sequence in range(2)] == [0, 1]
    assert (await scene.client.produce(numbered(3))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    monkeypatch.setattr(GroupStanding, "has_refused_lately", True)
    assert (await scene.client.produce(numbered(3))).error_code == NOT_LEADER
    assert [(await scene.client.produce(numbered(sequence))).base_offset for sequence in (1, 2, 3)] == [1, 2, 3]


async def test_a_fast_path_ends_when_leadership_goes(scene: ClusterScene) -> None:
    for _ in range(3):
        assert (await scene.client.produce(a_batch())).error_code == 0
    scene.lead("days", NEXT, 7)
    assert (await scene.client.produce(a_batch())).error_code == NOT_LEADER
    scene.lead("days", HERE, 8)
    assert (await scene.client.produce(a_batch())).base_offset == 3


async def test_a_topic_may_want_more_replicas_than_are_in_sync(scene: ClusterScene) -> None:
    await scene.client.create("two", min_insync_replicas="2")
    await scene.client.create("three", min_insync_replicas="3")
    scene.lead("days", HERE, 1)
    assert (await scene.client.produce(a_batch(), "two", acks=-1)).error_code == 0
    assert (await scene.client.produce(a_batch(), "three", acks=-1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_a_waiting_fetch_hears_at_once_that_leadership_has_gone(scene: ClusterScene) -> None:
    topic = scene.broker.topics.get("t")
    assert topic is not None
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    asked = FetchTopic(topic_id=topic.topic_id, partitions=[partition])
    scene.client.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[asked]), 16)
    async with asyncio.timeout(10):
        while not len(scene.broker.fetches):  # noqa: ASYNC110 - the node has no event for it
            await asyncio.sleep(0)
    scene.lead("days", LAST, 3)
    response = await scene.client.receive(1, 16)
    data = response.responses[0].partitions[0]
    assert (data.error_code, data.current_leader) == (NOT_LEADER, LeaderIdAndEpoch(LAST, 3))
    assert response.node_endpoints == [NodeEndpoint(LAST, "node-3", 9092, "blue")]


@pytest.mark.parametrize(
    ("known", "leader", "code"),
    [
        (4, HERE, ErrorCode.NONE),
        (3, HERE, ErrorCode.FENCED_LEADER_EPOCH),
        (5, HERE, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, NEXT, NOT_LEADER),
        (5, NEXT, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, NEXT, NOT_LEADER),
    ],
)
async def test_readers_name_the_epoch_that_they_know(scene: ClusterScene, known: int, leader: int, code: int) -> None:
    scene.lead("days", leader, 4)
    request = fetch_request(0)
    request.topics[0].partitions[0].current_leader_epoch = known
    assert (await scene.client.ask(request, 12)).responses[0].partitions[0].error_code == code
    listed = await scene.client.ask(
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, known, -1)])]), 7
    )
    assert listed.topics[0].partitions[0].error_code == code
    assert listed.topics[0].partitions[0].leader_epoch == (4 if code == ErrorCode.NONE else -1)
    ended = await scene.client.ask(
        OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, known, 4)])]), 4
    )
    entry = ended.topics[0].partitions[0]
    assert (entry.error_code, entry.leader_epoch) == (code, 4 if code == ErrorCode.NONE else -1)


async def two_epochs(scene: ClusterScene) -> None:
    """Offsets 0 and 1 were written in epoch 1, offset 2 in epoch 5."""
    for epoch, batches in ((1, 2), (5, 1)):
        scene.broker.topics._journals["days"].lead(epoch, HERE)
        scene.lead("days", HERE, epoch)
        for _ in range(batches):
            await scene.client.produce(a_batch())


async def test_an_earlier_epoch_ended_where_the_next_leader_began(scene: ClusterScene) -> None:
    await two_epochs(scene)
    asked = [OffsetForLeaderPartition(0, 5, epoch) for epoch in (-1, 0, 1, 3, 5, 6)]
    response = await scene.client.ask(OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic("t", asked)]), 4)
    found = [(entry.error_code, entry.leader_epoch, entry.end_offset) for entry in response.topics[0].partitions]
    assert found == [(0, -1, -1), (0, 0, 0), (0, 1, 2), (0, 1, 2), (0, 5, 3), (0, -1, -1)]


@pytest.mark.parametrize(
    ("last_epoch", "offset", "diverging"),
    [
        (5, 3, None),
        (5, 4, (5, 3)),
        (1, 2, None),
        (1, 3, (1, 2)),
        (3, 2, (1, 2)),
        (0, 0, None),
        (0, 1, (0, 0)),
    ],
)
async def test_a_reader_hears_where_its_last_epoch_ended(
    scene: ClusterScene, last_epoch: int, offset: int, diverging: tuple[int, int] | None
) -> None:
    await two_epochs(scene)
    request = fetch_request(offset)
    request.session_epoch = 0
    request.topics[0].partitions[0].last_fetched_epoch = last_epoch
    data = (await scene.client.ask(request, 12)).responses[0].partitions[0]
    assert data.error_code == 0
    found = None if data.diverging_epoch.epoch < 0 else (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    assert found == diverging
    assert bool(data.records) == (diverging is None and offset < 3)


async def test_a_reader_in_an_earlier_epoch_waits_at_the_end(scene: ClusterScene) -> None:
    scene.broker.topics._journals["days"].lead(1, HERE)
    scene.lead("days", HERE, 1)
    await scene.client.produce(a_batch())
    scene.lead("days", HERE, 2)
    request = fetch_request(1, max_wait_ms=60_000)
    request.topics[0].partitions[0].last_fetched_epoch = 1
    scene.client.send(request, 12)
    async with asyncio.timeout(10):
        while not len(scene.broker.fetches):  # noqa: ASYNC110 - the node has no event for it
            await asyncio.sleep(0)
    scene.lead("days", LAST, 3)
    response = await scene.client.receive(1, 12)
    assert response.responses[0].partitions[0].error_code == NOT_LEADER


async def test_records_are_deleted_by_the_leader_alone(scene: ClusterScene) -> None:
    scene.lead("days", NEXT, 2)
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, -1)])], 1000)
    response = await scene.client.ask(request, 2)
    assert response.topics[0].partitions[0].error_code == NOT_LEADER


async def test_each_replica_describes_its_producers(scene: ClusterScene) -> None:
    scene.lead("days", NEXT, 2)
    request = DescribeProducersRequest([DescribeProducersTopic("t", [0])])
    assert (await scene.client.ask(request, 0)).topics[0].partitions[0].error_code == 0
    scene.broker.topics.standings["days"].replicas = (NEXT, LAST)
    assert (await scene.client.ask(request, 0)).topics[0].partitions[0].error_code == NOT_LEADER


async def test_all_nodes_and_the_leader_of_each_partition_are_shown(scene: ClusterScene) -> None:
    scene.cluster.controller_id = LAST
    scene.lead("days", NEXT, 6)
    standing = scene.broker.topics.standings["days"]
    standing.offline_replicas, standing.eligible = (LAST,), (LAST,)
    shown = await scene.client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
    assert [(node.node_id, node.host, node.rack) for node in shown.brokers] == [
        (HERE, "127.0.0.1", "red"),
        (NEXT, "node-2", "blue"),
        (LAST, "node-3", "blue"),
    ]
    assert shown.controller_id == LAST
    partition = shown.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, NEXT, 6)
    assert (partition.replica_nodes, partition.isr_nodes) == ([HERE, NEXT, LAST], [HERE, NEXT])
    assert partition.offline_replicas == [LAST]
    page = await scene.client.ask(DescribeTopicPartitionsRequest([TopicRequest("t")], 10), 0)
    described = page.topics[0].partitions[0]
    assert (described.leader_id, described.leader_epoch, described.eligible_leader_replicas) == (NEXT, 6, [LAST])
    cluster = await scene.client.ask(DescribeClusterRequest(endpoint_type=1), 1)
    assert (cluster.controller_id, [node.broker_id for node in cluster.brokers]) == (LAST, [HERE, NEXT, LAST])


async def test_during_an_election_there_is_no_leader(scene: ClusterScene) -> None:
    scene.lead("days", -1, 6)
    shown = await scene.client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 12)
    partition = shown.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


async def test_coordinators_are_where_the_cluster_says(scene: ClusterScene) -> None:
    scene.cluster.coordinators = {CoordinationKind.GROUP: NEXT, CoordinationKind.TRANSACTION: LAST}
    for key_type, node in ((0, NEXT), (1, LAST)):
        found = await scene.client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"]), 4)
        coordinator = found.coordinators[0]
        assert (coordinator.error_code, coordinator.node_id, coordinator.host) == (0, node, f"node-{node}")
    scene.cluster.gone = {NEXT}
    found = await scene.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["a"]), 4)
    assert (found.coordinators[0].error_code, found.coordinators[0].node_id) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
    )


async def test_what_another_node_coordinates_is_refused(scene: ClusterScene) -> None:
    kinds = (CoordinationKind.GROUP, CoordinationKind.TRANSACTION)
    for node, code in ((NEXT, ErrorCode.NOT_COORDINATOR), (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)):
        scene.cluster.coordinators = dict.fromkeys(kinds, node)
        assert (await scene.client.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code == code
        groups = (await scene.client.ask(DescribeGroupsRequest(["g", "h"]), 5)).groups
        assert [(group.group_id, group.error_code) for group in groups] == [("g", code), ("h", code)]
        assert (await scene.client.ask(InitProducerIdRequest("x", 1000), 4)).error_code == code
        assert (await scene.client.ask(InitProducerIdRequest(None, 0), 4)).error_code == 0, "any node has an id"
    scene.cluster.coordinators = {}
    assert (await scene.client.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_new_topic_has_as_many_replicas_as_there_can_be(scene: ClusterScene) -> None:
    async def create(name: str, factor: int, assignments: list[CreatableReplicaAssignment] | None = None) -> int:
        count = -1 if assignments else 1
        response = await scene.client.ask(
            CreateTopicsRequest([CreatableTopic(name, count, factor, assignments or [])]), 7
        )
        if not response.topics[0].error_code:
            assert response.topics[0].replication_factor == 3
        code: int = response.topics[0].error_code
        return code

    scene.lead("days", HERE, 1)
    assert [await create(f"of-{factor}", factor) for factor in (-1, 1, 3)] == [0, 0, 0]
    assert await create("of-4", 4) == ErrorCode.INVALID_REPLICATION_FACTOR
    assigned = [CreatableReplicaAssignment(0, [HERE])]
    assert await create("assigned", -1, assigned) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_elections_are_of_partition_groups(scene: ClusterScene) -> None:
    await scene.client.create("other")
    await scene.client.create("long", retention_ms="-1")
    scene.lead("days", NEXT, 1)
    scene.lead("long", HERE, 1)
    response = await scene.client.ask(ElectLeadersRequest(0, None), 2)
    results = response.replica_election_results
    found = {entry.topic: [each.error_code for each in entry.partition_result] for entry in results}
    assert (found["t"], found["other"], found["long"]) == ([0], [0], [])
    assert scene.cluster.elections == [("days", False)]
    response = await scene.client.ask(ElectLeadersRequest(0, [TopicPartitions("long", [0, 5])]), 2)
    codes = [each.error_code for each in response.replica_election_results[0].partition_result]
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    scene.lead("days", -1, 2)
    await scene.client.ask(ElectLeadersRequest(1, [TopicPartitions("t", [0])]), 2)
    assert scene.cluster.elections[-1] == ("days", True)


async def test_the_voters_are_the_replicas_of_the_metadata(scene: ClusterScene) -> None:
    scene.lead("metadata", HERE, 9)
    request = DescribeQuorumRequest([AskedTopic("__cluster_metadata", [AskedPartition(0)])])
    response = await scene.client.ask(request, 2)
    quorum = response.topics[0].partitions[0]
    assert (quorum.leader_id, quorum.leader_epoch) == (HERE, 9)
    assert [(voter.replica_id, voter.log_end_offset < 0) for voter in quorum.current_voters] == [
        (HERE, False),
        (NEXT, False),
        (LAST, True),
    ]
    assert [node.node_id for node in response.nodes] == [HERE, NEXT, LAST]


async def test_a_node_is_forgotten_by_the_cluster(scene: ClusterScene) -> None:
    assert (await scene.client.ask(UnregisterBrokerRequest(LAST), 0)).error_code == 0
    assert scene.cluster.forgotten == [LAST]


async def test_an_operators_command_gets_the_controllers_reply(scene: ClusterScene) -> None:
    scene.cluster.reply = CommandReply(groups={"days": (2, 3)})
    response = await scene.client.ask(ClusterCommandRequest(encode_command(DrainNode(1))), 0)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert decode_reply(bytes(response.reply)).groups == {"days": (2, 3)}
    assert scene.cluster.commands == [DrainNode(1)]


async def test_refusals_of_an_operators_command_have_code_and_reason(scene: ClusterScene) -> None:
    for reply in (Refused(ErrorCode.NOT_CONTROLLER, "none"), CommandReply(ErrorCode.NOT_CONTROLLER, "none")):
        scene.cluster.reply = reply
        response = await scene.client.ask(ClusterCommandRequest(encode_command(DrainNode(1))), 0)
        assert (response.error_code, response.error_message) == (ErrorCode.NOT_CONTROLLER, "none")
    response = await scene.client.ask(ClusterCommandRequest(b"{}"), 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
