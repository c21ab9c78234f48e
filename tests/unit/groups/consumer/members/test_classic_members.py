"""Members of the classic protocol in a consumer group, and classic groups that go on as consumer groups (KIP-848)."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.groups.consumer.play import REBALANCE_MS, SESSION_MS, ClassicClient, Client, Play, at, settle
from tests.unit.groups.consumer.test_driver import beat, only
from tests.unit.groups.stage import CONSUMER_SETTINGS, SUBSCRIPTION, Stage, topic_id

from hutong.groups.assigned.messages import LEAVING, LEAVING_FOR_A_WHILE
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.classic.messages import JoinReply
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.settings import MigrationPolicy
from hutong.groups.directory import GroupKind
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_assignment,
    encode,
)
from hutong.wire.kafka.error_codes import ErrorCode


def play() -> Play:
    scene = Play(orders=4, other=2)
    scene.join("new", "orders")
    return scene


def assigned(scene: Play, member_id: str, generation_id: int) -> list[int]:
    taken = decode_assignment(scene.sync_classic(member_id, generation_id).assignment).assigned_partitions
    return [index for each in taken for index in each.partitions]


def test_a_classic_member_gets_what_the_others_give_up() -> None:
    scene = play()
    joined = scene.join_classic("old", ["orders"])
    assert joined == JoinReply(ErrorCode.NONE, "old", 2, "consumer", "cooperative-sticky")
    assert assigned(scene, "old", 2) == []
    assert scene.heartbeat_classic("old", 2) is ErrorCode.NONE, "nothing is free yet"
    scene.beat("new", 1)
    scene.beat("new", 1, owned=scene.group.targets["new"])
    assert scene.heartbeat_classic("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.join_classic("old", ["orders"]).generation_id == 2
    assert len(assigned(scene, "old", 2)) == 2
    assert scene.heartbeat_classic("old", 2) is ErrorCode.NONE
    assert scene.group.state is AssignedGroupState.STABLE


def test_a_classic_member_gives_up_between_two_joins() -> None:
    scene = play()
    old = ClassicClient(scene, "old", ["orders"])
    new = Client(scene, "new", ["orders"])
    settle(old, new)
    scene.beat("new", LEAVING)
    assert scene.heartbeat_classic("old", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    settle(old)
    assert len(old.owned) == 4
    scene.join("b", "orders")
    joined = scene.join_classic("old", ["orders"], old.owned)
    assert joined.generation_id == 3, "it must give up something before it gets on"
    assert len(assigned(scene, "old", 3)) == 2
    assert scene.heartbeat_classic("old", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.beat("b", 4).assignment is None
    assert scene.join_classic("old", ["orders"], scene.group.targets["old"]).generation_id == 4
    assert len(scene.beat("b", 4).assignment or ()) == 2


def test_who_is_told_to_join_and_does_not_is_removed() -> None:
    scene = play()
    scene.join_classic("old", ["orders"])
    scene.join("b", "orders")
    for _ in range(REBALANCE_MS // 5_000 + 1):
        scene.heartbeat_classic("old", 2)
        scene.beat("new", scene.group.members["new"].epoch, owned=scene.group.targets["new"])
        scene.beat("b", scene.group.members["b"].epoch)
        scene.pass_time(5_000)
    assert set(scene.group.members) == {"new", "b"}


def test_a_silent_classic_member_is_removed_by_its_own_time_out() -> None:
    scene = play()
    scene.join_classic("old", ["orders"], session_timeout_ms=SESSION_MS // 2)
    scene.pass_time(SESSION_MS // 2)
    assert set(scene.group.members) == {"new"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"x"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": ""}, ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_a_join_that_is_refused_changes_nothing(said: dict[str, Any], error: ErrorCode) -> None:
    scene = play()
    said = dict(said)
    member_id = str(said.pop("member_id", "old"))
    reply = scene.join_classic(member_id, ["orders"], **said)
    assert reply.error is error
    assert set(scene.group.members) == {"new"}
    assert scene.group.epoch == 1


def test_classic_members_have_a_protocol_in_common() -> None:
    scene = play()
    scene.join_classic("old", ["orders"])
    reply = scene.join_classic("older", ["orders"], protocols=(("range", SUBSCRIPTION),))
    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_may_speak() -> None:
    scene = play()
    scene.join_classic("old", ["orders"])
    assert scene.sync_classic("stranger", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.sync_classic("new", 1).error is ErrorCode.UNKNOWN_MEMBER_ID, "it speaks the other protocol"
    assert scene.sync_classic("old", 1).error is ErrorCode.ILLEGAL_GENERATION
    assert scene.sync_classic("old", 2, protocol_name="range").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.heartbeat_classic("old", 9) is ErrorCode.ILLEGAL_GENERATION
    assert scene.heartbeat_classic("stranger", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.group.check_commit("old", 2, at("orders", 0), 5) is ErrorCode.NONE
    assert scene.group.check_commit("old", 3, at("orders", 0), 5) is ErrorCode.ILLEGAL_GENERATION
    scene.join("b", "orders")
    assert scene.sync_classic("old", 2).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_members_may_change_their_protocol() -> None:
    scene = Play(orders=4)
    first = scene.join_classic("", ["orders"], group_instance_id="one", new_member_id="a")
    assert (first.member_id, first.generation_id) == ("a", 1)
    again = scene.join_classic("", ["orders"], group_instance_id="one", new_member_id="b")
    assert (again.member_id, again.generation_id) == ("b", 1)
    assert scene.heartbeat_classic("a", 1, "one") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.join_classic("a", ["orders"], group_instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert len(assigned_static(scene, "b")) == 4
    scene.beat("b", 1, instance_id="one", owned=frozenset())
    assert scene.group.members["b"].classic is None
    refused = scene.join_classic("", ["orders"], group_instance_id="one", new_member_id="c")
    assert refused.error is ErrorCode.UNRELEASED_INSTANCE_ID
    scene.beat("b", LEAVING_FOR_A_WHILE, instance_id="one")
    assert scene.join_classic("", ["orders"], group_instance_id="one", new_member_id="c").error is ErrorCode.NONE


def assigned_static(scene: Play, member_id: str) -> list[int]:
    reply = scene.sync_classic(member_id, 1, group_instance_id="one")
    return [index for each in decode_assignment(reply.assignment).assigned_partitions for index in each.partitions]


def test_classic_members_survive_a_restart() -> None:
    scene = play()
    scene.join_classic("old", ["orders"])
    before = scene.group.describe()
    scene.restart()
    assert scene.group.describe() == before
    assert scene.group.members["old"].classic is not None


# ---- groups that change while they have members


def upgraded(stage: Stage) -> ConsumerGroup:
    found = stage.consumer_groups.get("g")
    assert found is not None
    return found


def classic_member(stage: Stage, user_data: bytes | None = None) -> JoinReply:
    """A classic member that has been assigned two partitions."""
    share = encode(ConsumerProtocolAssignment([TopicPartition("orders", [0, 1])], user_data), 1)
    return stage.member(share=share)


def test_a_classic_group_goes_on_with_its_members_and_epoch() -> None:
    stage = Stage()
    member = classic_member(stage)
    reply = only(beat(stage))
    assert (reply.error, reply.epoch) == (ErrorCode.NONE, member.generation_id + 1)
    group = upgraded(stage)
    group.check_invariants()
    assert group.members[member.member_id].assigned.keys() == {(topic_id("orders"), 0), (topic_id("orders"), 1)}
    assert len(reply.assignment or ()) == 2, "what nobody had"
    heartbeat = HeartbeatRequest("g", member.generation_id, member.member_id, None)
    assert stage.consumer_groups.heartbeat_classic(heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    stage.restart()
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    assert set(upgraded(stage).members) == {"a", member.member_id}


def test_a_classic_group_keeps_its_epoch_although_the_heartbeat_that_came_is_refused() -> None:
    stage = Stage()
    member = classic_member(stage)
    for _ in range(2):  # the next generations: after a restart a first epoch would come before them
        (member,) = stage.join(member.member_id)
        stage.sync(member, share=encode(ConsumerProtocolAssignment([TopicPartition("orders", [0, 1])], None), 1))
    refused = only(beat(stage, subscribed_topic_names=[], subscribed_topic_regex="("))
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert upgraded(stage).epoch == member.generation_id
    stage.restart()
    upgraded(stage).check_invariants()
    assert upgraded(stage).epoch >= member.generation_id


def test_a_classic_group_that_would_lose_something_stays() -> None:
    stage = Stage()
    classic_member(stage, user_data=b"an assignor's own")
    assert only(beat(stage)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.groups.directory.kind("g") is GroupKind.CLASSIC


def test_a_classic_group_that_rebalances_is_waited_for() -> None:
    stage = Stage()
    classic_member(stage)
    (offered,) = stage.join()
    assert stage.join(offered.member_id) == []
    assert only(beat(stage)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (MigrationPolicy.DISABLED, ErrorCode.GROUP_ID_NOT_FOUND),
        (MigrationPolicy.DOWNGRADE, ErrorCode.GROUP_ID_NOT_FOUND),
        (MigrationPolicy.UPGRADE, ErrorCode.NONE),
    ],
)
def test_the_policy_says_whether(policy: MigrationPolicy, error: ErrorCode) -> None:
    stage = Stage()
    stage.consumer_groups.settings = replace(CONSUMER_SETTINGS, migration_policy=policy)
    classic_member(stage)
    assert only(beat(stage)).error is error
