"""Static members (KIP-345): a restarted process takes its old place, and the process it replaces is fenced."""

from tests.unit.groups.classic.scene import GATHERING_MS, REBALANCE_MS, SESSION_MS, SETTINGS, Scene

from hutong.groups.classic.messages import Leaver
from hutong.groups.classic.states import GroupState
from hutong.wire.kafka.error_codes import ErrorCode


def test_a_restarted_follower_takes_its_place_without_a_rebalance() -> None:
    scene = Scene()
    leader, old = scene.stable(instances=("a", "b"))
    ticket = scene.join(instance="b")
    assert scene.waits(ticket)  # not before the new id is durable
    scene.persist()
    joined = scene.joined(ticket)
    assert (joined.error, joined.generation_id, joined.leader_id) == (ErrorCode.NONE, 1, leader)
    assert joined.member_id != old
    assert scene.group.state is GroupState.STABLE
    assert scene.synced(scene.sync(joined.member_id, instance="b")).assignment == f"share of {old}".encode()
    assert len(scene.rebalances) == 1


def test_the_replaced_process_is_fenced() -> None:
    scene = Scene()
    (old,) = scene.stable(instances=("a",))
    scene.join(instance="a")
    scene.persist()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert scene.heartbeat(old, instance="a") is fenced
    assert scene.commit(old, instance="a") is fenced
    assert scene.synced(scene.sync(old, instance="a")).error is fenced
    assert scene.joined(scene.join(old, instance="a")).error is fenced
    assert scene.leave(Leaver(old, "a")) == (fenced,)
    assert scene.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_that_waits_under_the_old_id_is_fenced_at_once() -> None:
    scene = Scene()
    first = scene.join(instance="a")
    second = scene.join(instance="a")
    assert scene.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    scene.pass_time(GATHERING_MS)
    assert scene.joined(second).generation_id == 1
    assert len(scene.joined(second).members) == 1


def test_a_restarted_leader_is_told_that_it_need_not_assign() -> None:
    scene = Scene()
    leader, _ = scene.stable(instances=("a", "b"))
    ticket = scene.join(instance="a")
    scene.persist()
    joined = scene.joined(ticket)
    assert joined.skip_assignment
    assert joined.leader_id == joined.member_id != leader
    assert {instance for _, instance, _ in joined.members} == {"a", "b"}


def test_a_restarted_leader_of_an_old_version_is_told_that_its_old_id_leads() -> None:
    scene = Scene()
    leader, _ = scene.stable(instances=("a", "b"))
    ticket = scene.join(instance="a", can_skip=False)
    scene.persist()
    joined = scene.joined(ticket)
    assert not joined.skip_assignment
    assert (joined.leader_id, joined.members) == (leader, ())
    assert scene.group.member_table.leader_id == joined.member_id


def test_a_new_choice_of_protocol_is_worth_a_rebalance() -> None:
    scene = Scene()
    both = (("range", b""), ("sticky", b""))
    scene.join(instance="a", protocols=both)
    scene.join(instance="b", protocols=both)
    scene.pass_time(GATHERING_MS)
    scene.share_out(list(scene.group.member_table.members))
    assert scene.group.protocol_name == "range"
    scene.join(instance="a", protocols=(("sticky", b""), ("range", b"")))
    scene.persist()
    assert scene.group.describe().state == "Stable"  # a draw: the eldest prefers range still
    scene.join(instance="b", protocols=(("sticky", b""), ("range", b"")))
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_a_replacement_that_cannot_be_stored_is_undone() -> None:
    scene = Scene()
    (old,) = scene.stable(instances=("a",))
    ticket = scene.join(instance="a")
    scene.fail_to_persist()
    assert scene.joined(ticket).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.heartbeat(old, instance="a") is ErrorCode.NONE


def test_a_rebalance_takes_over_a_replacement_on_its_way_to_the_disk() -> None:
    scene = Scene()
    _, follower = scene.stable(instances=("a", "b"))
    ticket = scene.join(instance="a")
    scene.join(follower, instance="b", protocols=(("range", b"changed"),))
    assert scene.joined(ticket).generation_id == 2
    scene.persist()
    assert scene.joined(ticket).generation_id == 2


def test_replacing_twice_before_the_disk_answers_once_each() -> None:
    scene = Scene()
    scene.stable(instances=("a",))
    first, second = scene.join(instance="a"), scene.join(instance="a")
    assert scene.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    scene.persist()
    assert scene.joined(second).error is ErrorCode.NONE


def test_a_restart_during_the_assignment_rebalances_again() -> None:
    scene = Scene()
    tickets = [scene.join(instance="a"), scene.join(instance="b")]
    scene.pass_time(GATHERING_MS)
    leader, _ = (scene.joined(ticket).member_id for ticket in tickets)
    waits = scene.sync(leader, {leader: b"all"}, instance="a")
    scene.join(instance="b")
    assert scene.synced(waits).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_an_absent_static_member_keeps_its_place_through_a_rebalance() -> None:
    scene = Scene()
    long_ms = 2 * REBALANCE_MS
    first, second = scene.join(instance="a", session_ms=long_ms), scene.join(session_ms=long_ms)
    scene.pass_time(GATHERING_MS)
    absent, present = scene.joined(first).member_id, scene.joined(second).member_id
    scene.share_out([absent, present])
    again = scene.join(present, protocols=(("range", b"changed"),))
    scene.pass_time(REBALANCE_MS)
    joined = scene.joined(again)
    assert {member_id for member_id, _, _ in joined.members} == {absent, present}
    assert joined.leader_id == present
    scene.pass_time(long_ms)
    assert absent not in scene.group.member_table.members


def test_if_only_absent_static_members_are_left_their_sessions_decide() -> None:
    scene = Scene()
    scene.join(instance="a", session_ms=4 * REBALANCE_MS)
    dynamic = scene.join(session_ms=4 * REBALANCE_MS)
    scene.pass_time(GATHERING_MS)
    scene.share_out(list(scene.group.member_table.members))
    scene.leave(Leaver(scene.joined(dynamic).member_id))
    scene.pass_time(2 * REBALANCE_MS)
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    back = scene.join(instance="a")
    assert scene.joined(back).generation_id == 2


def test_a_newcomer_waits_for_absent_static_members_no_longer_than_a_rebalance_lasts() -> None:
    scene = Scene()
    hours_ms, short_ms = 4 * REBALANCE_MS, 400
    scene.join(instance="a", session_ms=hours_ms, rebalance_ms=short_ms)
    dynamic = scene.join(session_ms=hours_ms, rebalance_ms=short_ms)
    scene.pass_time(GATHERING_MS)
    scene.share_out(list(scene.group.member_table.members))
    scene.leave(Leaver(scene.joined(dynamic).member_id))
    scene.pass_time(short_ms)  # nobody came
    newcomer = scene.join(session_ms=hours_ms, rebalance_ms=short_ms)
    scene.pass_time(short_ms)
    assert scene.joined(newcomer).generation_id == 2
    assert len(scene.joined(newcomer).members) == 2


def test_an_administrator_removes_a_static_member_by_instance() -> None:
    scene = Scene()
    first, _ = scene.stable(instances=("a", "b"))
    assert scene.leave(Leaver("", "b")) == (ErrorCode.NONE,)
    assert list(scene.group.member_table.members) == [first]


def test_a_static_member_that_stays_silent_is_expelled() -> None:
    scene = Scene()
    scene.stable(instances=("a",))
    scene.pass_time(SESSION_MS)
    assert scene.group.state is GroupState.EMPTY


def test_a_handed_out_id_is_not_for_an_instance() -> None:
    scene = Scene()
    offered = scene.joined(scene.join(knows_id=False)).member_id
    assert scene.joined(scene.join(offered, instance="a")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_before_the_member_could_speak_keeps_its_join_waiting() -> None:
    scene = Scene()
    scene.stable(1)
    scene.join(instance="a", rebalance_ms=10 * REBALANCE_MS)
    waits = scene.join(instance="a", rebalance_ms=10 * REBALANCE_MS)
    scene.pass_time(SETTINGS.new_member_join_timeout_ms - 1)
    assert not scene.waits(waits)  # the silent dynamic member went, and the barrier closed
    assert scene.joined(waits).error is ErrorCode.NONE
