"""The coordinator: parks callers, arms timers, writes records, and restores groups from them after a restart."""

import logging
from dataclasses import replace

import pytest
from tests.unit.groups.stage import RETENTION_MS, SESSION_MS, SETTINGS, SUBSCRIPTION, Stage

from hutong.foundation.errors import DiskFull, HutongError, Refused
from hutong.foundation.waiting.table import Owner
from hutong.groups.classic.messages import JoinReply, Leaver, LeaveReply, SyncReply
from hutong.groups.classic.states import GroupState
from hutong.groups.offsets.offset_log import Change
from hutong.groups.requests import GroupCaller
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from hutong.wire.kafka.error_codes import ErrorCode

# ---- waiting


def test_a_join_waits_for_the_timer_and_a_sync_for_the_disk() -> None:
    stage = Stage()
    (offered,) = stage.join()
    assert offered.error is ErrorCode.MEMBER_ID_REQUIRED
    assert offered.member_id == "app-00000000-0000-4000-8000-000000000001"
    replies = stage.join(offered.member_id)
    stage.pass_time(99)
    assert replies == []
    stage.pass_time(20)
    assert replies[0].generation_id == 1
    stage.state.holds_back = True
    synced = stage.sync(replies[0])
    assert synced == []
    stage.state.flush()
    assert synced[0].assignment == b"share"


def test_who_hangs_up_is_not_answered_again() -> None:
    stage = Stage()
    (offered,) = stage.join()
    owner = Owner()
    replies = stage.join(offered.member_id, owner=owner)
    owner.end()
    assert [reply.error for reply in replies] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    stage.pass_time(300)
    assert len(replies) == 1


def test_closing_answers_everyone_who_waits() -> None:
    stage = Stage()
    (offered,) = stage.join()
    replies = stage.join(offered.member_id)
    stage.groups.close()
    assert [reply.error for reply in replies] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    stage.offsets.close()
    assert len(stage.wheel) == 0
    assert stage.join()[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_only_so_many_requests_wait_at_a_time() -> None:
    stage = Stage(replace(SETTINGS, waits_max=1))
    first, second = stage.join()[0], stage.join()[0]
    assert stage.join(first.member_id) == []
    assert stage.join(second.member_id)[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_session_ends_by_the_clock() -> None:
    stage = Stage()
    member = stage.member()
    stage.pass_time(SESSION_MS - 100)
    assert stage.heartbeat(member) is ErrorCode.NONE
    stage.pass_time(SESSION_MS - 100)
    assert stage.heartbeat(member) is ErrorCode.NONE
    stage.pass_time(SESSION_MS + 10)
    assert stage.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [group.state for group in stage.groups] == [GroupState.EMPTY]


# ---- bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 5_000}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_instance_id": "i" * 5_000}, ErrorCode.INVALID_REQUEST),
        ({"protocols": [JoinGroupRequestProtocol("range", bytes(2**20 + 1))]}, ErrorCode.INVALID_REQUEST),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_makes_no_sense_is_refused_and_leaves_no_group(change: dict[str, object], error: ErrorCode) -> None:
    stage = Stage()
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=SESSION_MS, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("r")]
    )
    for name, value in change.items():
        setattr(request, name, value)
    replies: list[JoinReply] = []
    stage.groups.join(request, GroupCaller(9, "app", "/127.0.0.1", Owner()), replies.append)
    assert [reply.error for reply in replies] == [error]
    assert len(stage.groups) == 0


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (SyncGroupRequest(""), ErrorCode.INVALID_GROUP_ID),
        (SyncGroupRequest("g"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),  # KIP-559 makes both fields mandatory
        (SyncGroupRequest("g", protocol_type="t", protocol_name="n"), ErrorCode.UNKNOWN_MEMBER_ID),
        (
            SyncGroupRequest(
                "g", protocol_type="t", protocol_name="n", assignments=[SyncGroupRequestAssignment("m", bytes(2**22))]
            ),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_sync_that_makes_no_sense_is_refused(request_: SyncGroupRequest, error: ErrorCode) -> None:
    replies: list[SyncReply] = []
    Stage().groups.sync(request_, GroupCaller(5, "app", "/127.0.0.1", Owner()), replies.append)
    assert [reply.error for reply in replies] == [error]


def test_an_unknown_group_has_no_members() -> None:
    stage = Stage()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.groups.heartbeat(HeartbeatRequest("g", 1, "m", None)) is unknown
    assert stage.groups.heartbeat(HeartbeatRequest("", 1, "m", None)) is ErrorCode.INVALID_GROUP_ID
    replies: list[LeaveReply] = []
    stage.groups.leave("g", [Leaver("m"), Leaver("n")], replies.append)
    assert replies == [LeaveReply((unknown, unknown))]


def test_an_id_that_is_never_used_leaves_no_group_behind() -> None:
    stage = Stage()
    stage.join()
    assert len(stage.groups) == 1
    stage.pass_time(SESSION_MS + 10)
    assert len(stage.groups) == 0


def test_there_is_a_bound_on_groups(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(replace(SETTINGS, groups_max=1))
    stage.member()
    with caplog.at_level(logging.WARNING):
        assert stage.join(group_id="h")[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.commit(stage.change(1, group_id="h"), group_id="h") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert "group h is refused" in caplog.text


def test_a_flood_of_ids_that_are_never_used_leaves_room_for_others() -> None:
    stage = Stage(replace(SETTINGS, groups_max=100, pending_members_per_client_max=20))
    request = JoinGroupRequest(
        session_timeout_ms=SETTINGS.session_timeout_ms_max,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
    )
    replies: list[JoinReply] = []
    for number in range(200):
        request.group_id = f"flood-{number}"
        stage.groups.join(request, GroupCaller(9, str(number), "/10.0.0.1", Owner(), "10.0.0.1"), replies.append)
    assert {reply.error for reply in replies} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert len(stage.groups) == 20
    assert stage.member().error is ErrorCode.NONE
    stage.pass_time(SETTINGS.pending_member_timeout_ms)
    assert len(stage.groups) == 1, "handed-out ids lapse soon, whatever session their client asks for"


def test_a_flood_of_groups_leaves_room_for_others() -> None:
    stage = Stage(replace(SETTINGS, groups_max=100))
    codes: list[ErrorCode] = []
    for number in range(200):
        group_id = f"flood-{number}"
        stage.groups.commit(group_id, [stage.change(1, group_id=group_id)], codes.append, "10.0.0.1")
    assert (codes.count(ErrorCode.NONE), len(stage.groups)) == (75, 75)
    assert stage.member().error is ErrorCode.NONE
    assert stage.delete("flood-0") == [ErrorCode.NONE]
    stage.groups.commit("flood-new", [stage.change(1, group_id="flood-new")], codes.append, "10.0.0.1")
    assert codes[-1] is ErrorCode.NONE, "what was deleted is free"


# ---- offsets


def test_a_commit_is_answered_and_seen_when_it_is_durable() -> None:
    stage = Stage()
    member = stage.member()
    stage.state.holds_back = True
    codes = stage.commit(stage.change(42), by=member)
    assert (codes, stage.offset()) == ([], None)
    stage.state.flush()
    assert (codes, stage.offset()) == ([ErrorCode.NONE], 42)


def test_what_is_not_durable_is_gone_after_a_crash() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    stage.state.holds_back = True
    stage.commit(stage.change(2))
    stage.restart()
    assert stage.offset() == 1


def test_a_commit_that_cannot_be_stored_changes_nothing() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    # The second is what a journal answers while its disk is full.
    for failure in (DiskFull("no space"), Refused(ErrorCode.KAFKA_STORAGE_ERROR)):
        stage.state.failure = failure
        assert stage.commit(stage.change(2)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    stage.state.failure = Refused(ErrorCode.MESSAGE_TOO_LARGE)
    assert stage.commit(stage.change(2)) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert stage.offset() == 1


def test_commits_outside_a_group_are_for_those_without_a_generation() -> None:
    stage = Stage()
    assert stage.groups.commit_error("g", "m", None, 5) is ErrorCode.ILLEGAL_GENERATION
    assert stage.groups.commit_error("", "", None, -1) is ErrorCode.NONE
    assert stage.groups.commit_error("g" * 5_000, "", None, -1) is ErrorCode.INVALID_GROUP_ID
    assert stage.commit(stage.change(3)) == [ErrorCode.NONE]
    (group,) = stage.groups
    assert (group.state, group.protocol_type) == (GroupState.EMPTY, "")


def test_there_is_a_bound_on_what_members_take_up_and_groups_go_on_at_it() -> None:
    one = Stage()
    one.member()
    held = one.groups._memory.held_bytes
    stage = Stage(replace(SETTINGS, groups_bytes_max=held + 10))
    joined = stage.member()
    (refused,) = stage.join(group_id="h")
    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.sync(joined, share=b"a larger share than before")[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.sync(joined)[0].error is ErrorCode.NONE
    stage.restart()
    assert stage.groups._memory.held_bytes >= held - 10, "taken up again"
    stage.pass_time(2 * SESSION_MS)
    assert stage.groups._memory.held_bytes == 0, "sessions end"
    assert stage.join(group_id="h")[0].error is ErrorCode.MEMBER_ID_REQUIRED


def test_there_is_a_bound_on_offsets() -> None:
    stage = Stage(replace(SETTINGS, offsets_max=1))
    assert stage.commit(stage.change(1), stage.change(1, "other")) == [ErrorCode.POLICY_VIOLATION]
    assert stage.commit(stage.change(1)) == [ErrorCode.NONE]


def test_offsets_of_one_client_leave_room_for_others() -> None:
    stage = Stage(replace(SETTINGS, offsets_max=20))
    stage.topics |= {f"t{number}" for number in range(20)}

    def commit(group_id: str, topic: str, holder: str) -> ErrorCode:
        codes: list[ErrorCode] = []
        stage.groups.commit(group_id, [stage.change(1, topic, group_id)], codes.append, holder)
        return codes[0]

    codes = [commit(f"flood-{number % 3}", f"t{number}", "flood") for number in range(20)]
    assert codes == [ErrorCode.NONE] * 15 + [ErrorCode.POLICY_VIOLATION] * 5
    assert commit("own", "orders", "other") is ErrorCode.NONE
    assert commit("flood-0", "t0", "flood") is ErrorCode.NONE, "what adds nothing passes"
    assert stage.delete("flood-0") == [ErrorCode.NONE]
    assert commit("flood-1", "t19", "flood") is ErrorCode.NONE, "what was deleted is free"


def test_at_the_bound_known_offsets_go_on() -> None:
    stage = Stage(replace(SETTINGS, offsets_max=1))
    assert stage.commit(stage.change(1)) == [ErrorCode.NONE]
    assert stage.commit(stage.change(2)) == [ErrorCode.NONE]
    assert stage.commit(stage.change(2), stage.change(1, "other")) == [ErrorCode.POLICY_VIOLATION]
    assert stage.offset() == 2


def test_there_is_a_bound_on_what_is_said_besides_offsets() -> None:
    stage = Stage(replace(SETTINGS, offset_notes_bytes_max=10))

    def noted(note: str, topic: str = "orders") -> Change:
        key, committed = stage.change(1, topic)
        assert committed is not None
        return key, replace(committed, metadata=note)

    assert stage.commit(noted("12345678")) == [ErrorCode.NONE]
    assert stage.commit(noted("123", "other")) == [ErrorCode.POLICY_VIOLATION]
    assert stage.commit(noted("12345678")) == [ErrorCode.NONE], "no more than before"
    assert stage.commit(noted("1")) == [ErrorCode.NONE]
    assert stage.commit(noted("123", "other")) == [ErrorCode.NONE]
    stage.restart()
    assert stage.groups.offsets.table.notes_bytes == 4
    stage.offsets.forget_topic("other")
    assert stage.groups.offsets.table.notes_bytes == 1


def test_offsets_of_a_deleted_topic_are_forgotten_for_good() -> None:
    stage = Stage()
    stage.commit(stage.change(1), stage.change(2, "other"))
    stage.commit(stage.change(3, group_id="h"), group_id="h")
    stage.offsets.forget_topic("orders")
    assert (stage.offset(), stage.offset("other"), stage.offset(group_id="h")) == (None, 2, None)
    stage.restart()
    assert (stage.offset(), stage.offset("other"), stage.offset(group_id="h")) == (None, 2, None)


def test_offsets_of_a_topic_that_a_crash_took_are_forgotten_at_start() -> None:
    stage = Stage()
    stage.commit(stage.change(1), stage.change(2, "other"))
    stage.topics.discard("orders")
    stage.restart()
    assert (stage.offset(), stage.offset("other")) == (None, 2)


# ---- restart


def test_members_go_on_after_a_restart_without_a_rebalance() -> None:
    stage = Stage()
    member = stage.member()
    stage.commit(stage.change(7), by=member)
    stage.restart()
    assert stage.heartbeat(member) is ErrorCode.NONE
    assert stage.commit(stage.change(8), by=member) == [ErrorCode.NONE]
    assert stage.sync(member)[0].assignment == b"share"
    stage.pass_time(SESSION_MS + 10)
    assert stage.heartbeat(member) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_emptied_group_is_empty_after_a_restart_and_ages_from_when_it_was_emptied() -> None:
    stage = Stage()
    member = stage.member()
    stage.commit(stage.change(7), by=member)
    stage.pass_time(SESSION_MS + 10)
    stage.restart()
    assert [group.state for group in stage.groups] == [GroupState.EMPTY]
    stage.pass_time(RETENTION_MS - SESSION_MS)
    assert stage.offset() == 7
    stage.pass_time(SETTINGS.offsets_retention_check_interval_ms + SESSION_MS)
    assert stage.offset() is None
    assert len(stage.groups) == 0


@pytest.mark.parametrize("failure", [DiskFull("no space"), Refused(ErrorCode.KAFKA_STORAGE_ERROR, "no space")])
def test_a_group_that_cannot_be_stored_tries_again(caplog: pytest.LogCaptureFixture, failure: HutongError) -> None:
    stage = Stage()
    (offered,) = stage.join()
    replies = stage.join(offered.member_id)
    stage.pass_time(300)
    stage.state.failure = failure
    assert stage.sync(replies[0])[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "group g could not be stored: no space" in caplog.text
    stage.state.failure = None
    (again,) = stage.join(offered.member_id)
    assert again.generation_id == 2
    assert stage.sync(again)[0].error is ErrorCode.NONE


# ---- retention


def test_a_living_group_keeps_what_it_reads_and_loses_what_it_does_not() -> None:
    stage = Stage()
    member = stage.member()
    stage.commit(stage.change(1), stage.change(2, "other"), by=member)
    for _ in range(2 * RETENTION_MS // SESSION_MS):
        stage.pass_time(SESSION_MS - 100)
        assert stage.heartbeat(member) is ErrorCode.NONE
    assert (stage.offset(), stage.offset("other")) == (1, None)


def test_a_group_without_members_goes_with_its_last_offset() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    stage.pass_time(RETENTION_MS - 1)
    assert len(stage.groups) == 1
    stage.pass_time(SETTINGS.offsets_retention_check_interval_ms + 10)
    assert len(stage.groups) == 0
    stage.restart()
    assert len(stage.groups) == 0


# ---- deletion


def test_an_empty_group_is_deleted_for_good() -> None:
    stage = Stage()
    member = stage.member()
    stage.commit(stage.change(1), by=member)
    assert stage.delete() == [ErrorCode.NON_EMPTY_GROUP]
    stage.groups.leave("g", [Leaver(member.member_id)], lambda _reply: None)
    assert stage.delete() == [ErrorCode.NONE]
    assert stage.delete() == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert stage.delete("g" * 5_000) == [ErrorCode.INVALID_GROUP_ID]
    stage.restart()
    assert (len(stage.groups), stage.offset()) == (0, None)


def test_a_group_with_many_offsets_is_deleted_piece_by_piece() -> None:
    stage = Stage()
    for first in range(0, 2_500, 500):
        stage.commit(*(stage.change(1, f"topic {number}") for number in range(first, first + 500)))
    assert stage.delete() == [ErrorCode.NONE]
    assert len(stage.groups.offsets.table) == 0
    assert len(stage.groups) == 0


def test_a_commit_during_the_deletion_keeps_the_group() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    stage.state.holds_back = True
    deleted = stage.delete()
    committed = stage.commit(stage.change(2))
    stage.state.flush()
    assert (deleted, committed) == ([ErrorCode.NONE], [ErrorCode.NONE])
    assert stage.offset() == 2
    assert len(stage.groups) == 1


def test_a_member_that_comes_during_the_deletion_keeps_the_group() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    stage.state.holds_back = True
    deleted = stage.delete()
    (offered,) = stage.join()
    replies = stage.join(offered.member_id)
    stage.state.holds_back = False
    stage.state.flush()
    stage.pass_time(300)
    assert deleted == [ErrorCode.NONE]
    assert stage.sync(replies[0])[0].error is ErrorCode.NONE
    stage.restart()
    assert stage.heartbeat(replies[0]) is ErrorCode.NONE


def test_deleting_twice_at_once_ends_once() -> None:
    stage = Stage()
    stage.commit(stage.change(1))
    stage.state.holds_back = True
    first, second = stage.delete(), stage.delete()
    stage.state.flush()
    assert first == second == [ErrorCode.NONE]
    assert len(stage.groups) == 0
