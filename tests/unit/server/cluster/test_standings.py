"""The standings of groups: how long elections take, as one node hears of them."""

from hutong.foundation.clock import ManualClock
from hutong.replication.group_state import PartitionGroupState
from hutong.server.cluster.standings import ClusterStandings

ALL = (1, 2, 3)


def led_by(leader: int, epoch: int) -> PartitionGroupState:
    return PartitionGroupState("days", epoch, 1, leader, 7, ALL, frozenset(ALL), frozenset(), 2)


def test_an_election_takes_from_the_end_of_one_leader_to_the_next() -> None:
    clock = ManualClock()
    standings = ClusterStandings(["days"], 1, clock)
    standings.group_changed(led_by(2, 1), ALL)
    assert standings.election_us.count == 0, "the first state of a group is no news"
    standings.live_changed({"days": led_by(2, 1)}, {1, 3})
    clock.advance(300)
    standings.live_changed({"days": led_by(2, 1)}, {1, 3})
    clock.advance(200)
    standings.group_changed(led_by(3, 2), {1, 3})
    assert (standings.election_us.count, standings.election_us.sum) == (1, 500_000)


def test_a_leader_that_hands_over_leaves_no_gap() -> None:
    clock = ManualClock()
    standings = ClusterStandings(["days"], 1, clock)
    standings.group_changed(led_by(2, 1), ALL)
    clock.advance(300)
    standings.group_changed(led_by(3, 2), ALL)
    assert (standings.election_us.count, standings.election_us.sum) == (1, 0)


def test_a_leader_that_was_doubted_and_goes_on_was_not_elected() -> None:
    clock = ManualClock()
    standings = ClusterStandings(["days"], 1, clock)
    standings.group_changed(led_by(2, 1), ALL)
    standings.doubted = frozenset({2})
    standings.live_changed({"days": led_by(2, 1)}, ALL)
    clock.advance(300)
    standings.doubted = frozenset()
    standings.live_changed({"days": led_by(2, 1)}, ALL)
    assert standings.election_us.count == 0
    clock.advance(300)
    standings.group_changed(led_by(3, 2), ALL)
    assert standings.election_us.sum == 0, "the doubt was over"
