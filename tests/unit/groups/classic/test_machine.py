"""The classic protocol, told as transcripts: joining, agreeing, sharing out, leaving. No loop, no clock."""

import pytest
from tests.unit.groups.classic.scene import GATHERING_MS, RANGE, REBALANCE_MS, SESSION_MS, SETTINGS, Scene

from hutong.groups.classic.machine import ClassicGroup
from hutong.groups.classic.messages import Emptied, JoinReply, Leaver, LeaveReply, Retire
from hutong.groups.classic.states import GroupState
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


def test_a_new_client_is_given_an_id_and_joins_with_it() -> None:
    scene = Scene()
    offered = scene.joined(scene.join(knows_id=False))
    assert offered == JoinReply(ErrorCode.MEMBER_ID_REQUIRED, "client-1")
    assert scene.group.state is GroupState.EMPTY
    ticket = scene.join("client-1")
    assert scene.waits(ticket)
    scene.pass_time(GATHERING_MS)
    joined = scene.joined(ticket)
    assert (joined.error, joined.generation_id, joined.leader_id) == (ErrorCode.NONE, 1, "client-1")
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert joined.members == (("client-1", None, b"topics"),)


def test_an_id_that_is_never_used_lapses() -> None:
    scene = Scene()
    scene.join(knows_id=False)
    assert not scene.group.is_blank
    scene.pass_time(SESSION_MS)
    assert scene.group.is_blank
    assert scene.joined(scene.join("client-1")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_first_members_are_gathered_into_one_generation() -> None:
    scene = Scene()
    first = scene.join()
    scene.pass_time(90)
    second = scene.join()
    scene.pass_time(90)  # 180: extended once, because somebody came in the first round
    assert scene.waits(first)
    scene.pass_time(20)
    assert {scene.joined(ticket).generation_id for ticket in (first, second)} == {1}
    assert len(scene.joined(first).members) == 2
    assert scene.joined(second).members == ()


def test_gathering_ends_with_the_rebalance_timeout_however_many_come() -> None:
    scene = Scene()
    first = scene.join(rebalance_ms=250)
    for _ in range(4):
        scene.pass_time(50)
        scene.join(rebalance_ms=250)
    assert scene.waits(first)
    scene.pass_time(50)
    assert len(scene.joined(first).members) == 5


def test_no_initial_delay_means_no_wait() -> None:
    scene = Scene(GroupSettings(initial_rebalance_delay_ms=0))
    assert scene.joined(scene.join()).generation_id == 1


def test_followers_wait_for_the_leaders_assignment_until_it_is_durable() -> None:
    scene = Scene()
    first, second = scene.join(), scene.join()
    scene.pass_time(GATHERING_MS)
    leader, follower = scene.joined(first).member_id, scene.joined(second).member_id
    follower_waits = scene.sync(follower)
    leader_waits = scene.sync(leader, {leader: b"p0", follower: b"p1", "stranger": b"p2"})
    assert scene.waits(follower_waits)
    assert scene.waits(leader_waits)
    record = scene.to_persist[0].record
    assert {member.member_id: member.assignment for member in record.members} == {leader: b"p0", follower: b"p1"}
    scene.persist()
    assert scene.synced(leader_waits).assignment == b"p0"
    assert scene.synced(follower_waits).assignment == b"p1"
    assert scene.group.state is GroupState.STABLE
    assert scene.synced(scene.sync(follower)).assignment == b"p1"  # asked again: told again


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    scene = Scene()
    first, second = scene.join(), scene.join()
    scene.pass_time(GATHERING_MS)
    leader, follower = scene.joined(first).member_id, scene.joined(second).member_id
    scene.sync(leader, {leader: b"all"})
    waits = scene.sync(follower)
    scene.persist()
    assert scene.synced(waits).assignment == b""


def test_an_assignment_that_cannot_be_stored_is_not_handed_out() -> None:
    scene = Scene()
    ticket = scene.join()
    scene.pass_time(GATHERING_MS)
    leader = scene.joined(ticket).member_id
    waits = scene.sync(leader, {leader: b"p0"})
    scene.fail_to_persist()
    assert scene.synced(waits).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    again = scene.join(leader)
    assert scene.joined(again).generation_id == 2


def test_a_rebalance_overtakes_an_assignment_on_its_way_to_the_disk() -> None:
    scene = Scene()
    ticket = scene.join()
    scene.pass_time(GATHERING_MS)
    leader = scene.joined(ticket).member_id
    waits = scene.sync(leader, {leader: b"all"})
    scene.join()
    assert scene.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    scene.persist()
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_a_newcomer_makes_everyone_join_again() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    newcomer = scene.join()
    assert scene.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.synced(scene.sync(first)).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(first)
    assert scene.joined(newcomer).generation_id == scene.joined(again).generation_id == 2
    assert scene.joined(again).leader_id == first
    assert scene.heartbeat(first, generation_id=1) is ErrorCode.ILLEGAL_GENERATION
    assert scene.heartbeat(first) is ErrorCode.NONE


def test_who_misses_the_barrier_is_left_behind() -> None:
    scene = Scene()
    first, second = scene.stable(2)
    newcomer = scene.join(session_ms=REBALANCE_MS * 2)
    rejoined = scene.join(second)
    for _ in range(7):
        scene.pass_time(REBALANCE_MS // 7 + 1)
        scene.heartbeat(first)  # alive, but it never joins again
    assert {scene.joined(ticket).generation_id for ticket in (newcomer, rejoined)} == {2}
    assert scene.joined(rejoined).leader_id == second
    assert scene.heartbeat(first) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_expelled_and_the_rest_rebalances() -> None:
    scene = Scene()
    first, second = scene.stable(2)
    scene.pass_time(SESSION_MS - 1)
    assert scene.heartbeat(first) is ErrorCode.NONE
    scene.pass_time(1)
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    assert list(scene.group.member_table.members) == [first]
    assert scene.heartbeat(second) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.rebalances[-1] == f"{second} fell silent"


def test_a_waiting_request_stands_in_for_heartbeats() -> None:
    scene = Scene()
    first, second = scene.stable(2)
    rejoined = scene.join(first)
    for _ in range(5):
        scene.pass_time(SESSION_MS - 1)
        assert scene.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.waits(rejoined)
    scene.join(second)
    assert scene.joined(rejoined).generation_id == 2
    scene.pass_time(SESSION_MS)  # from here on both are silent
    assert not scene.group.member_table.members


def test_a_newcomer_that_waits_too_long_is_let_go() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    newcomer = scene.join(rebalance_ms=10 * SETTINGS.new_member_join_timeout_ms)
    while scene.waits(newcomer):
        scene.pass_time(SESSION_MS - 1)
        scene.heartbeat(first)
    assert scene.joined(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.now_ms - 1_000 <= SETTINGS.new_member_join_timeout_ms + 2 * SESSION_MS


def test_who_joins_but_never_syncs_is_expelled() -> None:
    scene = Scene()
    first, second = scene.join(rebalance_ms=5_000), scene.join(rebalance_ms=5_000)
    scene.pass_time(GATHERING_MS)
    leader, lazy = scene.joined(first).member_id, scene.joined(second).member_id
    scene.sync(leader, {leader: b"p0", lazy: b"p1"})
    scene.persist()
    scene.pass_time(5_000)
    assert list(scene.group.member_table.members) == [leader]
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_a_leader_that_never_syncs_does_not_hold_up_the_rest_for_ever() -> None:
    scene = Scene()
    first, second = scene.join(rebalance_ms=5_000), scene.join(rebalance_ms=5_000)
    scene.pass_time(GATHERING_MS)
    follower = scene.joined(second).member_id
    waits = scene.sync(follower)
    scene.pass_time(5_000)
    assert scene.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(follower)
    assert scene.joined(again).leader_id == follower
    assert scene.joined(first).leader_id != follower


def test_leaving_hands_the_partitions_on_at_once() -> None:
    scene = Scene()
    first, second = scene.stable(2)
    assert scene.leave(Leaver(first)) == (ErrorCode.NONE,)
    assert scene.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join(second)
    assert (scene.joined(again).leader_id, scene.joined(again).generation_id) == (second, 2)


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    scene.leave(Leaver(first))
    assert scene.group.state is GroupState.EMPTY
    assert scene.to_persist[0].cause == Emptied(2)
    assert scene.to_persist[0].record.members == []
    scene.persist()
    assert not scene.group.is_blank
    assert scene.joined(scene.join(first)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_several_at_once_answers_each() -> None:
    scene = Scene()
    ids = scene.stable(2)
    pending = scene.joined(scene.join(knows_id=False)).member_id
    errors = scene.leave(Leaver(ids[0]), Leaver("stranger"), Leaver(pending), Leaver("", "nobody"))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == (ErrorCode.NONE, unknown, ErrorCode.NONE, unknown)


def test_leaving_while_waiting_ends_the_wait() -> None:
    scene = Scene()
    first, _ = scene.stable(2)
    waits = scene.join(first)
    scene.leave(Leaver(first))
    assert scene.joined(waits).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_a_handed_out_id_that_goes_leaves_the_generation_alone() -> None:
    scene = Scene()
    scene.stable(1)
    pending = scene.joined(scene.join(knows_id=False)).member_id
    scene.leave(Leaver(pending))
    assert scene.group.state is GroupState.STABLE


def test_the_protocol_that_all_speak_and_most_prefer_is_chosen() -> None:
    scene = Scene()
    only_range = scene.join(protocols=(("range", b"a"),))
    scene.join(protocols=(("sticky", b"b"), ("range", b"c")))
    scene.join(protocols=(("sticky", b"d"), ("range", b"e")))
    scene.pass_time(GATHERING_MS)
    assert scene.joined(only_range).protocol_name == "range"
    assert [metadata for _, _, metadata in scene.joined(only_range).members] == [b"a", b"c", b"e"]


def test_a_majority_decides_between_protocols_that_all_speak() -> None:
    scene = Scene()
    ticket = scene.join(protocols=(("range", b""), ("sticky", b"")))
    scene.join(protocols=(("sticky", b""), ("range", b"")))
    scene.join(protocols=(("sticky", b""), ("range", b"")))
    scene.pass_time(GATHERING_MS)
    assert scene.joined(ticket).protocol_name == "sticky"


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("consumer", (("sticky", b""),)), ("connect", RANGE), ("consumer", ()), ("", RANGE)],
)
def test_who_speaks_nothing_that_the_others_do_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    scene = Scene()
    scene.stable(1)
    refused = scene.joined(scene.join(protocol_type=protocol_type, protocols=protocols))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.group.state is GroupState.STABLE


def test_sync_checks_the_protocol_that_the_client_believes_in() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    assert scene.synced(scene.sync(first, protocol_type="consumer", protocol_name="range")).error is ErrorCode.NONE
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.synced(scene.sync(first, protocol_type="connect", protocol_name="range")).error is wrong
    assert scene.synced(scene.sync(first, protocol_type="consumer", protocol_name="sticky")).error is wrong


def test_sync_of_another_generation_or_member_is_refused() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    assert scene.synced(scene.sync(first, generation_id=7)).error is ErrorCode.ILLEGAL_GENERATION
    assert scene.synced(scene.sync("stranger")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_joins_unchanged_is_told_the_same_generation() -> None:
    scene = Scene()
    leader, follower = scene.stable(2)
    again = scene.joined(scene.join(follower))
    assert (again.generation_id, again.leader_id, again.members) == (1, leader, ())
    assert scene.group.state is GroupState.STABLE


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    assert scene.waits(scene.join(leader))
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_changed_metadata_rebalances_at_any_time() -> None:
    scene = Scene()
    changed = (("range", b"more topics"),)
    _, follower = scene.stable(2)
    scene.join(follower, protocols=changed)
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_a_lost_join_response_can_be_asked_for_again() -> None:
    scene = Scene()
    ticket = scene.join()
    scene.pass_time(GATHERING_MS)
    member_id = scene.joined(ticket).member_id
    again = scene.joined(scene.join(member_id))
    assert again == scene.joined(ticket)
    assert scene.group.state is GroupState.COMPLETING_REBALANCE


def test_a_second_join_of_one_member_ends_the_first() -> None:
    scene = Scene()
    first, second = scene.stable(2)
    stale = scene.join(first)
    fresh = scene.join(first)
    assert scene.joined(stale).error is ErrorCode.REBALANCE_IN_PROGRESS
    scene.join(second)
    assert scene.joined(fresh).error is ErrorCode.NONE


def test_cooperative_members_keep_what_they_have_through_two_rebalances() -> None:
    """KIP-429: the leader first takes partitions away, then hands them out; both are ordinary generations here."""
    scene = Scene()
    owns_all = (("cooperative-sticky", b"owns p0,p1"),)
    first_ticket = scene.join(protocols=owns_all)
    scene.pass_time(GATHERING_MS)
    first = scene.joined(first_ticket).member_id
    scene.share_out([first])
    second_ticket = scene.join(protocols=(("cooperative-sticky", b"owns nothing"),))
    scene.join(first, protocols=owns_all)
    second = scene.joined(second_ticket).member_id
    scene.sync(first, {first: b"p0", second: b""})
    waits = scene.sync(second)
    scene.persist()
    assert scene.synced(waits).assignment == b""
    scene.join(first, protocols=(("cooperative-sticky", b"owns p0"),))
    scene.join(second, protocols=(("cooperative-sticky", b"owns nothing"),))
    assert scene.group.generation_id == 3
    scene.sync(first, {first: b"p0", second: b"p1"})
    waits = scene.sync(second)
    scene.persist()
    assert scene.synced(waits).assignment == b"p1"


def test_commits_are_taken_from_members_of_this_generation_only() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    assert scene.commit(first) is ErrorCode.NONE
    assert scene.commit(first, generation_id=9) is ErrorCode.ILLEGAL_GENERATION
    assert scene.commit("stranger") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.commit("", generation_id=-1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.commit(first, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_go_on_while_others_join_but_not_before_the_assignment() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    newcomer = scene.join()
    assert scene.commit(first) is ErrorCode.NONE
    scene.join(first)
    assert not scene.waits(newcomer)
    assert scene.commit(first) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_empty_group_takes_commits_from_anyone_outside_the_protocol() -> None:
    scene = Scene()
    assert scene.commit("", generation_id=-1) is ErrorCode.NONE
    assert scene.commit("", generation_id=3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_the_member_alive() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    for _ in range(3):
        scene.pass_time(SESSION_MS - 1)
        assert scene.commit(first) is ErrorCode.NONE


def test_a_group_has_a_bound_on_members_and_on_what_they_say() -> None:
    scene = Scene(GroupSettings(members_max=2, group_metadata_bytes_max=1_000))
    scene.join()
    scene.join(knows_id=False)
    assert scene.joined(scene.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    roomy = Scene(GroupSettings(group_metadata_bytes_max=1_000))
    assert roomy.waits(roomy.join(protocols=(("range", bytes(700)),)))
    assert roomy.joined(roomy.join(protocols=(("range", bytes(700)),))).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_are_described_with_what_is_agreed_on() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    described = scene.group.describe()
    assert (described.state, described.protocol_type, described.protocol_name) == ("Stable", "consumer", "range")
    (member,) = described.members
    assert (member.metadata, member.assignment) == (b"topics", f"share of {first}".encode())
    scene.join()
    rebalancing = scene.group.describe()
    assert (rebalancing.state, rebalancing.protocol_name) == ("PreparingRebalance", "")
    assert {(member.metadata, member.assignment) for member in rebalancing.members} == {(b"", b"")}


def test_a_retired_group_sends_everyone_elsewhere() -> None:
    scene = Scene()
    scene.tell(Retire())
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.joined(scene.join()).error is gone
    assert scene.synced(scene.sync("anyone")).error is gone
    assert scene.heartbeat("anyone") is gone
    assert scene.commit("", generation_id=-1) is gone
    assert scene.leave(Leaver("anyone")) == (gone,)


def test_a_group_with_members_cannot_be_retired() -> None:
    scene = Scene()
    scene.stable(1)
    with pytest.raises(RuntimeError, match="cannot go from Stable to Dead"):
        scene.group.handle(Retire())


def test_a_restored_group_goes_on_without_a_rebalance() -> None:
    scene = Scene()
    first, second = scene.join(), scene.join()
    scene.pass_time(GATHERING_MS)
    leader, follower = scene.joined(first).member_id, scene.joined(second).member_id
    scene.sync(leader, {leader: b"p0", follower: b"p1"})
    record = scene.to_persist[0].record
    after = Scene(group=ClassicGroup.restored("readers", SETTINGS, record, now_ms=50))
    after.now_ms = 50
    after.group.check_invariants()
    assert after.heartbeat(follower, generation_id=1) is ErrorCode.NONE
    assert after.synced(after.sync(follower)).assignment == b"p1"
    assert after.group.member_table.leader_id == leader
    after.pass_time(SESSION_MS)
    assert not after.group.member_table.members


def test_an_empty_group_is_restored_as_one() -> None:
    scene = Scene()
    (first,) = scene.stable(1)
    scene.leave(Leaver(first))
    group = ClassicGroup.restored("readers", SETTINGS, scene.to_persist[0].record, now_ms=0)
    assert (group.state, group.generation_id, group.next_tick_ms()) == (GroupState.EMPTY, 2, None)


def test_replies_to_leavers_come_even_if_nobody_was_named() -> None:
    scene = Scene()
    assert scene.leave() == LeaveReply(()).errors
