"""Producers that wait for the next leader of a group, and batches that were refused before there was one."""

from collections.abc import Callable
from typing import cast

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.broker.produce.congestion import Congestion
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.journal.journal import Journal
from hutong.replication.group_state import PartitionGroupState
from hutong.server.cluster.election_holds import HOLD_MS_MAX, ElectionHolds
from hutong.server.cluster.standings import REFUSAL_MS_MAX, ClusterStandings

THREE = frozenset({1, 2, 3})
SESSION_MS = 4_000


class Node:
    """Node 1, a replica of `days`, which node 2 leads. `released` counts the requests that went on."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(0)
        self.released = 0
        self.standings = ClusterStandings(["days"], 1, self.clock)
        self.congestion = Congestion({}, WaitTable("held", self.wheel, 10))
        self.congestion.watch("days", cast(Journal, self))
        ElectionHolds(1, self.standings, self.congestion, self.clock, self.wheel)
        self.epoch = 0
        self.elect(2)

    def watch_congestion(self, changed: Callable[[bool], None]) -> None:
        """Play the journal of the group."""
        self.congested = changed

    def elect(self, leader: int, live: frozenset[int] = THREE) -> None:
        self.epoch += 1
        state = PartitionGroupState("days", self.epoch, self.epoch, leader, 7, (1, 2, 3), THREE, frozenset(), 2)
        self.standings.group_changed(state, live)

    def lead(self) -> None:
        self.standings.by_group["days"].served_until_ms = self.clock.monotonic_ms() + SESSION_MS
        self.standings.set_led_here("days", is_led_here=True)

    def doubt(self, *nodes: int) -> None:
        self.standings.doubted = frozenset(nodes)
        state = PartitionGroupState("days", self.epoch, self.epoch, 2, 7, (1, 2, 3), THREE, frozenset(), 2)
        self.standings.group_changed(state, THREE)

    def produce(self) -> bool:
        """True if the request is taken at once."""
        if "days" not in self.congestion.groups:
            return True

        def release() -> None:
            self.released += 1

        listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "", 0)
        self.congestion.hold("days", ClientSession(1, "127.0.0.1", 1, listener, Owner(), release))
        return False

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_a_producer_waits_while_the_leader_may_be_gone_until_this_node_leads() -> None:
    node = Node()
    assert node.produce(), "another node leads: it hears so at once"
    node.doubt(2)
    assert not node.produce()
    node.elect(1)
    assert node.released == 0, "this node is chosen, and cannot serve yet"
    node.lead()
    assert node.released == 1
    assert node.produce()


def test_a_producer_goes_on_when_another_node_leads() -> None:
    node = Node()
    node.doubt(2)
    assert not node.produce()
    node.elect(3)
    assert node.released == 1
    assert node.produce()


def test_a_wait_has_a_bound_and_does_not_begin_again_before_an_election() -> None:
    node = Node()
    node.doubt(2)
    assert not node.produce()
    node.pass_time(HOLD_MS_MAX)
    assert node.released == 1
    node.doubt(2)
    assert node.produce()
    node.elect(3)
    node.elect(1)
    assert not node.produce()


def test_a_group_that_is_congested_too_goes_on_when_both_are_over() -> None:
    node = Node()
    node.congested(True)
    node.doubt(2)
    assert not node.produce()
    node.elect(3)
    assert node.released == 0
    node.congested(False)
    assert node.released == 1


def test_a_refusal_is_remembered_for_as_long_as_later_batches_may_be_on_their_way() -> None:
    node = Node()
    standing = node.standings.by_group["days"]
    assert not standing.has_refused_lately
    standing.note_refusal()
    node.pass_time(REFUSAL_MS_MAX - 1)
    assert standing.has_refused_lately
    node.pass_time(1)
    assert not standing.has_refused_lately
