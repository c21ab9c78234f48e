"""The controller on this node, while it leads the metadata; and the way to the controller while it does not.

Strategy: proposals, blocks of producer ids and operators' commands go to the node that leads the metadata. There they
go to its `ControllerDriver`, elsewhere over the link with it. A proposal whose outcome is unknown is made again, with
the same version, until the state of its group is newer: it can be taken once at most.

Decides nothing.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from hutong.broker.coordinators.producer_ids import ProducerIds
from hutong.broker.state.state_topic import Apply
from hutong.cluster.controller.commands import (
    BalanceGroups,
    CommandReply,
    ControllerCommand,
    ShowStatus,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
)
from hutong.cluster.controller.driver import ControllerDriver
from hutong.cluster.controller.messages import LiveNode, ProposalReply
from hutong.cluster.controller.proposals import (
    GroupProposal,
    decode_proposal,
    decode_proposal_reply,
    encode_proposal,
    encode_proposal_reply,
)
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.nodes import ClusterNode
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.placement import space_weights
from hutong.cluster.questions import QuestionCode, decode_block, encode_block
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.machine_host import StatePort, StateRecord
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.replication.leading.messages import ProposeSet
from hutong.server.cluster.status_progress import StatusProgress
from hutong.wire.kafka.error_codes import ErrorCode

ASK_MS_MAX: Final = 3_000
AGAIN_MS: Final = 100
COMMAND_MS_MAX: Final = 30_000
MakeController = Callable[[], ControllerDriver]
_log: Final = logging.getLogger("hutong.cluster")
_NO_CONTROLLER: Final = Refused(ErrorCode.NOT_CONTROLLER, "The cluster has no controller at this moment.")


class AppliedDecisions:
    """The metadata as the controller writes it: what is stored is applied on this node, too, before the answer."""

    def __init__(self, state: StatePort, apply: Apply) -> None:
        self._state = state
        self._apply = apply

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None], /) -> None:
        """Append the records; `then` gets None once they are durable and applied."""

        def stored(error: HutongError | None) -> None:
            if error is None:
                for key, value in records:
                    self._apply(key, value)
            then(error)

        self._state.append_all(records, stored)


class ClusterControl:
    """The way to the controller, which may be this node."""

    def __init__(
        self, driver: ClusterDriver, clock: Clock, timers: TimerWheel, make_controller: MakeController
    ) -> None:
        """`make_controller` makes the controller from what this node has applied of the metadata."""
        self._driver = driver
        self._clock = clock
        self._timers = timers
        self._make_controller = make_controller
        self._controller: ControllerDriver | None = None
        self._progress = StatusProgress(driver)
        self.on_controller: Callable[[], None] = lambda: None  # called when there may be another one
        self.producer_ids: ProducerIds | None = None

    @property
    def is_controlling(self) -> bool:
        return self._controller is not None

    @property
    def controller(self) -> ControllerDriver | None:
        """The present one, if this node controls."""
        return self._controller

    # -- the controller here

    def begin(self) -> None:
        """Control from now on: this node leads the metadata, and all of it is applied."""
        assert self._controller is None, "it controls already"
        self._controller = self._make_controller()
        self._controller.nodes_changed(live_nodes(self._driver.live, self._driver.unreached))
        self.on_controller()

    def end(self) -> None:
        """Control no more."""
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.close()

    def nodes_changed(self, live: Mapping[int, ClusterNode]) -> None:
        if self._controller is not None:
            self._controller.nodes_changed(live_nodes(live, self._driver.unreached))

    # -- questions to it

    def propose(self, state: PartitionGroupState, proposal: ProposeSet) -> None:
        """Have the controller decide about a proposal of this node's replica, however long that takes."""
        known = self._driver.groups.get(state.name)
        if known is not None and (known.epoch, known.version) > (state.epoch, state.version):
            return  # the replica has heard of the newer state, and proposes anew
        asked = GroupProposal(state.name, state.epoch, proposal.version, tuple(sorted(proposal.followers)))
        answered = partial(self._proposal_answered, state, proposal)
        if self._controller is not None:
            self._controller.propose(self._driver.own.node, self._driver.own.incarnation, asked, answered)
            return

        def heard(outcome: PeerMessage | HutongError) -> None:
            answered(outcome if isinstance(outcome, HutongError) else decode_proposal_reply(bytes(outcome.body)))

        self.ask(PeerMessage(QuestionCode.SET_PROPOSED, {}, encode_proposal(asked)), ASK_MS_MAX, heard)

    def reserve_producer_ids(self, then: Continuation[tuple[int, int]]) -> None:
        """Have the controller give this node a block of producer ids: the first, and the end of the block."""

        # Cut off, a controller could not store the block, and a client would wait here instead of asking another node.
        if self._driver.is_cut_off:
            then(_NO_CONTROLLER)
            return
        if self._controller is not None and self.producer_ids is not None:
            self.producer_ids.allocate_block(then)
            return

        def heard(outcome: PeerMessage | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else decode_block(outcome))

        self.ask(PeerMessage(QuestionCode.IDS_ASKED, {}), ASK_MS_MAX, heard)

    def command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        """Have the controller carry out an operator's command."""
        if isinstance(command, BalanceGroups):
            self._progress.show_held_bytes(lambda held: self._command(structs.replace(command, held_bytes=held), then))
        else:
            self._command(command, then)

    def _command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        def replied(outcome: CommandReply | HutongError) -> None:
            if isinstance(command, ShowStatus) and isinstance(outcome, CommandReply) and outcome.status is not None:
                self._progress.complete(outcome, then)
            else:
                then(outcome)

        if self._controller is not None:
            self._controller.ask(command, replied)
            return

        def heard(outcome: PeerMessage | HutongError) -> None:
            replied(outcome if isinstance(outcome, HutongError) else decode_reply(bytes(outcome.body)))

        self.ask(PeerMessage(QuestionCode.COMMANDED, {}, encode_command(command)), COMMAND_MS_MAX, heard)

    # -- questions of others

    def register(self) -> None:
        """Answer the other nodes' questions."""
        self._progress.register()
        peers = self._driver.peers
        assert peers is not None
        peers.register(QuestionCode.SET_PROPOSED, self._asked_for_set)
        peers.register(QuestionCode.IDS_ASKED, self._asked_for_ids)
        peers.register(QuestionCode.COMMANDED, self._commanded)

    def _asked_for_set(self, node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        sender = self._driver.live.get(node)
        if self._controller is None or sender is None:
            then(_NO_CONTROLLER)
            return

        def answered(outcome: ProposalReply | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else PeerMessage(0, {}, encode_proposal_reply(outcome)))

        self._controller.propose(node, sender.incarnation, decode_proposal(bytes(message.body)), answered)

    def _asked_for_ids(self, _node: int, _message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        if self._controller is None or self.producer_ids is None:
            then(_NO_CONTROLLER)
            return

        def allocated(outcome: tuple[int, int] | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else encode_block(*outcome))

        self.producer_ids.allocate_block(allocated)

    def _commanded(self, _node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        if self._controller is None:
            then(_NO_CONTROLLER)
            return

        def answered(outcome: CommandReply | HutongError) -> None:
            then(outcome if isinstance(outcome, HutongError) else PeerMessage(0, {}, encode_reply(outcome)))

        self._controller.ask(decode_command(bytes(message.body)), answered)

    # -- inside

    def _proposal_answered(
        self, state: PartitionGroupState, proposal: ProposeSet, outcome: ProposalReply | HutongError
    ) -> None:
        if isinstance(outcome, HutongError):
            # It may have been taken: only a newer state, or a refusal, ends it.
            again = partial(self.propose, state, proposal)
            self._timers.add(self._clock.monotonic_ms() + AGAIN_MS, again)
            return
        if outcome.state is not None:
            self._driver.group_heard(outcome.state)
        if not outcome.is_taken:
            replica = self._driver.replicas.get(state.name)  # it may have been dropped meanwhile
            if replica is not None:
                replica.proposal_refused(proposal.version)

    def ask(self, question: PeerMessage, timeout_ms: int, then: Continuation[PeerMessage]) -> None:
        """Ask the controller, which is another node."""
        controller, peers = self._driver.controller, self._driver.peers
        if controller in (NO_LEADER, self._driver.own.node) or peers is None:
            then(_NO_CONTROLLER)
        else:
            peers.ask(controller, question, timeout_ms, then)


def live_nodes(live: Mapping[int, ClusterNode], unreached: Collection[int]) -> dict[int, LiveNode]:
    """The nodes as the controller's machine sees them."""
    disks = {node: each.description.disk for node, each in live.items()}
    weights = space_weights({node: None if disk is None else disk.free_bytes for node, disk in disks.items()})
    return {
        node: LiveNode(
            each.incarnation,
            each.description.rack,
            weights[node],
            disks[node],
            each.description.origin,
            is_reached=node not in unreached,
        )
        for node, each in live.items()
    }
