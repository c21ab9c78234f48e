"""The controller, as transcripts: who lives, who proposes, who is asked, and what the groups are then."""

from collections import Counter

import pytest
from tests.unit.cluster.controller.scene import Scene

from hutong.cluster.controller.commands import (
    BalanceGroups,
    CommandReply,
    DrainNode,
    ElectPreferred,
    ElectUnclean,
    ForgetNode,
    HandOverLeaders,
    MoveGroup,
    ShowStatus,
    UndrainNode,
)
from hutong.cluster.controller.handovers import YIELD_MS_MAX
from hutong.cluster.controller.machine import HOLD_MS_MAX
from hutong.cluster.controller.messages import (
    CommandAsked,
    LiveNode,
    ProposalReply,
    ReplicaFailed,
    ReplicaShort,
    Yielded,
)
from hutong.cluster.nodes import DiskSpace
from hutong.cluster.records import FoundingSettings, PlannedMove
from hutong.replication.group_state import NO_LEADER
from hutong.wire.kafka.error_codes import ErrorCode

NAMES = ("days", "days-1", "days-2", "hours", "offsets", "transactions")


def founded(names: tuple[str, ...] = ("days",), **settings: int) -> Scene:
    scene = Scene(names, **settings)
    scene.nodes(n1=10, n2=20, n3=30)
    return scene


def members(scene: Scene, name: str = "days") -> tuple[int, set[int], set[int]]:
    state = scene.state(name)
    return state.leader, set(state.in_sync), set(state.eligible)


# ---- founding


def test_groups_are_founded_on_the_live_nodes_with_their_leaders_spread() -> None:
    scene = founded(NAMES)
    assert sorted(scene.leaders().values()) == [1, 1, 2, 2, 3, 3]
    assert all(state.in_sync == {1, 2, 3} and state.min_in_sync == 2 for state in scene.image.groups.values())
    assert scene.image.settings == FoundingSettings()
    assert set(scene.image.nodes) == {1, 2, 3}


def test_a_founded_cluster_keeps_its_settings_and_groups() -> None:
    scene = founded(replicas=2)
    before = scene.state("days")
    scene.settings, scene.names = FoundingSettings(replicas=1), ("days", "hours")
    scene.begin()
    scene.nodes(n1=10, n2=20, n3=30)
    assert scene.state("days") == before
    assert len(scene.state("hours").replicas) == 2
    assert scene.image.settings == FoundingSettings(replicas=2)


def test_nothing_is_decided_before_it_is_known_who_lives() -> None:
    scene = founded()
    scene.begin()
    assert scene.ask(ForgetNode(1)).error == ErrorCode.NOT_CONTROLLER
    ticket = scene.propose("days", [2])
    scene.wait(10_000)
    assert scene.reply(ticket) is None
    scene.nodes(n1=10, n2=20, n3=30)
    assert scene.reply(ticket) == ProposalReply(True, scene.state("days"))


def test_a_second_look_at_the_same_nodes_stores_nothing() -> None:
    scene = founded(NAMES)
    before = scene.stored_total
    scene.nodes(n1=10, n2=20, n3=30)
    assert scene.stored_total == before


def test_nodes_that_come_later_get_replicas_and_in_time_leaderships() -> None:
    scene = Scene(NAMES)
    scene.nodes(n1=10)
    assert set(scene.leaders().values()) == {1}
    assert all(state.min_in_sync == 1 for state in scene.image.groups.values())
    scene.nodes(n1=10, n2=20)
    scene.nodes(n1=10, n2=20, n3=30)
    assert all(set(state.replicas) == {1, 2, 3} and state.in_sync == {1} for state in scene.image.groups.values())
    assert set(scene.leaders().values()) == {1}
    scene.catch_up()
    assert all(state.min_in_sync == 2 for state in scene.image.groups.values())
    scene.wait(10_000)
    assert sorted(scene.leaders().values()) == [1, 1, 2, 2, 3, 3]


# ---- nodes go and come


def test_a_dead_leader_is_replaced_by_the_next_live_member() -> None:
    scene = founded()
    scene.nodes(n2=20, n3=30)
    state = scene.state("days")
    assert members(scene) == (2, {2, 3}, set())
    assert (state.epoch, state.leader_incarnation) == (2, 20)


def test_a_dead_follower_leaves_the_set_without_an_election() -> None:
    scene = founded()
    scene.nodes(n1=10, n2=20)
    assert members(scene) == (1, {1, 2}, set())
    assert scene.state("days").epoch == 1


def test_a_leader_that_has_begun_another_life_is_replaced() -> None:
    scene = founded()
    scene.nodes(n1=11, n2=20, n3=30)
    assert members(scene) == (2, {2, 3}, set())


def test_a_leader_that_began_another_life_unseen_is_replaced_by_the_next_controller() -> None:
    scene = founded()
    scene.begin()
    scene.nodes(n1=11, n2=20, n3=30)
    assert members(scene) == (2, {2, 3}, set())


def test_a_lone_member_leads_again_in_its_next_life() -> None:
    scene = Scene(("days",))
    scene.nodes(n1=10)
    scene.nodes(n1=11)
    state = scene.state("days")
    assert (members(scene), state.epoch, state.leader_incarnation) == ((1, {1}, set()), 2, 11)


def test_the_last_member_stays_and_an_eligible_node_may_lead() -> None:
    scene = founded()
    scene.nodes(n1=10, n2=20)
    scene.nodes(n1=10)
    assert members(scene) == (1, {1}, {2})
    scene.set_live({})
    assert members(scene) == (NO_LEADER, {1}, {2})
    scene.nodes(n3=31)
    assert members(scene) == (NO_LEADER, {1}, {2})
    scene.nodes(n2=21, n3=31)
    assert members(scene) == (2, {2}, {1})


def test_who_left_a_large_set_may_not_lead() -> None:
    scene = founded(min_in_sync=1)
    scene.nodes(n1=10, n2=20)
    scene.nodes(n1=10)
    assert members(scene) == (1, {1}, set())
    scene.nodes(n2=21, n3=31)
    assert members(scene) == (NO_LEADER, {1}, set())
    assert scene.ask(ElectUnclean("days", 1)).error == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert scene.ask(ElectUnclean("days", 3)).groups == {"days": (3,)}
    assert members(scene) == (3, {3}, set())
    assert scene.ask(ElectUnclean("days", 2)).error == ErrorCode.ELECTION_NOT_NEEDED


def test_when_all_come_back_at_once_one_leads_and_all_members_stay() -> None:
    scene = founded()
    scene.set_live({})
    assert members(scene) == (NO_LEADER, {1, 2, 3}, set())
    scene.nodes(n1=11, n2=21, n3=31)
    assert scene.state("days").leader != NO_LEADER
    scene.catch_up()
    assert scene.state("days").in_sync == {1, 2, 3}


def test_a_replica_that_failed_is_dead_for_its_group_until_its_node_is_restarted() -> None:
    scene = founded(NAMES)
    name = next(name for name, leader in scene.leaders().items() if leader == 1)
    before = scene.leaders()
    scene.feed(ReplicaFailed(1, 10, name, scene.now_ms))
    leader, in_sync, _ = members(scene, name)
    assert leader != 1
    assert in_sync == {2, 3}
    assert scene.leaders() == {**before, name: leader}
    # At once: until then the leader waits for its acknowledgements.
    ticket = scene.propose(name, {1, 2, 3} - {leader})
    assert scene.reply(ticket) == ProposalReply(False, scene.state(name))
    status = scene.ask(ShowStatus()).status
    assert status is not None
    assert [each.replicas_failed for each in status.nodes] == [1, 0, 0]
    scene.nodes(n1=11, n2=20, n3=30)
    scene.catch_up()
    assert members(scene, name)[1] == {1, 2, 3}


def test_a_leader_that_is_short_of_space_leads_no_more_while_another_member_has_some() -> None:
    scene = founded()
    scene.feed(ReplicaShort(1, 10, "days", True, scene.now_ms))
    leader, in_sync, _ = members(scene)
    assert (leader, in_sync) == (2, {2, 3})
    ticket = scene.propose("days", [1, 3])
    assert scene.reply(ticket) == ProposalReply(False, scene.state("days"))
    scene.feed(ReplicaShort(1, 10, "days", False, scene.now_ms))
    scene.propose("days", [1, 3])
    assert members(scene) == (2, {1, 2, 3}, set())
    scene.wait(2_000)
    assert members(scene)[0] == 1


def test_a_group_is_led_where_all_of_its_disks_are_full() -> None:
    scene = founded()
    for node, incarnation in ((1, 10), (2, 20), (3, 30)):
        scene.feed(ReplicaShort(node, incarnation, "days", True, scene.now_ms))
    assert members(scene) == (3, {3}, {2})
    scene.feed(ReplicaShort(1, 10, "days", False, scene.now_ms))
    # It may lack what is committed, until it has caught up.
    assert members(scene) == (3, {3}, {2})
    scene.propose("days", [1])
    assert members(scene) == (1, {1}, {3})
    # The next life of a node has a disk of its own to try.
    scene.nodes(n1=10, n2=20, n3=31)
    scene.propose("days", [3])
    assert members(scene)[1] == {1, 3}


# ---- proposals


def test_a_proposal_is_taken_once() -> None:
    scene = founded()
    version = scene.state("days").version
    first = scene.propose("days", [2])
    assert scene.reply(first) == ProposalReply(True, scene.state("days"))
    again = scene.propose("days", [2], version=version)
    assert scene.reply(again) == ProposalReply(False, scene.state("days"))
    assert members(scene) == (1, {1, 2}, set())


def test_a_proposal_of_one_who_does_not_lead_is_refused() -> None:
    scene = founded()
    reply = scene.reply(scene.propose("days", [3], node=2))
    assert reply == ProposalReply(False, scene.state("days"))


def test_eligible_nodes_are_forgotten_when_the_set_has_grown() -> None:
    scene = founded()
    scene.propose("days", [])
    assert members(scene) == (1, {1}, {2, 3})
    scene.propose("days", [3])
    assert members(scene) == (1, {1, 3}, set())


def test_a_proposal_with_an_unknown_life_waits_for_it() -> None:
    scene = founded()
    scene.propose("days", [2])
    ticket = scene.propose("days", {2: 20, 3: 31})
    assert scene.reply(ticket) is None
    scene.nodes(n1=10, n2=20, n3=31)
    assert scene.reply(ticket) == ProposalReply(True, scene.state("days"))
    assert members(scene) == (1, {1, 2, 3}, set())


def test_a_proposal_with_a_life_that_never_comes_is_refused_with_all_that_say_the_same() -> None:
    scene = founded()
    scene.propose("days", [2])
    tickets = [scene.propose("days", {2: 20, 3: 31})]
    scene.wait(HOLD_MS_MAX // 2)
    tickets.append(scene.propose("days", {2: 20, 3: 31}))
    scene.wait(HOLD_MS_MAX)
    for ticket in tickets:
        assert scene.reply(ticket) == ProposalReply(False, scene.state("days"))


def test_a_proposal_with_a_life_that_is_over_is_refused_at_once() -> None:
    """A node that stops leaves the coordinator first: its links show for a moment that it keeps up."""
    scene = founded()
    scene.nodes(n1=10, n2=20)
    ticket = scene.propose("days", {2: 20, 3: 30})
    assert scene.reply(ticket) == ProposalReply(False, scene.state("days"))
    scene.nodes(n1=10, n2=20, n3=30)
    assert scene.reply(scene.propose("days", {2: 20, 3: 30})) == ProposalReply(True, scene.state("days"))


def test_a_held_proposal_is_refused_when_another_leads() -> None:
    scene = founded()
    scene.propose("days", [2])
    ticket = scene.propose("days", {2: 20, 3: 31})
    scene.nodes(n2=20, n3=31)
    assert scene.reply(ticket) == ProposalReply(False, scene.state("days"))


# ---- leaders that hand over


def led_by_another() -> tuple[Scene, CommandAsked]:
    """A group that node 1 should lead again, and an operator's wish that it does."""
    scene = founded(NAMES, preferred_wait_ms=100_000)
    (name, *_) = [name for name, leader in scene.leaders().items() if leader == 1]
    scene.nodes(n2=20, n3=30)
    scene.nodes(n1=11, n2=20, n3=30)
    scene.catch_up()
    scene.do_yield = False
    return scene, CommandAsked(1_000_000, ElectPreferred((name,)), scene.now_ms)


def test_a_leader_hands_over_once_it_has_yielded() -> None:
    scene, asked = led_by_another()
    scene.feed(asked)
    (question,) = scene.asked
    state = scene.state(question.group)
    assert (question.epoch, question.node) == (state.epoch, state.leader)
    scene.feed(Yielded(question.group, question.epoch - 1, scene.now_ms))
    assert scene.state(question.group) == state
    assert not scene.replies.keys() & {asked.ticket}
    scene.feed(Yielded(question.group, question.epoch, scene.now_ms))
    assert scene.state(question.group).leader == 1
    assert scene.replies[asked.ticket] == CommandReply(groups={question.group: (1,)})


def test_a_leader_that_does_not_answer_is_not_waited_for_longer() -> None:
    scene, asked = led_by_another()
    scene.feed(asked)
    (question,) = scene.asked
    scene.wait(YIELD_MS_MAX - 1)
    assert scene.state(question.group).leader == question.node
    scene.wait(1)
    assert scene.state(question.group).leader == 1


def test_a_wish_that_is_gone_is_answered_and_a_later_one_asks_the_leader_anew() -> None:
    scene, asked = led_by_another()
    scene.feed(asked)
    scene.nodes(n2=20, n3=30)
    assert asked.ticket in scene.replies
    (question,) = scene.asked
    scene.feed(Yielded(question.group, question.epoch, scene.now_ms))
    scene.nodes(n1=12, n2=20, n3=30)
    scene.catch_up()
    scene.feed(CommandAsked(1_000_001, asked.command, scene.now_ms))
    assert len(scene.asked) == 2
    assert scene.state(question.group).leader == question.node


def test_leaders_of_a_drained_node_yield_first() -> None:
    scene = founded(NAMES)
    scene.do_yield = False
    before = scene.leaders()
    scene.ask(DrainNode(1))
    assert scene.leaders() == before
    assert {each.group for each in scene.asked} == {name for name, leader in before.items() if leader == 1}
    for each in scene.asked:
        scene.feed(Yielded(each.group, each.epoch, scene.now_ms))
    assert 1 not in scene.leaders().values()


def test_a_leader_that_leaves_with_a_move_yields_first() -> None:
    scene = founded()
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    scene.do_yield = False
    scene.ask(MoveGroup("days", (4, 2, 3)))
    scene.propose("days", [2, 3, 4])
    (question,) = scene.asked
    assert members(scene) == (1, {1, 2, 3, 4}, set())
    scene.feed(Yielded("days", question.epoch, scene.now_ms))
    assert members(scene) == (4, {2, 3, 4}, set())


# ---- preferred leaders


def test_leaderships_return_a_few_at_a_time_after_a_while() -> None:
    scene = founded(NAMES)
    before = scene.leaders()
    scene.nodes(n2=20, n3=30)
    assert 1 not in scene.leaders().values()
    scene.nodes(n1=11, n2=20, n3=30)
    scene.catch_up()
    scene.wait(999)
    assert 1 not in scene.leaders().values()
    scene.wait(1)
    assert list(scene.leaders().values()).count(1) == 2
    scene.wait(5_000)
    assert scene.leaders() == before


def test_a_young_cluster_is_led_by_all_of_its_nodes_as_soon_as_they_are_in_sync() -> None:
    scene = Scene([f"days-{slot}" for slot in range(6)])
    scene.nodes(n1=10)
    scene.nodes(n1=10, n2=20)
    scene.nodes(n1=10, n2=20, n3=30)
    assert set(scene.leaders().values()) == {1}
    scene.catch_up()
    scene.wait(999)
    leaders = Counter(scene.leaders().values())
    assert leaders == {1: 2, 2: 2, 3: 2}
    assert all(state.leader == state.replicas[0] for state in scene.image.groups.values())
    assert len({state.replicas[:2] for state in scene.image.groups.values()}) == 6
    # A node that comes back later waits as any other.
    scene.nodes(n1=10, n2=20)
    scene.nodes(n1=10, n2=20, n3=31)
    scene.catch_up()
    scene.wait(999)
    assert 3 not in scene.leaders().values()


def test_an_operator_need_not_wait() -> None:
    scene = founded(NAMES)
    before = scene.leaders()
    scene.nodes(n2=20, n3=30)
    scene.nodes(n1=11, n2=20, n3=30)
    (name, other) = [name for name, leader in before.items() if leader == 1]
    assert scene.ask(ElectPreferred((name,))).error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    scene.catch_up()
    assert scene.ask(ElectPreferred((name,))).groups == {name: (1,)}
    assert scene.ask(ElectPreferred()).groups == {other: (1,)}
    assert scene.ask(ElectPreferred(("nothing",))).error == ErrorCode.RESOURCE_NOT_FOUND
    assert scene.leaders() == before


def test_a_node_out_of_the_controllers_reach_leads_nothing_and_stays_in_sync() -> None:
    """It could not take a member out of a set, so a member that it does not reach would hold up its groups for ever."""
    scene = founded(NAMES)
    led = {name for name, leader in scene.leaders().items() if leader == 3}
    assert led
    in_reach = dict(scene.live)
    scene.set_live({**in_reach, 3: LiveNode(in_reach[3].incarnation, is_reached=False)})
    assert 3 not in scene.leaders().values()
    assert all(state.in_sync == {1, 2, 3} for state in scene.image.groups.values())
    scene.wait(10 * scene.preferred_wait_ms)
    assert 3 not in scene.leaders().values()
    scene.set_live(in_reach)
    scene.wait(10 * scene.preferred_wait_ms)
    assert {name for name, leader in scene.leaders().items() if leader == 3} == led


def test_a_node_out_of_reach_leads_where_nobody_else_can() -> None:
    scene = founded(NAMES[:1])
    name, leader = next(iter(scene.leaders().items()))
    only = LiveNode(scene.live[leader].incarnation, is_reached=False)
    scene.set_live({leader: only})
    assert scene.state(name).leader == leader


# ---- drains, moves, balance


def test_a_drained_node_gives_up_leaderships_at_once_and_then_its_replicas() -> None:
    scene = founded(NAMES)
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    assert scene.ask(DrainNode(9)).error == ErrorCode.BROKER_ID_NOT_REGISTERED
    reply = scene.ask(DrainNode(1))
    assert set(reply.groups) == set(NAMES)
    assert 1 not in scene.leaders().values()
    assert all(set(target) == {2, 3, 4} for target in reply.groups.values())
    # The next controller goes on with it.
    scene.begin()
    scene.set_live(scene.live)
    scene.catch_up()
    assert all(set(state.replicas) == {2, 3, 4} for state in scene.image.groups.values())
    assert scene.image.moves == {}
    reply = scene.ask(DrainNode(1))
    assert reply.status is not None
    assert [(each.node, each.replicas) for each in reply.status.nodes if each.is_drained] == [(1, 0)]
    assert scene.ask(UndrainNode(1)).error == ErrorCode.NONE
    assert scene.ask(UndrainNode(1)).error == ErrorCode.RESOURCE_NOT_FOUND


def test_a_node_short_of_space_gets_no_replica_until_that_is_over() -> None:
    disks = {node: DiskSpace(1_000, 900) for node in (1, 2, 3)}
    scene = Scene(NAMES)

    def look(**changed: DiskSpace) -> None:
        disks.update({int(name[1:]): disk for name, disk in changed.items()})
        scene.set_live({node: LiveNode(10 * node, disk=disk) for node, disk in disks.items()})

    look(n3=DiskSpace(1_000, 1, is_short=True))
    assert all(set(state.replicas) == {1, 2} for state in scene.image.groups.values())
    reply = scene.ask(ShowStatus())
    assert reply.status is not None
    assert [each.disk for each in reply.status.nodes] == list(disks.values())
    look(n3=DiskSpace(1_000, 500))
    assert all(set(state.replicas) == {1, 2, 3} for state in scene.image.groups.values())
    look(n2=DiskSpace(1_000, 1, is_short=True))
    assert all(set(state.replicas) == {1, 2, 3} for state in scene.image.groups.values()), "it keeps what it has"


def test_a_majority_of_replicas_needs_no_space() -> None:
    """A founder that is alone would acknowledge what no other disk has, for as long as the others are short."""
    short = DiskSpace(1_000, 1, is_short=True)
    scene = Scene(NAMES)
    scene.set_live({1: LiveNode(10, disk=short)})
    scene.set_live({node: LiveNode(10 * node, disk=short) for node in (1, 2, 3)})
    scene.catch_up()
    assert all(len(state.replicas) == state.min_in_sync == 2 for state in scene.image.groups.values())
    scene.set_live({node: LiveNode(10 * node, disk=DiskSpace(1_000, 500)) for node in (1, 2, 3)})
    assert all(len(state.replicas) == 3 for state in scene.image.groups.values())


def test_a_cluster_is_founded_where_all_disks_are_short() -> None:
    scene = Scene(NAMES)
    scene.set_live({1: LiveNode(10, disk=DiskSpace(1_000, 1, is_short=True))})
    assert all(state.replicas == (1,) for state in scene.image.groups.values())


def test_a_drained_node_keeps_replicas_that_have_nowhere_to_go() -> None:
    scene = founded(NAMES)
    scene.ask(DrainNode(1))
    assert 1 not in scene.leaders().values()
    assert all(set(state.replicas) == {1, 2, 3} for state in scene.image.groups.values())
    scene.wait(10_000)
    assert 1 not in scene.leaders().values()
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    scene.catch_up()
    assert all(set(state.replicas) == {2, 3, 4} for state in scene.image.groups.values())


def test_a_group_moves_when_its_new_replicas_are_in_sync() -> None:
    scene = founded(replicas=2)
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    assert scene.state("days").replicas == (1, 2)
    assert scene.ask(MoveGroup("days", (4, 3))).groups == {"days": (4, 3)}
    assert scene.state("days").replicas == (1, 2, 4, 3)
    scene.propose("days", [2, 3])
    assert scene.state("days").replicas == (1, 2, 4, 3)
    scene.propose("days", [2, 3, 4])
    state = scene.state("days")
    assert (state.replicas, members(scene), state.min_in_sync) == ((4, 3), (4, {3, 4}, set()), 2)
    assert scene.image.moves == {}


def test_a_move_may_be_cancelled() -> None:
    scene = founded(replicas=2)
    assert scene.ask(MoveGroup("days", ())).error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    scene.ask(MoveGroup("days", (3, 1)))
    assert scene.state("days").replicas == (1, 2, 3)
    scene.ask(MoveGroup("days", ()))
    assert scene.state("days").replicas == (1, 2)
    assert scene.image.moves == {}


@pytest.mark.parametrize("replicas", [(1, 1), (1, 9)])
def test_a_move_to_what_is_no_set_of_replicas_is_refused(replicas: tuple[int, ...]) -> None:
    scene = founded()
    assert scene.ask(MoveGroup("days", replicas)).error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert scene.ask(MoveGroup("nothing", (1,))).error == ErrorCode.RESOURCE_NOT_FOUND


def test_a_move_keeps_its_rate_until_it_is_done() -> None:
    scene = founded(replicas=2)
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    assert scene.ask(MoveGroup("days", (4, 3), -1)).error == ErrorCode.INVALID_REQUEST
    scene.ask(MoveGroup("days", (4, 3), 1_000))
    assert scene.image.moves["days"].copied_bytes_per_second_max == 1_000
    scene.ask(MoveGroup("days", (4, 3), 2_000))
    assert scene.image.moves["days"].copied_bytes_per_second_max == 2_000
    # Another plan for the group does not take it back.
    scene.nodes(n1=10, n2=20, n3=30)
    assert scene.ask(ForgetNode(4)).error == ErrorCode.NONE
    assert scene.image.moves["days"] == PlannedMove((3,), (1, 2), 2_000)
    scene.catch_up()
    assert scene.image.moves == {}


def test_balance_goes_by_what_groups_hold() -> None:
    names = tuple(f"days-{number}" for number in range(8))
    scene = founded(names)
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    scene.ask(BalanceGroups())
    scene.catch_up()
    scene.wait(20_000)
    assert scene.ask(BalanceGroups()).groups == {}
    # All that node 4 has is large.
    held_bytes = {name: 1024**3 * (4 in scene.state(name).replicas) for name in names}
    assert scene.ask(BalanceGroups(is_dry_run=True, held_bytes=held_bytes)).groups


def test_few_groups_copy_at_the_same_time() -> None:
    names = tuple(f"days-{number}" for number in range(12))
    scene = founded(names, replicas=1)
    for name in names:
        scene.ask(MoveGroup(name, (scene.state(name).leader % 3 + 1,)))
    assert sum(len(state.replicas) > 1 for state in scene.image.groups.values()) == 4
    scene.catch_up()
    assert scene.image.moves == {}
    assert all(len(state.replicas) == 1 for state in scene.image.groups.values())


def test_balance_gives_an_empty_node_its_share() -> None:
    names = tuple(f"days-{number}" for number in range(8))
    scene = founded(names)
    scene.nodes(n1=10, n2=20, n3=30, n4=40)
    plan = scene.ask(BalanceGroups(is_dry_run=True)).groups
    assert scene.image.moves == {}
    assert scene.ask(BalanceGroups()).groups == plan
    scene.catch_up()
    scene.wait(20_000)
    status = scene.ask(ShowStatus()).status
    assert status is not None
    assert [(each.led_groups, each.replicas) for each in status.nodes] == [(2, 6)] * 4
    assert scene.ask(BalanceGroups()).groups == {}


# ---- nodes that never come back


def test_a_forgotten_node_leaves_all_groups_and_others_take_its_place() -> None:
    scene = founded(NAMES)
    assert scene.ask(ForgetNode(1)).error == ErrorCode.INVALID_REQUEST
    scene.nodes(n2=20, n3=30)
    assert scene.ask(ForgetNode(9)).error == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert set(scene.ask(ForgetNode(1)).groups) == set(NAMES)
    assert set(scene.image.nodes) == {2, 3}
    assert all(set(state.replicas) == {2, 3} for state in scene.image.groups.values())
    scene.nodes(n2=20, n3=30, n4=40)
    assert all(set(state.replicas) == {2, 3, 4} for state in scene.image.groups.values())


def test_a_node_with_the_only_copy_is_not_forgotten() -> None:
    scene = founded()
    scene.propose("days", [])
    scene.nodes(n2=20, n3=30)
    assert members(scene) == (2, {2}, {1, 3})
    scene.set_live({})
    scene.nodes(n4=40)
    reply = scene.ask(ForgetNode(2))
    assert reply.error == ErrorCode.INVALID_REQUEST
    assert "days" in reply.message


def test_a_node_that_stops_hands_over_what_it_leads_and_keeps_its_replicas() -> None:
    scene = founded(NAMES)
    led = {name for name, leader in scene.leaders().items() if leader == 1}
    changed = scene.ask(HandOverLeaders(1)).groups
    assert set(changed) == led != set()
    assert all(members(scene, name)[:2] == (changed[name][0], {1, 2, 3}) for name in led)
    assert 1 not in scene.leaders().values()
    assert scene.ask(HandOverLeaders(1)).groups == {}


def test_a_group_without_another_member_stays_with_a_node_that_stops() -> None:
    scene = founded()
    leader = scene.state("days").leader
    scene.propose("days", [])
    assert scene.ask(HandOverLeaders(leader)).groups == {}
    assert scene.state("days").leader == leader
