"""A node that does not hear of the coordinator asks the others who leads the metadata."""

from typing import Any, cast

from hutong.cluster.coordinator.port import SessionState
from hutong.cluster.metadata_inquiry import ASK_AGAIN_MS, MetadataInquiry
from hutong.cluster.metadata_machine import METADATA_NAME
from hutong.cluster.peers.port import PeerAsked, PeerMessage, Peers
from hutong.cluster.records import encode_groups
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.group_state import PartitionGroupState

ALL = (1, 2, 3)


def led_by(leader: int, epoch: int, name: str = METADATA_NAME) -> PartitionGroupState:
    return PartitionGroupState(name, epoch, 1, leader, 7, ALL, frozenset(ALL), frozenset(), 2)


class Node:
    """Node 1, and what it asks of the others."""

    def __init__(self) -> None:
        self.clock, self.wheel = ManualClock(), TimerWheel(0)
        self.known = {METADATA_NAME: led_by(1, 3)}
        self.heard: list[PartitionGroupState] = []
        self.asked: list[tuple[int, Continuation[PeerMessage]]] = []
        self.inquiry = MetadataInquiry(self.known, self.heard.append, self.clock, self.wheel)
        self.inquiry.begin(cast(Peers, self), lambda: [2, 3])

    def register(self, _code: int, asked: PeerAsked) -> None:
        self.answer = asked

    def ask(self, node: int, _question: PeerMessage, _timeout_ms: int, then: Continuation[PeerMessage]) -> None:
        self.asked.append((node, then))

    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_it_asks_all_others_until_it_hears_of_the_coordinator() -> None:
    node = Node()
    node.inquiry.session_changed(SessionState.SUSPENDED)
    assert [each for each, _ in node.asked] == [2, 3]
    node.inquiry.session_changed(SessionState.LOST)
    assert len(node.asked) == 2, "it asks already"
    node.wait(ASK_AGAIN_MS)
    assert [each for each, _ in node.asked] == [2, 3, 2, 3]
    node.inquiry.session_changed(SessionState.CONNECTED)
    node.wait(2 * ASK_AGAIN_MS)
    assert len(node.asked) == 4


def test_it_passes_on_what_is_said_of_the_metadata_alone() -> None:
    node = Node()
    node.inquiry.session_changed(SessionState.SUSPENDED)
    (_, first), (_, second) = node.asked
    first(OwnerGone("the link has ended"))
    second(PeerMessage(0, {}, encode_groups([led_by(2, 9, "days"), led_by(3, 4)])))
    assert node.heard == [led_by(3, 4)]


def test_a_node_says_what_it_knows() -> None:
    node, other = Node(), Node()
    said: list[Any] = []

    def then(outcome: PeerMessage | HutongError) -> None:
        said.append(outcome)

    node.answer(2, PeerMessage(11, {}), then)
    other.inquiry._answered(said[0])
    assert other.heard == [led_by(1, 3)]
    node.known.clear()
    node.answer(2, PeerMessage(11, {}), then)
    other.inquiry._answered(said[1])
    assert len(other.heard) == 1
