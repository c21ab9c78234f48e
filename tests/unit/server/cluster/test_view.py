"""The cluster as handlers see it: who coordinates, while leaders are doubted or hear of nobody."""

from dataclasses import replace
from typing import Any, cast

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.broker.topics.lifetimes import METADATA_GROUP, OFFSETS_GROUP, TRANSACTIONS_GROUP
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import decode_forwarded
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.server.cluster.asking_again import AskingAgain
from hutong.server.cluster.standings import ClusterStandings
from hutong.server.cluster.view import CONTROLLER_MS_MAX, ClusterBrokerView
from hutong.wire.kafka.error_codes import ErrorCode

LEASE_MS = 4_000


class Node:
    """Node 1, which leads `offsets`, and has applied that node 2 leads `transactions`."""

    def __init__(self) -> None:
        self.node = 1
        self.own, self.live, self.doubted, self.is_cut_off = self, {1, 2}, frozenset[int](), False
        self.clock = ManualClock()
        self.standings = ClusterStandings([METADATA_GROUP, OFFSETS_GROUP, TRANSACTIONS_GROUP], 1, self.clock)
        self.groups = {
            name: PartitionGroupState(name, 1, 1, leader, 7, (1, 2), frozenset({1, 2}), frozenset(), 2)
            for name, leader in ((OFFSETS_GROUP, 1), (TRANSACTIONS_GROUP, 2))
        }
        self.wheel, self.controller, self.is_controlling, self.peers = TimerWheel(0), NO_LEADER, False, None
        self.view = ClusterBrokerView(
            cast(Any, self),
            cast(Any, self),
            self.standings.by_group,
            self.clock,
            AskingAgain(self.clock, self.wheel),
            lambda: cast(Any, self),
        )

    def handle_forwarded(self, question: PeerMessage, then: Continuation[PeerMessage]) -> None:
        then(PeerMessage(0, {}, decode_forwarded(question).frame))

    def coordinator(self, kind: CoordinationKind) -> int:
        return self.view.coordinator_of(kind, "any")


def test_a_coordinator_whose_lease_is_over_sends_nobody_to_itself() -> None:
    node = Node()
    assert node.coordinator(CoordinationKind.GROUP) == 1, "it is being loaded"
    node.standings.by_group[OFFSETS_GROUP].served_until_ms = LEASE_MS
    node.standings.by_group[OFFSETS_GROUP].is_leading = True
    assert node.coordinator(CoordinationKind.GROUP) == 1
    node.clock.advance(LEASE_MS)
    assert node.coordinator(CoordinationKind.GROUP) == NO_LEADER
    assert node.coordinator(CoordinationKind.TRANSACTION) == 2


def test_nobody_is_sent_to_a_coordinator_that_may_be_gone() -> None:
    node = Node()
    node.doubted = frozenset({2})
    assert node.coordinator(CoordinationKind.TRANSACTION) == NO_LEADER
    assert node.coordinator(CoordinationKind.GROUP) == 1


def forwarded(node: Node) -> list[bytes | HutongError]:
    """The answer to a client's request for the controller, once there is one."""
    listener = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "localhost", 9092)
    answers: list[bytes | HutongError] = []
    session = ClientSession(1, "127.0.0.1", 5, listener, Owner(), lambda: None)
    node.view.forward(b"create", session, answers.append)
    return answers


def wait(node: Node, milliseconds: int) -> None:
    for _ in range(0, milliseconds, 100):
        node.clock.advance(100)
        node.wheel.advance(node.clock.monotonic_ms())


def test_a_request_that_waits_for_a_controller_is_handled_here_when_this_node_becomes_it() -> None:
    node = Node()
    answers = forwarded(node)
    wait(node, 1_000)
    node.controller = 1
    wait(node, 1_000)
    assert answers == [], "it leads the metadata, and has not applied all of it"
    node.is_controlling = True
    wait(node, 200)
    assert answers == [], "its lease has not begun"
    node.standings.by_group[METADATA_GROUP].is_leading = True
    node.standings.by_group[METADATA_GROUP].served_until_ms = node.clock.monotonic_ms() + LEASE_MS
    wait(node, 200)
    assert answers == [b"create"]


def test_a_request_without_any_controller_is_refused_in_the_end() -> None:
    node = Node()
    answers = forwarded(node)
    wait(node, CONTROLLER_MS_MAX + 200)
    (refusal,) = answers
    assert isinstance(refusal, Refused)
    assert refusal.code == ErrorCode.NOT_CONTROLLER


def test_a_node_that_is_cut_off_refuses_at_once_what_is_for_the_controller() -> None:
    node = Node()
    node.is_cut_off = True
    (refusal,) = forwarded(node)
    assert isinstance(refusal, Refused)
    assert refusal.code == ErrorCode.NOT_CONTROLLER


def test_a_controller_whose_lease_is_over_is_none() -> None:
    node = Node()
    standing = node.standings.by_group[METADATA_GROUP]
    node.is_controlling, standing.is_leading, standing.served_until_ms = True, True, LEASE_MS
    assert node.view.is_controller
    node.clock.advance(LEASE_MS)
    assert not node.view.is_controller


def test_a_coordinator_that_has_stepped_down_sends_nobody_to_itself_until_it_is_elected_again() -> None:
    node = Node()
    node.standings.group_changed(node.groups[OFFSETS_GROUP], {1, 2})
    node.standings.by_group[OFFSETS_GROUP].served_until_ms = LEASE_MS
    node.standings.set_led_here(OFFSETS_GROUP, is_led_here=True)
    assert node.coordinator(CoordinationKind.GROUP) == 1
    # It has heard of a later epoch, and not yet who leads in that.
    node.standings.set_led_here(OFFSETS_GROUP, is_led_here=False)
    assert node.coordinator(CoordinationKind.GROUP) == NO_LEADER
    again = node.groups[OFFSETS_GROUP] = replace(node.groups[OFFSETS_GROUP], epoch=3, version=4)
    node.standings.group_changed(again, {1, 2})
    assert node.coordinator(CoordinationKind.GROUP) == 1, "it is being loaded"
