"""The rules of in-sync sets, one by one, and what holds for every step."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cluster.test_records import groups

from hutong.cluster.set_rules import (
    candidates,
    elected,
    elected_uncleanly,
    founded,
    is_led,
    needed_in_sync,
    problem_of,
    with_proposal,
    with_replicas,
    without_copy,
    without_nodes,
)
from hutong.replication.group_state import NO_LEADER, PartitionGroupState


def group(
    leader: int, in_sync: set[int], eligible: frozenset[int] = frozenset(), *, least: int = 2
) -> PartitionGroupState:
    return PartitionGroupState("days", 1, 5, leader, 10 * leader, (1, 2, 3), frozenset(in_sync), eligible, least)


def members(state: PartitionGroupState) -> tuple[int, set[int], set[int]]:
    return state.leader, set(state.in_sync), set(state.eligible)


def test_a_majority_is_needed_unless_settings_say_otherwise() -> None:
    assert [needed_in_sync(count) for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]
    assert [needed_in_sync(count, 2) for count in (1, 2, 3)] == [1, 2, 2]


def test_who_leaves_a_large_set_is_not_eligible_and_who_leaves_a_small_one_is() -> None:
    two = without_nodes(group(1, {1, 2, 3}), {3})
    assert members(two) == (1, {1, 2}, set())
    one = without_nodes(two, {2})
    assert members(one) == (1, {1}, {2})
    assert (one.epoch, one.version, one.leader_incarnation) == (1, 7, 10)


def test_with_all_members_gone_nobody_leads_and_all_stay() -> None:
    vacant = without_nodes(group(1, {1, 2}), {1, 2, 3})
    assert members(vacant) == (NO_LEADER, {1, 2}, set())
    assert without_nodes(vacant, {1, 2, 3}) is vacant


def test_a_leader_that_is_gone_leads_no_more() -> None:
    assert members(without_nodes(group(1, {1, 2, 3}), {1})) == (NO_LEADER, {2, 3}, set())


def test_a_node_without_a_copy_is_neither_in_the_set_nor_eligible_but_alone() -> None:
    assert members(without_copy(group(1, {1, 2}), 2)) == (1, {1}, set())
    assert members(without_copy(group(2, {1, 2, 3}), 2)) == (NO_LEADER, {1, 3}, set())
    assert members(without_copy(group(1, {1}, frozenset({2, 3})), 2)) == (1, {1}, {3})
    assert members(without_copy(group(1, {1}, frozenset({2, 3})), 1)) == (NO_LEADER, {1}, {2, 3})
    alone = group(NO_LEADER, {1})
    assert without_copy(alone, 1) is alone


def test_nothing_changes_for_who_was_no_member() -> None:
    state = group(1, {1, 2})
    assert without_nodes(state, {3}) is state


def test_members_stand_before_eligible_nodes_and_avoided_ones_last() -> None:
    state = group(2, {2, 3}, frozenset({1}), least=3)
    assert candidates(state, {1, 2, 3}) == [2, 3, 1]
    assert candidates(state, {1, 2, 3}, {2}) == [3, 2, 1]
    assert candidates(state, {1}) == [1]


def test_an_eligible_leader_begins_a_set_of_its_own() -> None:
    state = elected(group(1, {1}, frozenset({2})), 2, 21, {2, 3})
    assert members(state) == (2, {2}, {1})
    assert (state.epoch, state.version, state.leader_incarnation) == (2, 6, 21)


def test_after_an_unclean_election_nobody_else_may_lead() -> None:
    assert members(elected_uncleanly(group(1, {1}, frozenset({2})), 3, 31)) == (3, {3}, set())


def test_a_member_is_added_under_the_life_that_is_registered() -> None:
    state = group(1, {1, 2})
    assert with_proposal(state, {(2, 20), (3, 30)}, {1: 10, 2: 20, 3: 31}, 2) is None
    assert with_proposal(state, {(2, 20), (4, 40)}, {1: 10, 2: 20, 4: 40}, 2) is None
    added = with_proposal(state, {(2, -1), (3, 30)}, {1: 10, 2: 20, 3: 30}, 2)
    assert added is not None
    assert members(added) == (1, {1, 2, 3}, set())


def test_eligible_nodes_are_so_until_the_set_has_grown() -> None:
    grown = with_proposal(group(1, {1}, frozenset({2})), {(3, 30)}, {3: 30}, 2)
    assert grown is not None
    assert members(grown) == (1, {1, 3}, set())


def test_the_least_number_rises_with_the_set_and_falls_at_once() -> None:
    alone = founded("days", (1,), 10)
    assert alone.min_in_sync == 1
    filled = with_replicas(alone, (1, 2, 3), 2)
    assert (filled.min_in_sync, members(filled)) == (1, (1, {1}, set()))
    grown = with_proposal(filled, {(2, 20)}, {2: 20}, 2)
    assert grown is not None
    assert grown.min_in_sync == 2
    small = without_nodes(grown, {2})
    assert members(small) == (1, {1}, {2})
    again = with_replicas(small, (1,), 1)
    assert (again.min_in_sync, members(again)) == (1, (1, {1}, set()))


nodes = st.sets(st.integers(0, 5))


@given(groups(), st.data())
def test_every_step_leads_to_a_state_that_may_be(state: PartitionGroupState, data: st.DataObject) -> None:
    everybody = st.sampled_from(state.replicas)
    live = dict.fromkeys(data.draw(st.sets(everybody)), 7)
    steps = [without_nodes(state, set(state.replicas) - live.keys())]
    steps += [elected(state, node, 7, live) for node in candidates(state, live)]
    if state.leader != NO_LEADER:
        proposed = with_proposal(state, live.items(), live, needed_in_sync(len(state.replicas)))
        steps += [] if proposed is None else [proposed]
        kept = (state.leader, *(node for node in state.replicas if node in live and node != state.leader))
        steps.append(with_replicas(state, kept, needed_in_sync(len(kept))))
    for after in steps:
        assert problem_of(after) is None
        assert after.eligible <= state.eligible | state.in_sync
        assert after is state or after.version == state.version + 1
        assert after.epoch == state.epoch or is_led(after, live)
