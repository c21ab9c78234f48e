"""A streams group: topology and topics first, then tasks; every task active once; epochs; fencing; restarts."""

from dataclasses import replace

import pytest
from tests.unit.groups.stage import topic_id
from tests.unit.groups.streams.play import (
    NO_TASKS,
    SESSION_MS,
    WORD_COUNT,
    Client,
    Play,
    active,
    settings,
    settle,
)

from hutong.groups.assigned.messages import LEAVING, Removal, Remove, RemoveReply
from hutong.groups.assigned.states import AssignedGroupState
from hutong.groups.streams.messages import TaskRole
from hutong.groups.streams.topics import NewTopic, StatusCode
from hutong.groups.streams.topology import Subtopology, Topology
from hutong.wire.kafka.error_codes import ErrorCode

ALL = active("0", 0, 1, 2, 3) | active("1", 0, 1, 2, 3)


def codes(play: Play, member_id: str, epoch: int) -> list[StatusCode]:
    return [each.code for each in play.beat(member_id, epoch).status]


# ---- from the topology to tasks


def test_the_first_member_gets_every_task() -> None:
    play = Play.counting()
    reply = play.join("a")
    assert (reply.error, reply.epoch, reply.assignment, reply.status) == (ErrorCode.NONE, 1, ALL, ())
    assert reply.heartbeat_interval_ms == 5_000
    assert play.beat("a", 1).assignment is None
    assert play.group.state is AssignedGroupState.STABLE


def test_missing_internal_topics_are_asked_for_and_waited_for() -> None:
    play = Play(lines=3)
    reply = play.join("a")
    assert reply.assignment == NO_TASKS
    assert [each.code for each in reply.status] == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert reply.to_create == (NewTopic("by-word", 3, 0, ()), NewTopic("counts-changelog", 3, 0, ()))
    assert play.group.describe().state == AssignedGroupState.NOT_READY
    assert reply.heartbeat_interval_ms == 500, "a member that waits for its first tasks asks again soon"
    play.create(reply)
    assert play.beat("a", reply.epoch).assignment == active("0", 0, 1, 2) | active("1", 0, 1, 2)
    assert play.group.state is AssignedGroupState.STABLE


def test_a_missing_source_topic_is_named_until_it_is_there() -> None:
    play = Play()
    reply = play.join("a")
    assert [(each.code, each.detail) for each in reply.status] == [
        (StatusCode.MISSING_SOURCE_TOPICS, "Source topics lines are missing.")
    ]
    assert (reply.to_create, reply.heartbeat_interval_ms) == ((), 5_000)
    play.set_topic("lines", 2)
    play.create(play.beat("a", reply.epoch))
    assert play.beat("a", play.group.members["a"].epoch).assignment == active("0", 0, 1) | active("1", 0, 1)


def test_tasks_are_taken_back_when_a_topic_goes() -> None:
    play = Play.counting()
    client = Client(play, "a", "p")
    settle(client)
    play.delete_topic("lines")
    settle(client)
    assert client.owned == NO_TASKS
    assert play.group.state is AssignedGroupState.NOT_READY


def test_the_first_member_waits_for_others_a_moment() -> None:
    play = Play.counting(settings(delay_ms=500))
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    reply = first.beat()
    assert reply.epoch == 1, "epoch 0 would mean that it is no member"
    assert reply.assignment == NO_TASKS
    assert [each.code for each in reply.status] == [StatusCode.ASSIGNMENT_DELAYED]
    second.beat()
    play.pass_time(500)
    settle(first, second)
    assert len(first.owned) == len(second.owned) == 4
    assert not any("revoke" in note for note in play.notes)


# ---- reconciliation


def test_a_task_moves_when_it_has_been_given_up_and_not_before() -> None:
    play = Play.counting()
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first)
    assert second.beat().assignment == NO_TASKS
    told = first.beat().assignment
    assert told is not None
    assert len(told) == 4
    assert second.beat().assignment is None, "the first one still runs what it has to give up"
    first.obey()
    first.beat()
    assert second.beat().assignment == ALL - told
    settle(first, second)
    assert first.owned | second.owned == ALL
    assert play.group.state is AssignedGroupState.STABLE


def test_standbys_are_on_other_processes() -> None:
    play = Play.counting(settings(standbys=1))
    clients = [Client(play, "a", "p"), Client(play, "b", "q")]
    settle(*clients)
    for client in clients:
        running = {(name, index) for role, name, index in client.owned if role is TaskRole.ACTIVE}
        copied = {(name, index) for role, name, index in client.owned if role is TaskRole.STANDBY}
        assert not running & copied
        assert all(name == "1" for name, _ in copied), "only tasks with state have copies"
    assert sum(role is TaskRole.STANDBY for client in clients for role, _, _ in client.owned) == 4


def test_a_standby_becomes_active_when_its_task_is_orphaned() -> None:
    play = Play.counting(settings(standbys=1))
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first, second)
    play.beat("a", LEAVING)
    settle(second)
    assert second.owned == ALL


def test_more_standbys_begin_a_new_assignment() -> None:
    play = Play.counting()
    clients = [Client(play, "a", "p"), Client(play, "b", "q")]
    settle(*clients)
    play.group.times = settings(standbys=1).rules
    settle(*clients)
    assert sum(role is TaskRole.STANDBY for client in clients for role, _, _ in client.owned) == 4


# ---- leaving


def test_a_silent_member_loses_its_tasks() -> None:
    play = Play.counting()
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first, second)
    play.pass_time(SESSION_MS - 1)
    second.beat()
    play.pass_time(1)
    settle(second)
    assert second.owned == ALL
    assert play.beat("a", first.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    play = Play.counting()
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first)
    second.beat()
    first.beat()
    for _ in range(7):
        play.pass_time(5_000)
        play.beat("a", first.epoch)
        second.beat()
    settle(second)
    assert second.owned == ALL


def test_an_administrator_removes_a_member() -> None:
    play = Play.counting()
    settle(Client(play, "a", "p"))
    reply = play.tell(Remove(1, play.now_ms, (Removal("a"), Removal("nobody"))))
    assert reply == RemoveReply((ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID))
    assert play.group.state is AssignedGroupState.EMPTY


def test_a_member_ends_the_whole_application() -> None:
    play = Play.counting()
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first, second)
    play.beat("a", first.epoch, shuts_down=True)
    assert codes(play, "b", second.epoch) == [StatusCode.SHUTDOWN_APPLICATION]
    play.beat("a", LEAVING)
    play.beat("b", LEAVING)
    assert play.join("c").status == (), "the next start of the application is not ended"


# ---- topologies


def test_an_older_topology_is_told_so_and_another_one_of_its_epoch_is_refused() -> None:
    newer = replace(WORD_COUNT, epoch=2)
    play = Play.counting()
    play.join("a", topology=newer)
    old = play.join("b")
    assert old.error is ErrorCode.NONE
    assert StatusCode.STALE_TOPOLOGY in [each.code for each in old.status]
    other = Topology(2, (Subtopology("0", source_topics=("lines",)),))
    assert play.join("c", topology=other).error is ErrorCode.INVALID_REQUEST
    assert play.join("d", topology=replace(WORD_COUNT, epoch=9)).error is ErrorCode.INVALID_REQUEST
    assert set(play.group.members) == {"a", "b"}


def test_an_empty_group_takes_another_topology() -> None:
    play = Play.counting()
    play.join("a")
    play.beat("a", LEAVING)
    other = Topology(0, (Subtopology("only", source_topics=("lines",)),))
    assert play.join("b", topology=other).assignment == active("only", 0, 1, 2, 3)


# ---- fencing


@pytest.mark.parametrize("epoch", [7, 2**31 - 1])
def test_an_epoch_from_the_future_is_fenced(epoch: int) -> None:
    play = Play.counting()
    play.join("a")
    assert play.beat("a", epoch).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert play.beat("nobody", epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_previous_epoch_is_taken_from_a_member_that_lost_a_reply() -> None:
    play = Play.counting()
    client = Client(play, "a", "p")
    settle(client)
    play.set_topic("lines", 4)
    Client(play, "b", "q").beat()
    client.beat()
    client.obey()
    before = client.epoch
    client.beat(loses_reply=True)
    assert play.group.members["a"].epoch > before
    reply = play.beat("a", before, owned=client.owned)
    assert reply.error is ErrorCode.NONE
    assert play.beat("a", before, owned=ALL).error is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("owned", [active("0", 4), active("0", -1), active("other", 0)])
def test_a_task_that_there_is_not_is_refused(owned: frozenset[tuple[TaskRole, str, int]]) -> None:
    play = Play.counting()
    play.join("a")
    assert play.beat("a", 1, owned=owned).error is ErrorCode.INVALID_REQUEST


def test_a_member_stays_in_its_process() -> None:
    play = Play.counting()
    play.join("a", process="p")
    assert play.beat("a", 1, process_id="q").error is ErrorCode.INVALID_REQUEST
    assert play.join("a", process="p").assignment == ALL


def test_a_full_group_refuses_one_more() -> None:
    play = Play.counting()
    for number in range(20):
        assert play.join(f"m{number}").error is ErrorCode.NONE
    assert play.join("one more").error is ErrorCode.GROUP_MAX_SIZE_REACHED


# ---- commits


def test_a_commit_is_taken_for_tasks_since_the_epoch_in_which_they_were_given() -> None:
    play = Play.counting()
    first, second = Client(play, "a", "p"), Client(play, "b", "q")
    settle(first)
    old = first.epoch
    settle(first, second)
    kept = next(index for role, name, index in sorted(first.owned) if name == "0")
    moved = next(index for role, name, index in sorted(second.owned) if name == "0")

    def commit(epoch: int, *partitions: int, topic: str = "lines") -> ErrorCode:
        asked = [(topic_id(topic), index) for index in partitions]
        return play.group.check_commit("a", epoch, asked, 9)

    assert commit(first.epoch, kept, moved) is ErrorCode.NONE
    assert commit(old, kept) is ErrorCode.NONE
    assert commit(old, kept, moved) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(old, 0, topic="elsewhere") is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(first.epoch + 1, kept) is ErrorCode.STALE_MEMBER_EPOCH
    assert play.group.check_commit("nobody", 1, [], 9) is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.group.check_commit("a", 1, [], 8) is ErrorCode.UNSUPPORTED_VERSION
    assert play.group.check_offset_fetch("a", old) is ErrorCode.STALE_MEMBER_EPOCH


# ---- restarts


def test_a_restart_finds_topology_members_and_tasks() -> None:
    play = Play.counting(settings(standbys=1))
    clients = [Client(play, "a", "p"), Client(play, "b", "q")]
    settle(*clients)
    described = play.group.describe()
    play.restart()
    assert play.group.describe() == described
    assert play.beat("a", clients[0].epoch).assignment is None


def test_topics_that_changed_while_the_node_was_down_begin_an_epoch() -> None:
    play = Play.counting()
    client = Client(play, "a", "p")
    settle(client)
    play.catalogue.remove("lines")
    play.restart()
    settle(client)
    assert client.owned == NO_TASKS


# ---- interactive queries


def test_endpoints_tell_which_partitions_each_client_has() -> None:
    play = Play.counting(lines=2)
    first = play.join("a", endpoint=("host-a", 80))
    assert first.endpoints is not None
    assert [(each.endpoint, each.active, each.standby) for each in first.endpoints] == [
        (("host-a", 80), {"lines": (0, 1), "by-word": (0, 1)}, {})
    ]
    again = play.beat("a", 1, endpoint_epoch=first.endpoint_epoch)
    assert again.endpoints is None
