"""Transcripts of consumer groups (KIP-848): joining, handing over, leaving, falling silent, coming back."""

from dataclasses import replace

import pytest
from tests.unit.groups.consumer.play import REBALANCE_MS, SESSION_MS, SETTINGS, Client, Play, at, settle, topic_id

from hutong.foundation.machine import Tick
from hutong.groups.assigned.member import MemberState
from hutong.groups.assigned.messages import LEAVING, LEAVING_FOR_A_WHILE, RecordKind, Removal, StoreFailed
from hutong.groups.assigned.settings import GroupTimes
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.consumer.assignment.catalogue import TopicFacts
from hutong.wire.kafka.error_codes import ErrorCode

ALL_FOUR = at("orders", 0, 1, 2, 3)


def play() -> Play:
    return Play(orders=4, other=2)


# ---- joining and handing over


def test_the_first_member_has_everything_at_once() -> None:
    scene = play()
    reply = scene.join("a", "orders")
    assert (reply.error, reply.member_id, reply.epoch) == (ErrorCode.NONE, "a", 1)
    assert reply.heartbeat_interval_ms == SETTINGS.times.heartbeat_interval_ms
    assert reply.assignment == ALL_FOUR
    assert scene.group.state is AssignedGroupState.STABLE
    assert set(scene.stored[0]) == {
        (RecordKind.GROUP, ""),
        (RecordKind.MEMBER, "a"),
        (RecordKind.TARGET_EPOCH, ""),
        (RecordKind.TARGET, "a"),
        (RecordKind.CURRENT, "a"),
    }
    quiet = scene.beat("a", 1)
    assert quiet.assignment is None
    assert len(scene.stored) == 1


def test_a_partition_is_given_on_only_when_it_was_given_up() -> None:
    scene = play()
    scene.join("a", "orders")
    second = scene.join("b", "orders")
    assert (second.epoch, second.assignment) == (2, frozenset())
    assert scene.group.describe().state == "Reconciling"
    told = scene.beat("a", 1)
    assert (told.epoch, told.assignment) == (1, at("orders", 0, 1))
    assert scene.beat("b", 2).assignment is None, "not before a says so"
    assert scene.beat("a", 1).assignment is None, "a heartbeat that does not say what is owned proves nothing"
    assert scene.beat("a", 1, owned=ALL_FOUR).epoch == 1
    done = scene.beat("a", 1, owned=at("orders", 0, 1))
    assert (done.epoch, done.assignment) == (2, None)
    assert scene.beat("b", 2).assignment == at("orders", 2, 3)
    assert scene.group.state is AssignedGroupState.STABLE


def test_a_member_that_leaves_hands_everything_over() -> None:
    scene = play()
    a, b = Client(scene, "a", ["orders"]), Client(scene, "b", ["orders"])
    settle(a, b)
    reply = scene.beat("a", LEAVING)
    assert (reply.error, reply.member_id, reply.epoch) == (ErrorCode.NONE, "a", LEAVING)
    assert b.beat().assignment == ALL_FOUR
    assert b.epoch == scene.group.epoch == 3


def test_whoever_leaves_last_leaves_an_empty_group_with_its_epoch() -> None:
    scene = play()
    scene.join("a", "orders")
    scene.beat("a", LEAVING)
    assert (scene.group.state, scene.group.epoch) == (AssignedGroupState.EMPTY, 2)
    assert scene.join("b", "orders").epoch == 3


def test_a_subscription_may_change() -> None:
    scene = play()
    scene.join("a", "orders")
    told = scene.beat("a", 1, topic_names=frozenset({"other"}), owned=ALL_FOUR)
    assert (told.epoch, told.assignment) == (1, frozenset())
    assert scene.beat("a", 1, owned=frozenset()).assignment == at("other", 0, 1)


def test_a_topic_that_is_not_there_is_read_once_it_is() -> None:
    scene = play()
    assert scene.join("a", "later").assignment == frozenset()
    scene.set_topic("later", 1)
    assert scene.beat("a", 1).assignment == at("later", 0)
    scene.set_topic("later", 3)
    assert scene.beat("a", 2).assignment == at("later", 0, 1, 2)
    scene.delete_topic("later")
    assert scene.beat("a", 3).assignment == frozenset()
    assert scene.beat("a", 3, owned=frozenset()).epoch == 4


def test_patterns_follow_the_topics() -> None:
    scene = play()
    assert scene.join("a", regex="o.*").assignment == at("orders", 0, 1, 2, 3) | at("other", 0, 1)
    scene.set_topic("offers", 1)
    reply = scene.beat("a", 1)
    assert reply.assignment == at("orders", 0, 1, 2, 3) | at("other", 0, 1) | at("offers", 0)
    scene.set_topic("new-orders", 1)
    assert scene.beat("a", 2).epoch == 2, "the whole name must match"
    assert scene.beat("a", 2, topic_regex="", owned=reply.assignment).assignment == frozenset()


def test_a_pattern_that_is_none_changes_nothing() -> None:
    scene = play()
    assert scene.join("a", regex="o(").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert scene.group.members == {}
    scene.join("a", "orders")
    assert scene.beat("a", 1, topic_regex="*").error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert scene.beat("a", 1).error is ErrorCode.NONE


def test_most_votes_choose_the_assignor() -> None:
    scene = play()
    for name, assignor in (("a", "range"), ("b", "uniform"), ("c", "range")):
        scene.join(name, "orders", "other", server_assignor=assignor)
    assert scene.group.describe().assignor == "range"
    assert scene.group.targets == {"a": at("orders", 0, 1) | at("other", 0), "b": at("orders", 2) | at("other", 1),
                                   "c": at("orders", 3)}  # fmt: skip


def test_many_changes_at_once_cost_one_assignment() -> None:
    scene = Play(replace(SETTINGS, times=GroupTimes(SESSION_MS, 500, 1_000)), orders=4)
    assert scene.join("a", "orders").assignment == ALL_FOUR, "the first is not kept waiting"
    for name in ("b", "c", "d"):
        scene.join(name, "orders")
    assert scene.group.state is AssignedGroupState.ASSIGNING
    assert (scene.group.epoch, scene.group.assignment_epoch) == (4, 1)
    scene.pass_time(1_000)
    assert (scene.group.epoch, scene.group.assignment_epoch) == (4, 4)
    assert {len(target) for target in scene.group.targets.values()} == {1}


# ---- epochs


def test_a_lost_reply_does_not_fence() -> None:
    scene = play()
    a, b = Client(scene, "a", ["orders"]), Client(scene, "b", ["orders"])
    settle(a)
    b.beat()
    a.beat()
    a.obey()
    a.beat(loses_reply=True)
    assert scene.group.members["a"].epoch == 2
    assert scene.beat("a", 1).error is ErrorCode.FENCED_MEMBER_EPOCH, "an old epoch that does not say what it has"
    assert scene.beat("a", 1, owned=ALL_FOUR).error is ErrorCode.FENCED_MEMBER_EPOCH, "or has what it may not"
    again = a.beat()
    assert (again.error, again.epoch, again.assignment) == (ErrorCode.NONE, 2, at("orders", 0, 1))


@pytest.mark.parametrize("epoch", [2, 7])
def test_nobody_knows_the_future(epoch: int) -> None:
    scene = play()
    scene.join("a", "orders")
    assert scene.beat("a", epoch).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_lost_everything_joins_again_under_its_id() -> None:
    scene = play()
    a, b = Client(scene, "a", ["orders"]), Client(scene, "b", ["orders"])
    settle(a, b)
    reply = scene.join("a", "orders")
    assert (reply.epoch, reply.assignment) == (2, at("orders", 0, 1))


def test_strangers_are_told_so() -> None:
    scene = play()
    assert scene.beat("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.beat("a", LEAVING).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.group.epoch == 0


def test_a_group_has_a_greatest_size() -> None:
    scene = Play(replace(SETTINGS, members_max=1), orders=4)
    scene.join("a", "orders")
    assert scene.join("b", "orders").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join("a", "orders").error is ErrorCode.NONE


# ---- time


def test_a_silent_member_is_removed() -> None:
    scene = play()
    a, b = Client(scene, "a", ["orders"]), Client(scene, "b", ["orders"])
    settle(a, b)
    scene.pass_time(SESSION_MS - 1)
    b.beat()
    scene.pass_time(1)
    assert set(scene.group.members) == {"b"}
    assert b.beat().assignment == ALL_FOUR
    assert scene.beat("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_its_partitions_in_time_is_removed() -> None:
    scene = play()
    scene.join("a", "orders")
    scene.join("b", "orders")
    scene.beat("a", 1)
    for _ in range(REBALANCE_MS // 5_000):
        assert scene.group.members["a"].state is MemberState.UNREVOKED
        scene.pass_time(5_000)
        scene.beat("a", 1, owned=ALL_FOUR)
        scene.beat("b", 2)
    assert set(scene.group.members) == {"b"}
    assert scene.group.owners == dict.fromkeys(ALL_FOUR, "b")


def test_an_early_tick_does_nothing() -> None:
    scene = play()
    scene.join("a", "orders")
    scene.tell(Tick(scene.now_ms))
    assert set(scene.group.members) == {"a"}
    assert scene.group.next_tick_ms() == scene.now_ms + SESSION_MS


# ---- static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    scene = play()
    scene.join("a", "orders", instance_id="one")
    b = Client(scene, "b", ["orders"])
    scene.beat("a", 1)
    b.beat()
    scene.beat("a", 1, owned=at("orders", 0, 1))
    b.beat()
    assert scene.join("a2", "orders", instance_id="one").error is ErrorCode.UNRELEASED_INSTANCE_ID
    gone = scene.beat("a", LEAVING_FOR_A_WHILE, instance_id="one")
    assert (gone.error, gone.epoch) == (ErrorCode.NONE, LEAVING_FOR_A_WHILE)
    assert b.beat().assignment is None, "nobody gets what waits for it"
    back = scene.join("a2", "orders", instance_id="one")
    assert (back.error, back.epoch, back.assignment) == (ErrorCode.NONE, 2, at("orders", 0, 1))
    assert scene.group.epoch == 2
    assert scene.beat("a", 2, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert scene.beat("a2", 2, instance_id="one").error is ErrorCode.NONE
    assert scene.beat("x", 2, instance_id="two").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_replaced_by_the_others() -> None:
    scene = play()
    scene.join("a", "orders", instance_id="one")
    scene.beat("a", LEAVING_FOR_A_WHILE, instance_id="one")
    scene.pass_time(SESSION_MS)
    assert scene.group.state is AssignedGroupState.EMPTY


def test_a_static_member_that_rests_while_giving_up_has_given_up() -> None:
    scene = play()
    scene.join("a", "orders", instance_id="one")
    scene.join("b", "orders")
    scene.beat("a", 1)
    scene.beat("a", LEAVING_FOR_A_WHILE, instance_id="one")
    assert scene.beat("b", 2).assignment == at("orders", 2, 3)
    assert scene.join("a2", "orders", instance_id="one").assignment == at("orders", 0, 1)


def test_administrators_remove_members() -> None:
    scene = play()
    scene.join("a", "orders", instance_id="one")
    scene.join("b", "orders")
    reply = scene.remove(Removal("", "one"), Removal("b"), Removal("c"), Removal("", "two"))
    assert reply.errors == (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    assert scene.group.state is AssignedGroupState.EMPTY


# ---- commits


def test_who_may_commit() -> None:
    scene = play()
    assert scene.group.check_commit("", -1, ALL_FOUR, 9) is ErrorCode.NONE, "an administrator, while it is empty"
    scene.join("a", "orders")
    scene.join("b", "orders")
    check = scene.group.check_commit
    assert check("", -1, ALL_FOUR, 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check("a", 1, ALL_FOUR, 9) is ErrorCode.NONE
    assert check("a", 1, ALL_FOUR, 8) is ErrorCode.UNSUPPORTED_VERSION
    assert check("a", 2, ALL_FOUR, 9) is ErrorCode.STALE_MEMBER_EPOCH
    scene.beat("a", 1)
    scene.beat("a", 1, owned=at("orders", 0, 1))
    scene.beat("b", 2)
    assert check("a", 1, at("orders", 0, 1), 9) is ErrorCode.NONE, "it has had them since epoch 1"
    assert check("a", 1, ALL_FOUR, 9) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("b", 1, at("orders", 2), 9) is ErrorCode.STALE_MEMBER_EPOCH


def test_who_may_look_at_offsets() -> None:
    scene = play()
    scene.join("a", "orders")
    check = scene.group.check_offset_fetch
    assert check(None, -1) is ErrorCode.NONE
    assert check("a", 1) is ErrorCode.NONE
    assert check("a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert check("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


# ---- records


def test_a_restart_goes_on_where_it_was() -> None:
    scene = play()
    a, b = Client(scene, "a", ["orders"]), Client(scene, "b", ["orders"], regex="ot.*")
    settle(a, b)
    c = Client(scene, "c", ["orders"])
    c.beat()
    a.beat()
    before = scene.group.describe()
    scene.restart()
    assert scene.group.describe() == before
    settle(a, b, c)
    assert scene.group.state is AssignedGroupState.STABLE
    assert a.epoch == b.epoch == c.epoch == scene.group.epoch == 3


def test_topics_that_changed_while_nobody_looked_are_noticed() -> None:
    scene = play()
    scene.join("a", "orders")
    scene.catalogue.put(TopicFacts("orders", topic_id("orders"), 5))
    scene.restart()
    assert scene.group.epoch == 2
    assert scene.beat("a", 1).assignment == at("orders", 0, 1, 2, 3, 4)


def test_a_member_that_left_is_not_on_record() -> None:
    scene = play()
    scene.join("a", "orders")
    scene.join("b", "orders")
    scene.beat("a", LEAVING)
    scene.restart()
    assert set(scene.group.members) == {"b"}
    assert scene.group.epoch == 3


def test_what_could_not_be_stored_is_stored_with_what_comes_next() -> None:
    scene = play()
    scene.join("a", "orders")
    lost = scene.stored.pop()
    scene.log.clear()
    scene.tell(StoreFailed(lost))
    assert scene.stored == []
    scene.beat("a", 1)
    assert scene.stored == [lost]
    scene.restart()
    assert set(scene.group.members) == {"a"}
