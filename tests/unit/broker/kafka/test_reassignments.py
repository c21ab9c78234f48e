"""Reassignments in a cluster: whole groups move, and some of a group's partitions get a group of their own."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.unit.broker.cluster_scene import HERE, LAST, NEXT, ClusterScene, cluster_scene

from hutong.cluster.controller.commands import (
    CommandReply,
    ControllerStatus,
    GroupProgress,
    MoveGroup,
    ShowStatus,
    SplitGroup,
    SplitProgress,
)
from hutong.foundation.errors import Refused
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from hutong.wire.kafka.error_codes import ErrorCode

REFUSED, NOT_MOVING = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
MOVING = ErrorCode.REASSIGNMENT_IN_PROGRESS
NOW, OTHER, THIRD = [HERE, NEXT, LAST], [LAST, HERE, NEXT], [NEXT, LAST, HERE]


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClusterScene]:
    """The group `days` has partitions of `t` (two) and of `u`."""
    async with cluster_scene(tmp_path, monkeypatch) as made:
        await made.client.create("t", 2)
        await made.client.create("u")
        made.lead("days", HERE, 1)
        yield made


async def reassigned(scene: ClusterScene, **wishes: Sequence[list[int] | None]) -> list[tuple[int, str | None]]:
    """Asks for replicas of the first partitions of topics; codes and messages, topic by topic."""
    topics = [
        ReassignableTopic(name, [ReassignablePartition(index, replicas) for index, replicas in enumerate(each)])
        for name, each in wishes.items()
    ]
    response = await scene.client.ask(AlterPartitionReassignmentsRequest(topics=topics), 0)
    return [(each.error_code, each.error_message) for topic in response.responses for each in topic.partitions]


def moving(*target: int) -> CommandReply:
    progress = GroupProgress("days", 1, 1, HERE, (HERE, NEXT, LAST), (HERE, NEXT), (), 2, target, (HERE, NEXT, LAST))
    return CommandReply(status=ControllerStatus((), (progress,)))


async def test_a_whole_group_is_moved(scene: ClusterScene) -> None:
    assert await reassigned(scene, t=[OTHER, OTHER], u=[OTHER]) == [(0, None)] * 3
    assert scene.cluster.commands == [ShowStatus(), MoveGroup("days", tuple(OTHER))]


async def test_what_is_so_already_moves_nothing(scene: ClusterScene) -> None:
    assert await reassigned(scene, t=[NOW]) == [(0, None)]
    assert scene.cluster.commands == [ShowStatus()]


def log_id(scene: ClusterScene, topic: str, index: int) -> int:
    partition = scene.broker.topics.partition(topic, index)
    assert partition is not None
    return partition.log.partition_id


async def test_some_of_a_group_get_one_of_their_own(scene: ClusterScene) -> None:
    assert await reassigned(scene, t=[OTHER, NOW], u=[OTHER]) == [(0, None)] * 3
    leaving = log_id(scene, "t", 0), log_id(scene, "u", 0)
    assert scene.cluster.commands == [ShowStatus(), SplitGroup("days", "days", leaving, tuple(OTHER))]


async def test_each_wish_has_a_group_of_its_own(scene: ClusterScene) -> None:
    assert await reassigned(scene, t=[OTHER, THIRD]) == [(0, None)] * 2
    assert scene.cluster.commands[1:] == [
        SplitGroup("days", "days", (log_id(scene, "t", index),), tuple(wish))
        for index, wish in ((0, OTHER), (1, THIRD))
    ]


async def test_a_group_keeps_its_number_of_replicas(scene: ClusterScene) -> None:
    for code, message in await reassigned(scene, t=[[HERE], [HERE]], u=[[HERE]]):
        assert (code, message) == (REFUSED, "The partition group days keeps its 3 replicas.")
    assert scene.cluster.commands == [ShowStatus()]


def leaving(log_id: int) -> CommandReply:
    return CommandReply(status=ControllerStatus((), (), {"days-100": SplitProgress((log_id,), tuple(OTHER))}))


async def test_what_is_about_to_leave_its_group_is_listed_and_changed(scene: ClusterScene) -> None:
    scene.cluster.reply = leaving(log_id(scene, "t", 1))
    shown = (await scene.client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics
    assert shown == [OngoingTopicReassignment("t", [OngoingPartitionReassignment(1, OTHER)])]
    assert await reassigned(scene, t=[NOW, None]) == [(0, None)] * 2
    assert scene.cluster.commands[-1] == MoveGroup("days-100", ())
    assert await reassigned(scene, t=[NOW, THIRD]) == [(0, None)] * 2
    assert scene.cluster.commands[-1] == MoveGroup("days-100", tuple(THIRD))


async def test_a_partition_that_is_not_there_is_refused_for_itself(scene: ClusterScene) -> None:
    codes = [code for code, _ in await reassigned(scene, v=[OTHER], t=[OTHER, OTHER], u=[OTHER])]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 0, 0]


async def test_only_a_move_that_is_under_way_is_cancelled(scene: ClusterScene) -> None:
    assert [code for code, _ in await reassigned(scene, t=[None])] == [NOT_MOVING]
    scene.cluster.reply = moving(*OTHER)
    for wish in (None, THIRD):
        ((code, message),) = await reassigned(scene, t=[wish])
        assert code == MOVING
        assert message is not None
        assert "of t, u" in message
    assert [code for code, _ in await reassigned(scene, t=[None, None], u=[None])] == [0] * 3
    assert scene.cluster.commands[-1] == MoveGroup("days", ())


async def test_all_partitions_of_a_moving_group_are_listed(scene: ClusterScene) -> None:
    assert (await scene.client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics == []
    scene.cluster.reply = moving(4, HERE, NEXT)
    shown = (await scene.client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics
    replicas = [4, HERE, NEXT, LAST], [4], [LAST]
    first, second = (OngoingPartitionReassignment(index, *replicas) for index in (0, 1))
    assert shown == [OngoingTopicReassignment("t", [first, second]), OngoingTopicReassignment("u", [first])]
    asked = [ListPartitionReassignmentsTopics("t", [1, 5]), ListPartitionReassignmentsTopics("v", [0])]
    shown = (await scene.client.ask(ListPartitionReassignmentsRequest(topics=asked), 0)).topics
    assert shown == [OngoingTopicReassignment("t", [second])]


async def test_without_a_controller_nothing_is_known(scene: ClusterScene) -> None:
    scene.cluster.reply = Refused(ErrorCode.NOT_CONTROLLER, "There is none.")
    assert await reassigned(scene, t=[OTHER]) == [(ErrorCode.NOT_CONTROLLER, "There is none.")]
    shown = await scene.client.ask(ListPartitionReassignmentsRequest(topics=None), 0)
    assert shown.error_code == ErrorCode.NOT_CONTROLLER
