"""Standings whose lease runs out, and begins again."""

from dataclasses import replace

import pytest

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.lease import LeaderLease
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import Refused
from hutong.foundation.timers import TimerWheel
from hutong.replication.group_state import PartitionGroupState
from hutong.server.cluster.leases import LeaseKeeper
from hutong.server.cluster.standings import ClusterStandings

SESSION_MS = 4_000
THREE = frozenset({1, 2, 3})


class Node:
    """Node 1, which leads `days`. It hears what a test says."""

    def __init__(self, in_sync: frozenset[int] = THREE) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.session = SessionState.CONNECTED
        self.controller = 1
        self.answers: dict[int, int] = {}
        self.changed: list[str] = []
        self.standings = ClusterStandings(["days", "metadata"], 1, self.clock)
        self.keeper = LeaseKeeper(
            LeaderLease(1, SESSION_MS, 0),
            self.standings,
            lambda: self.session,
            lambda: self.controller,
            self,
            self.clock,
            self.wheel,
        )
        self.standings.group_changed(PartitionGroupState("days", 1, 1, 1, 7, (1, 2, 3), in_sync, frozenset(), 2), THREE)
        self.standings.set_led_here("days", is_led_here=True)
        self.standings.on_change.append(self.changed.append)

    def answered_ms(self, node: int) -> int | None:
        return self.answers.get(node)

    @property
    def serves(self) -> bool:
        return self.standings.by_group["days"].is_led_here

    def pass_time(self, milliseconds: int, answering: tuple[int, ...] = ()) -> None:
        for _ in range(0, milliseconds, 100):
            self.clock.advance(100)
            self.answers |= dict.fromkeys(answering, self.clock.monotonic_ms())
            self.wheel.advance(self.clock.monotonic_ms())

    def stop_process(self, milliseconds: int) -> None:
        """Nothing runs meanwhile, and no timer has run yet when it goes on."""
        self.clock.advance(milliseconds)


def test_a_leader_serves_as_long_as_it_has_a_session() -> None:
    node = Node()
    node.pass_time(60_000)

    assert node.serves
    assert node.changed == []


def test_a_leader_that_hears_nobody_stops_to_serve_after_a_session_and_says_so() -> None:
    node = Node()
    lapsed: list[str] = []
    node.keeper.on_lapse = lapsed.append
    node.session = SessionState.SUSPENDED
    node.pass_time(3_000)

    assert node.serves
    assert lapsed == []

    node.pass_time(1_500)

    assert not node.serves
    assert lapsed == ["days"]
    assert node.changed == ["days"]
    assert node.keeper.lapsed_total == 1
    with pytest.raises(Refused):
        node.standings.by_group["days"].check_led_here()


def test_a_session_does_not_help_where_the_controller_hears_nothing_of_it() -> None:
    """The controller lets others lead what it does not reach."""
    node = Node()
    node.controller = 3
    node.pass_time(1_000, answering=(3,))
    node.pass_time(SESSION_MS - 500)

    assert node.serves

    node.pass_time(1_000)

    assert not node.serves


def test_it_serves_again_once_it_hears_a_majority() -> None:
    node = Node()
    node.session = SessionState.LOST
    node.pass_time(10_000)
    node.pass_time(600, answering=(3,))

    assert node.serves
    assert node.changed == ["days", "days"]


def test_an_outage_of_the_coordinator_changes_nothing_while_nodes_hear_each_other() -> None:
    node = Node()
    node.session = SessionState.LOST
    node.pass_time(300_000, answering=(2,))

    assert node.serves
    assert node.changed == []


def test_a_process_that_was_stopped_refuses_before_any_timer_has_run() -> None:
    node = Node()
    node.pass_time(1_000, answering=(2, 3))
    node.stop_process(SESSION_MS + 1_000)

    assert not node.serves

    node.wheel.advance(node.clock.monotonic_ms())

    assert not node.serves


def test_waits_outlast_a_stop_of_the_process_if_others_are_heard_by_the_next_look() -> None:
    node = Node()
    lapsed: list[str] = []
    node.keeper.on_lapse = lapsed.append
    node.session = SessionState.SUSPENDED
    node.pass_time(1_000, answering=(2, 3))
    node.stop_process(SESSION_MS + 1_000)
    node.wheel.advance(node.clock.monotonic_ms())

    assert not node.serves
    assert lapsed == []

    node.pass_time(500, answering=(2, 3))

    assert node.serves
    assert lapsed == []

    node.stop_process(SESSION_MS + 1_000)
    node.pass_time(1_000)

    assert not node.serves
    assert lapsed == ["days"]


def test_nobody_else_in_the_set_means_no_deadline() -> None:
    node = Node(frozenset({1}))
    node.session = SessionState.LOST
    node.stop_process(1_000_000)

    assert node.serves


def test_a_lease_that_is_held_makes_no_leader() -> None:
    node = Node()
    node.standings.set_led_here("days", is_led_here=False)

    assert not node.serves


def test_no_timer_is_left_after_the_end() -> None:
    node = Node()
    node.keeper.close()

    assert len(node.wheel) == 0


def test_changes_of_the_sets_that_it_leads_are_counted() -> None:
    node = Node()
    for version, in_sync in ((2, {1, 2}), (3, {1}), (4, {1, 2, 3})):
        state = PartitionGroupState("days", 1, version, 1, 7, (1, 2, 3), frozenset(in_sync), frozenset(), 2)
        node.standings.group_changed(state, THREE)

    assert (node.standings.shrinks_total, node.standings.expands_total) == (2, 1)

    node.standings.group_changed(
        PartitionGroupState("days", 2, 5, 2, 7, (1, 2, 3), frozenset({2}), frozenset(), 2), THREE
    )

    assert node.standings.shrinks_total == 2


def test_consumers_read_from_a_follower_while_it_hears_of_its_leader() -> None:
    node = Node()
    state = PartitionGroupState("days", 2, 1, 2, 7, (2, 1, 3), THREE, frozenset(), 2)
    standing = node.standings.by_group["days"]
    assert not standing.is_followed_here, "it leads"
    node.answers[2] = 0
    node.standings.group_changed(state, THREE)
    assert standing.is_followed_here
    node.pass_time(3 * SESSION_MS, answering=(2,))
    assert standing.is_followed_here
    node.pass_time(SESSION_MS + 100)
    assert not standing.is_followed_here
    node.pass_time(SESSION_MS, answering=(2,))
    assert standing.is_followed_here
    node.standings.group_changed(replace(state, version=2, in_sync=frozenset({2, 3})), THREE)
    assert not standing.is_followed_here, "it lacks what is committed"
