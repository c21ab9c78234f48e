"""The controller's driver: answers wait for records, and nothing is answered that could not be stored."""

from collections.abc import Sequence

from hutong.cluster.controller.commands import CommandReply, DrainNode, ElectPreferred, ShowStatus
from hutong.cluster.controller.driver import ControllerDriver
from hutong.cluster.controller.machine import HOLD_MS_MAX
from hutong.cluster.controller.messages import AskToYield, LiveNode, ProposalReply
from hutong.cluster.controller.proposals import (
    GroupProposal,
    decode_proposal,
    decode_proposal_reply,
    encode_proposal,
    encode_proposal_reply,
)
from hutong.cluster.image import ClusterImage
from hutong.cluster.records import FoundingSettings
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, OwnerGone, StorageError
from hutong.foundation.machine_host import StateRecord
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation

LIVE = {1: LiveNode(10), 2: LiveNode(20), 3: LiveNode(30)}


class Metadata:
    """The metadata log of a test: appends end when it is said so."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.waiting: list[tuple[Sequence[StateRecord], Continuation[None]]] = []

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None], /) -> None:
        self.waiting.append((records, then))

    def settle(self, error: HutongError | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for records, then in waiting:
            if error is None:
                for key, value in records:
                    self.image.apply(key, value)
            then(error)


class Controller:
    def __init__(self, image: ClusterImage | None = None) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms(), tick_ms=1)
        self.metadata = Metadata()
        self.failures: list[HutongError] = []
        self.driver = ControllerDriver(self.clock, self.wheel, self.metadata, self.failures.append, self.yield_at_once)
        self.driver.load(image or ClusterImage(), FoundingSettings(), ("days", "hours"))

    def yield_at_once(self, _asked: AskToYield, then: Continuation[None]) -> None:
        then(None)

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())

    def propose(self, group: str, *followers: tuple[int, int]) -> list[ProposalReply | HutongError]:
        machine = self.driver.machine
        assert machine is not None
        state, replies = machine.decisions.groups[group], list[ProposalReply | HutongError]()
        proposal = GroupProposal(group, state.epoch, state.version, followers)
        assert decode_proposal(encode_proposal(proposal)) == proposal
        self.driver.propose(state.leader, LIVE[state.leader].incarnation, proposal, replies.append)
        return replies


def founded() -> Controller:
    controller = Controller()
    controller.driver.nodes_changed(LIVE)
    controller.metadata.settle()
    return controller


def test_a_proposal_is_answered_when_its_record_is_stored() -> None:
    controller = founded()
    replies = controller.propose("days", (2, 20))
    assert replies == []
    controller.metadata.settle()
    (reply,) = replies
    assert reply == ProposalReply(True, controller.metadata.image.groups["days"])
    assert decode_proposal_reply(encode_proposal_reply(reply)) == reply


def test_what_is_decided_meanwhile_rests_on_what_is_not_stored_yet() -> None:
    controller = founded()
    first = controller.propose("days", (2, 20))
    controller.driver.nodes_changed({1: LIVE[1], 3: LIVE[3]})
    asked: list[CommandReply | HutongError] = []
    controller.driver.ask(ShowStatus(), asked.append)
    assert first == asked == []
    controller.metadata.settle()
    assert isinstance(first[0], ProposalReply)
    assert first[0].is_taken
    (status,) = asked
    assert isinstance(status, CommandReply)
    assert status.status is not None
    assert [(each.node, each.is_live) for each in status.status.nodes] == [(1, True), (2, False), (3, True)]
    assert controller.metadata.image.groups["days"].in_sync == {1}


def test_a_reply_that_changes_nothing_comes_at_once() -> None:
    controller = founded()
    asked: list[CommandReply | HutongError] = []
    controller.driver.ask(ElectPreferred(), asked.append)
    assert asked == [CommandReply()]


def test_a_held_proposal_is_refused_in_time() -> None:
    controller = founded()
    controller.propose("days", (2, 20))
    controller.metadata.settle()
    replies = controller.propose("days", (2, 20), (3, 31))
    controller.advance(HOLD_MS_MAX - 1)
    assert replies == []
    controller.advance(1)
    assert replies == [ProposalReply(False, controller.metadata.image.groups["days"])]


def test_after_a_failure_nothing_is_answered_but_the_error() -> None:
    controller = founded()
    held = controller.propose("days", (2, 20))
    asked: list[CommandReply | HutongError] = []
    controller.driver.ask(DrainNode(1), asked.append)
    error = StorageError("this node leads no more")
    controller.metadata.settle(error)
    assert held == asked == controller.failures == [error]
    late = controller.propose("days", (2, 20))
    controller.driver.nodes_changed({1: LIVE[1]})
    assert late == [error]
    assert controller.metadata.waiting == []
    controller.driver.close()
    assert controller.failures == [error]


def test_after_its_end_a_controller_answers_nobody_else() -> None:
    controller = founded()
    replies = controller.propose("days", (2, 20))
    controller.driver.close()
    (reply,) = replies
    assert isinstance(reply, OwnerGone)
    controller.metadata.settle()
    assert controller.failures == []
    assert isinstance(controller.propose("days")[0], OwnerGone)


def test_the_next_controller_goes_on_from_the_metadata() -> None:
    controller = founded()
    controller.driver.ask(DrainNode(1), lambda _: None)
    controller.metadata.settle()
    successor = Controller(controller.metadata.image)
    successor.driver.nodes_changed(LIVE)
    assert successor.metadata.waiting == []
    successor.driver.nodes_changed({**LIVE, 4: LiveNode(40)})
    successor.metadata.settle()
    assert set(successor.metadata.image.moves) == {"days", "hours"}
