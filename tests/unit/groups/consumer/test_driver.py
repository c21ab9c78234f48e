"""The coordinator of consumer groups: answers when it is durable, arms timers, finds everything again, tells kinds."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.groups.stage import RETENTION_MS, SUBSCRIPTION, Stage, topic_id

from hutong.foundation.errors import DiskFull
from hutong.foundation.waiting.table import Owner
from hutong.groups.assigned.messages import Removal, RemoveReply
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.classic.messages import JoinReply
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.groups.consumer.messages import HeartbeatReply
from hutong.groups.consumer.settings import MigrationPolicy
from hutong.groups.directory import GroupKind
from hutong.groups.requests import GroupCaller
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.apis.shared import TopicIdPartitions
from hutong.wire.kafka.consumer_protocol import ConsumerProtocolAssignment, encode
from hutong.wire.kafka.error_codes import ErrorCode

ORDERS = frozenset((topic_id("orders"), index) for index in range(4))


def beat(stage: Stage, member_id: str = "a", epoch: int = 0, *, version: int = 1, **said: Any) -> list[HeartbeatReply]:
    """The replies so far: none while the request waits."""
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
            **said,
        }
    request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **said}, member_id=member_id, member_epoch=epoch)
    replies: list[HeartbeatReply] = []
    caller = GroupCaller(version, "app", "/127.0.0.1", Owner())
    stage.consumer_groups.heartbeat(request, caller, replies.append)
    return replies


def only(replies: list[HeartbeatReply]) -> HeartbeatReply:
    (reply,) = replies
    return reply


# ---- durability


def test_what_is_told_is_durable() -> None:
    stage = Stage()
    stage.state.holds_back = True
    first = beat(stage)
    quiet = beat(stage, "a", 1)
    assert first == quiet == []
    stage.state.flush()
    assert (only(first).epoch, only(first).assignment) == (1, ORDERS)
    assert only(quiet).error is ErrorCode.NONE
    assert len(beat(stage, "a", 1)) == 1, "nothing new is told at once"


def test_what_is_not_durable_is_not_told_and_stored_later() -> None:
    stage = Stage()
    stage.state.failure = DiskFull("full")
    assert only(beat(stage)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.state.failure = None
    assert only(beat(stage)).epoch == 1
    stage.restart()
    assert only(beat(stage, "a", 1)).error is ErrorCode.NONE


def test_a_restart_takes_members_and_epochs_up() -> None:
    stage = Stage()
    beat(stage)
    beat(stage, "b")
    stage.restart()
    group = stage.consumer_groups.get("g")
    assert group is not None
    assert (group.epoch, set(group.members)) == (2, {"a", "b"})
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    stage.pass_time(10_100)
    assert group.state is AssignedGroupState.EMPTY
    stage.restart()
    assert only(beat(stage)).epoch == 4


def test_closing_answers_everyone_who_waits() -> None:
    stage = Stage()
    stage.state.holds_back = True
    replies = beat(stage)
    stage.consumer_groups.close()
    assert only(replies).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_session_ends_by_the_clock() -> None:
    stage = Stage()
    beat(stage)
    stage.pass_time(9_000)
    assert only(beat(stage, "a", 1)).error is ErrorCode.NONE
    stage.pass_time(9_000)
    assert only(beat(stage, "a", 1)).error is ErrorCode.NONE
    stage.pass_time(10_010)
    assert only(beat(stage, "a", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID


# ---- bad input


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": [TopicIdPartitions()]}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"subscribed_topic_regex": "a" * 5_000}, "A name is too long."),
        ({"subscribed_topic_names": ["a" * 5_000]}, "A topic name is too long."),
        ({"subscribed_topic_names": ["a"] * 10_001}, "A member subscribes to at most 10000 topics."),
    ],
)
def test_a_first_request_that_makes_no_sense(said: dict[str, Any], message: str) -> None:
    stage = Stage()
    reply = only(beat(stage, **said))
    assert (reply.error, reply.message) == (ErrorCode.INVALID_REQUEST, message)
    assert len(stage.consumer_groups) == len(stage.groups.directory) == 0


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "message"),
    [
        ("", 0, 1, "MemberId can't be empty."),
        ("", 1, 0, "MemberId can't be empty."),
        ("", -1, 0, "MemberId can't be empty."),
        ("a", -2, 1, "InstanceId can't be null."),
        ("a", -3, 1, "MemberEpoch is invalid."),
    ],
)
def test_ids_and_epochs_that_make_no_sense(member_id: str, epoch: int, version: int, message: str) -> None:
    reply = only(beat(Stage(), member_id, epoch, version=version))
    assert (reply.error, reply.message) == (ErrorCode.INVALID_REQUEST, message)


def test_old_clients_are_given_an_id() -> None:
    reply = only(beat(Stage(), "", version=0))
    assert reply.member_id == "00000000-0000-4000-8000-000000000001"


def test_an_assignor_that_is_not_ours() -> None:
    reply = only(beat(Stage(), server_assignor="mine"))
    assert reply.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert reply.message == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


def test_a_group_that_is_not_there() -> None:
    stage = Stage()
    assert only(beat(stage, "a", 1)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert only(beat(stage, "a", -1)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert only(beat(stage, subscribed_topic_regex="(")).error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(stage.consumer_groups) == len(stage.groups.directory) == 0, "who is refused leaves nothing behind"


# ---- topics


def test_topics_that_change_reach_the_groups_that_read_them() -> None:
    stage = Stage()
    beat(stage, subscribed_topic_names=["later"])
    facts = TopicFacts("later", topic_id("later"), 1)
    stage.consumer_groups.topic_changed(TopicFacts("elsewhere", topic_id("elsewhere"), 1), exists=True)
    assert only(beat(stage, "a", 1)).epoch == 1
    stage.consumer_groups.topic_changed(facts, exists=True)
    stage.consumer_groups.topic_changed(facts, exists=True)
    reply = only(beat(stage, "a", 1))
    assert (reply.epoch, reply.assignment) == (2, frozenset({(topic_id("later"), 0)}))
    stage.consumer_groups.topic_changed(facts, exists=False)
    assert only(beat(stage, "a", 2)).assignment == frozenset()


def test_internal_topics_are_read_by_name_alone() -> None:
    stage = Stage()
    stage.consumer_groups.topic_changed(TopicFacts("__secret", topic_id("__secret"), 1, is_internal=True), exists=True)
    assert only(beat(stage, subscribed_topic_names=None, subscribed_topic_regex="__.*")).assignment == frozenset()
    assert only(beat(stage, "b", group_id="h", subscribed_topic_names=["__secret"])).assignment


# ---- kinds


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    stage = Stage()
    stage.member()
    assert only(beat(stage)).error is ErrorCode.GROUP_ID_NOT_FOUND, "it has a member"
    stage.pass_time(11_000)
    assert stage.commit(stage.change(5)) == [ErrorCode.NONE]
    assert only(beat(stage)).epoch == 1
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    assert stage.offset() == 5
    (refused,) = stage.join()
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(stage, "a", -1)
    stage.restart()
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    stage.member()
    assert stage.groups.directory.kind("g") is GroupKind.CLASSIC
    assert stage.consumer_groups.get("g") is None
    stage.restart()
    assert stage.groups.directory.kind("g") is GroupKind.CLASSIC
    assert stage.offset() == 5


@pytest.mark.parametrize("end", ["leaves", "is removed", "falls silent"])
def test_a_group_of_classic_members_alone_becomes_classic_again(end: str) -> None:
    stage = Stage()
    joined = stage.member(share=encode(ConsumerProtocolAssignment(), 1))
    assert only(beat(stage, "new")).error is ErrorCode.NONE
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    # The classic member has joined the other one.
    again = classic_join(stage, joined.member_id)
    if end == "leaves":
        beat(stage, "new", -1)
    elif end == "is removed":
        stage.consumer_groups.remove("g", [Removal("new")], lambda _reply: None)
    else:
        for _ in range(4):
            stage.pass_time(3_000)
            heartbeat = HeartbeatRequest("g", again.generation_id, joined.member_id, None)
            if stage.consumer_groups.has_members("g"):
                stage.consumer_groups.heartbeat_classic(heartbeat)
    assert stage.groups.directory.kind("g") is GroupKind.CLASSIC
    assert stage.consumer_groups.get("g") is None
    group = stage.groups.get("g")
    assert group is not None
    assert group.generation_id >= again.generation_id, "members know this number as their epoch"
    request = HeartbeatRequest("g", group.generation_id, joined.member_id, None)
    assert stage.groups.heartbeat(request) is ErrorCode.REBALANCE_IN_PROGRESS
    stage.restart()
    assert stage.groups.directory.kind("g") is GroupKind.CLASSIC
    (rejoined,) = stage.join(joined.member_id)
    assert rejoined.leader_id == joined.member_id, "it assigns again"


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED])
def test_a_group_stays_where_the_policy_says_so(policy: MigrationPolicy) -> None:
    stage = Stage()
    joined = stage.member(share=encode(ConsumerProtocolAssignment(), 1))
    beat(stage, "new")
    stage.consumer_groups.settings = replace(stage.consumer_groups.settings, migration_policy=policy)
    classic_join(stage, joined.member_id)
    beat(stage, "new", -1)
    assert stage.groups.directory.kind("g") is GroupKind.CONSUMER
    assert stage.consumer_groups.has_members("g")


def classic_join(stage: Stage, member_id: str) -> JoinReply:
    """JoinGroup of a classic member in a consumer group."""
    protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    request = JoinGroupRequest("g", 10_000, 60_000, member_id, None, "consumer", protocols)
    replies: list[JoinReply] = []
    stage.consumer_groups.join(request, GroupCaller(9, "app", "/127.0.0.1", Owner()), replies.append)
    (reply,) = replies
    assert reply.error is ErrorCode.NONE
    return reply


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    stage = Stage()
    codes: list[ErrorCode] = []
    stage.consumer_groups.delete("g", codes.append)
    beat(stage)
    stage.groups.commit("g", [stage.change(5)], codes.append)
    stage.consumer_groups.delete("g", codes.append)
    beat(stage, "a", -1)
    stage.consumer_groups.delete("g", codes.append)
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    assert stage.offset() is None
    assert stage.groups.directory.kind("g") is None
    stage.restart()
    assert stage.consumer_groups.get("g") is None
    assert stage.groups.get("g") is None


def test_members_are_removed_by_administrators() -> None:
    stage = Stage()
    replies: list[RemoveReply] = []
    stage.consumer_groups.remove("g", [Removal("a")], replies.append)
    beat(stage)
    stage.consumer_groups.remove("g", [Removal("a"), Removal("b")], replies.append)
    assert [reply.errors for reply in replies] == [
        (ErrorCode.UNKNOWN_MEMBER_ID,),
        (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID),
    ]


# ---- retention


def test_offsets_age_once_nobody_reads_the_topic() -> None:
    stage = Stage()
    beat(stage)
    codes: list[ErrorCode] = []
    stage.groups.commit("g", [stage.change(1), stage.change(2, "other")], codes.append)
    for _ in range(RETENTION_MS * 2 // 9_000):
        stage.pass_time(9_000)
        beat(stage, "a", 1)
    assert (stage.offset(), stage.offset("other")) == (1, None)
    beat(stage, "a", -1)
    stage.pass_time(RETENTION_MS - 1_000)
    assert stage.offset() == 1
    stage.pass_time(RETENTION_MS)
    assert stage.offset() is None
    assert stage.groups.directory.kind("g") is None
