"""The cluster as the broker's handlers see it, from what the driver of the cluster knows.

Strategy: answers come from values in memory. What another node must do is asked over the link with it; a node that asks
itself gets its answer from its own handlers, so that callers need not know where a leader is.

Decides nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import structs

from hutong.broker.handling.cluster_view import (
    PART_MS_MAX,
    CommandHandler,
    CoordinationKind,
    NodeAddress,
    PartHandler,
)
from hutong.broker.handling.listeners import Listener
from hutong.broker.handling.session import ClientSession
from hutong.broker.topics.lifetimes import (
    METADATA_GROUP,
    OFFSETS_GROUP,
    SHARE_GROUP,
    TRANSACTIONS_GROUP,
    group_of_slot,
    shard_of,
)
from hutong.cluster.controller.commands import (
    CommandReply,
    ControllerCommand,
    ElectPreferred,
    ElectUnclean,
    ForgetNode,
)
from hutong.cluster.driver import ClusterDriver
from hutong.cluster.nodes import ClusterNode, HostPort
from hutong.cluster.peers.port import PeerMessage
from hutong.cluster.questions import ForwardedRequest, QuestionCode, encode_forwarded
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.replication.group_state import NO_LEADER
from hutong.server.cluster.asking_again import AskingAgain
from hutong.server.cluster.control import ClusterControl
from hutong.server.cluster.kafka_questions import KafkaQuestions
from hutong.server.cluster.standings import LeasedStanding
from hutong.wire.buffer import Buffer
from hutong.wire.kafka.error_codes import ErrorCode

T = TypeVar("T")
CONTROLLER_MS_MAX: Final = 10_000  # for an election
FORWARD_AGAIN_MS: Final = 100
FORWARD_MS_MAX: Final = 30_000  # Kafka's clients give a request as long (request.timeout.ms)
ASK_MS_MAX: Final = 10_000
COMMAND_MS_MAX: Final = 40_000  # RocketMQ's pulls wait for 20 s, and their clients for 30
_GROUPS: Final = {
    CoordinationKind.GROUP: OFFSETS_GROUP,
    CoordinationKind.TRANSACTION: TRANSACTIONS_GROUP,
    CoordinationKind.SHARE: SHARE_GROUP,
}


class ClusterBrokerView:
    """Implements `ClusterView`. `questions` has this node's own handlers answer; they are made later."""

    is_alone = False

    def __init__(
        self,
        driver: ClusterDriver,
        control: ClusterControl,
        standings: Mapping[str, LeasedStanding],
        clock: Clock,
        asking: AskingAgain,
        questions: Callable[[], KafkaQuestions],
        shards: int = 1,
    ) -> None:
        self._driver = driver
        self._control = control
        self._standings = standings
        self._clock = clock
        self._asking = asking
        self._questions = questions
        self._shards = shards  # of coordinators

    @property
    def controller_id(self) -> int:
        controller = self._driver.controller
        # One that has stepped down, or whose lease is over, knows of nobody else yet.
        if controller == self._driver.own.node and not self._standings[METADATA_GROUP].is_led_here:
            return NO_LEADER
        return controller

    @property
    def is_controller(self) -> bool:
        # One whose lease is over may have a successor that it does not hear of: it could store no decision.
        return self._control.is_controlling and self._standings[METADATA_GROUP].is_led_here

    def nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        return _addresses(self._driver.listed(), listener.name)

    def live_nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        return _addresses(self._driver.live, listener.name)

    def coordinator_of(self, kind: CoordinationKind, key: str) -> int:
        group = group_of_slot(_GROUPS[kind], shard_of(key, self._shards))
        state = self._driver.groups.get(group)
        if state is None or state.leader not in self._driver.live or state.leader in self._driver.doubted:
            return NO_LEADER
        # What it has in memory may be old: another node may coordinate since its lease ended, or it stepped down.
        standing = self._standings[group]
        is_over = standing.is_lapsed or standing.has_left
        return NO_LEADER if state.leader == self._driver.own.node and is_over else state.leader

    def forward(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        question = encode_forwarded(_forwarded(frame, session))
        attempt: Callable[[Continuation[PeerMessage]], None] = partial(self._forward, question)
        # An election takes less than most clients wait.
        until_ms = self._clock.monotonic_ms() + CONTROLLER_MS_MAX
        answered = partial(_answered, then)
        self._asking.ask(attempt, self._may_come, again_ms=FORWARD_AGAIN_MS, until_ms=until_ms, then=answered)

    def _forward(self, question: PeerMessage, then: Continuation[PeerMessage]) -> None:
        """Ask the controller of this moment."""
        controller, peers = self._driver.controller, self._driver.peers
        is_there = controller not in (NO_LEADER, self._driver.own.node)
        if is_there and peers is not None and peers.is_open(controller):
            peers.ask(controller, question, FORWARD_MS_MAX, then)
        # This node has been elected meanwhile: it was none when the request came.
        elif self.is_controller:
            self._questions().handle_forwarded(question, then)
        else:
            then(Refused(ErrorCode.NOT_CONTROLLER, "The cluster has no controller at this moment."))

    def _may_come(self, error: HutongError) -> bool:
        """Return True where a controller may answer later: a node that is cut off does not hear of an election."""
        is_elsewhere = isinstance(error, Refused) and error.code == ErrorCode.NOT_CONTROLLER
        return is_elsewhere and not self._driver.is_cut_off

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        if node == self._driver.own.node:
            self._questions().ask_own(frame, then)
        else:
            self._ask(node, PeerMessage(QuestionCode.KAFKA_ASKED, {}, frame), ASK_MS_MAX, then)

    def announce(self, listener: str, host: str, port: int) -> None:
        description = self._driver.own.description
        listeners = {**description.listeners, listener: HostPort(host, port)}
        self._driver.describe(structs.replace(description, listeners=listeners))

    def hand_over(self, node: int, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        question = encode_forwarded(_forwarded(frame, session), QuestionCode.COMMAND_HANDED_OVER)
        if node == self._driver.own.node:
            self._questions().handle_command(question, partial(_answered, then))
        else:
            self._ask(node, question, COMMAND_MS_MAX, then)

    def take_over(self, handle: "CommandHandler | None") -> None:
        self._questions().take_over(handle)

    def ask_part(
        self, node: int, part: str, question: bytes, then: Continuation[bytes], timeout_ms: int = PART_MS_MAX
    ) -> None:
        self._ask(node, PeerMessage(QuestionCode.PART_ASKED, {"part": part}, question), timeout_ms, then)

    def serve_part(self, part: str, handle: "PartHandler | None") -> None:
        self._questions().serve_part(part, handle)

    def ask_again(
        self,
        attempt: Callable[[Continuation[T]], None],
        may_repeat: Callable[[HutongError], bool],
        timeout_ms: int,
        then: Continuation[T],
    ) -> None:
        until_ms = self._clock.monotonic_ms() + timeout_ms
        self._asking.ask(attempt, may_repeat, again_ms=FORWARD_AGAIN_MS, until_ms=until_ms, then=then)

    def elect(self, group: str, *, is_unclean: bool, then: Continuation[None]) -> None:
        state = self._driver.groups.get(group)
        if state is None:
            then(Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition group {group}."))
            return
        live = [node for node in state.replicas if node in self._driver.live]
        if is_unclean and live:
            self._control.command(ElectUnclean(group, live[0]), partial(_commanded, then))
        else:
            self._control.command(ElectPreferred((group,)), partial(_commanded, then))

    def forget_node(self, node: int, then: Continuation[None]) -> None:
        self._control.command(ForgetNode(node), partial(_commanded, then))

    def command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        def replied(outcome: CommandReply | HutongError) -> None:
            if isinstance(outcome, HutongError) and not isinstance(outcome, Refused):
                then(Refused(ErrorCode.REQUEST_TIMED_OUT, f"It is unknown whether the controller did it: {outcome}."))
            else:
                then(outcome)

        self._control.command(command, replied)

    def _ask(self, node: int, question: PeerMessage, timeout_ms: int, then: Continuation[bytes]) -> None:
        assert self._driver.peers is not None
        self._driver.peers.ask(node, question, timeout_ms, partial(_answered, then))


def _addresses(nodes: Mapping[int, ClusterNode], listener: str) -> list[NodeAddress]:
    found = []
    for node, each in sorted(nodes.items()):
        address = each.description.listeners.get(listener)
        # A node that is still starting is alive for its peers alone.
        if address is not None:
            found.append(NodeAddress(node, address.host, address.port, each.description.rack))
    return found


def _forwarded(frame: Buffer, session: ClientSession) -> ForwardedRequest:
    return ForwardedRequest(
        principal_type=session.principal.kind,
        principal_name=session.principal.name,
        listener=session.listener.name,
        address=session.address,
        port=session.port,
        frame=bytes(frame),
        is_by_token=session.is_by_token,
    )


def _answered(then: Continuation[bytes], outcome: PeerMessage | HutongError) -> None:
    then(outcome if isinstance(outcome, HutongError) else bytes(outcome.body))


def _commanded(then: Continuation[None], outcome: CommandReply | HutongError) -> None:
    if isinstance(outcome, HutongError):
        then(outcome)
    elif outcome.error != ErrorCode.NONE:
        then(Refused(outcome.error, outcome.message))
    else:
        then(None)
