"""The cluster as handlers see it: its nodes, its controller, and who coordinates a key.

Strategy: a port. A node alone is its own cluster (`AloneView`); in a cluster `server/cluster` implements it from what
the coordinator and the metadata say.

Knows nothing of connections between nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.handling.session import ClientSession
    from hutong.cluster.controller.commands import CommandReply, ControllerCommand
    from hutong.wire.buffer import Buffer

T = TypeVar("T")
PART_MS_MAX: Final = 30_000  # Kafka's clients give a request as long (request.timeout.ms)
CommandHandler: TypeAlias = "Callable[[Buffer, ClientSession, Continuation[bytes]], None]"
"""Handles a RocketMQ command, a frame without its size; the continuation gets the answer's frame, with its size."""
PartHandler: TypeAlias = "Callable[[Buffer, Continuation[bytes]], None]"
"""Handles a question of another node's part of the same name."""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """A node, by its address at the listener of the client's own name."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class CoordinationKind(Enum):
    """The kinds of coordinators, each with state of its own."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"


class ClusterView(Protocol):
    """The questions of handlers about other nodes."""

    @property
    def is_alone(self) -> bool:
        """True for a node without a cluster."""
        ...

    @property
    def controller_id(self) -> int:
        """The node that takes changes of the metadata, NO_LEADER while there is none."""
        ...

    @property
    def is_controller(self) -> bool:
        """True while this node takes them."""
        ...

    def nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        """All nodes with a listener of this name, by their numbers: live ones, and those that were a moment ago."""
        ...

    def live_nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        """The live ones of them."""
        ...

    def coordinator_of(self, kind: CoordinationKind, key: str) -> int:
        """The node that coordinates the key, NO_LEADER while there is none."""
        ...

    def forward(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        """Have the controller handle a request of this session; `then` gets the frame of its response, with its size.

        While there is no controller it may wait for one, then `then` gets Refused(NOT_CONTROLLER). Any other error says
        that nobody knows whether it was handled.
        """
        ...

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        """Have another node handle a Kafka request of this node itself; `then` gets the frame of its response."""
        ...

    def announce(self, listener: str, host: str, port: int) -> None:
        """Let the others know where clients of another kind reach this node: `nodes` of that name has it."""
        ...

    def hand_over(self, node: int, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        """Have a node, or this one, handle a RocketMQ command of this session; `then` gets the frame of its answer."""
        ...

    def take_over(self, handle: CommandHandler | None) -> None:
        """Have `handle` answer the commands that other nodes hand over; None: nobody does."""
        ...

    def ask_part(
        self, node: int, part: str, question: bytes, then: Continuation[bytes], timeout_ms: int = PART_MS_MAX
    ) -> None:
        """Have a part of another node answer, such as its schema registry.

        `then` gets Refused(UNSUPPORTED_VERSION) where that node has no such part, Expired after `timeout_ms`.
        """
        ...

    def serve_part(self, part: str, handle: PartHandler | None) -> None:
        """Have `handle` answer the questions of other nodes to a part of this one; None: nobody does."""
        ...

    def ask_again(
        self,
        attempt: Callable[[Continuation[T]], None],
        may_repeat: Callable[[HutongError], bool],
        timeout_ms: int,
        then: Continuation[T],
    ) -> None:
        """Make an attempt until its outcome is final, or the time is over; `then` gets the last outcome."""
        ...

    def elect(self, group: str, *, is_unclean: bool, then: Continuation[None]) -> None:
        """Let the preferred replica lead a partition group, or any that is left. Called on the controller."""
        ...

    def forget_node(self, node: int, then: Continuation[None]) -> None:
        """Take a node that is gone out of the cluster. Called on the controller. `then` gets Refused for a live one."""
        ...

    def command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        """Have the controller carry out an operator's command, wherever it is. On a node alone `then` gets Refused."""
        ...


class AloneView:
    """A node without others."""

    is_alone = True
    is_controller = True

    def __init__(self, node_id: int) -> None:
        self.controller_id = node_id

    def nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        return (NodeAddress(self.controller_id, listener.host, listener.port),)

    def live_nodes(self, listener: Listener) -> Sequence[NodeAddress]:
        return self.nodes(listener)

    def coordinator_of(self, kind: CoordinationKind, key: str) -> int:
        return self.controller_id

    def forward(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        raise AssertionError("a node alone is its own controller")

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        raise AssertionError("a node alone asks nobody")

    def announce(self, listener: str, host: str, port: int) -> None:
        """Nobody else asks."""

    def hand_over(self, node: int, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        raise AssertionError("a node alone asks nobody")

    def take_over(self, handle: CommandHandler | None) -> None:
        """Nobody hands anything over."""

    def ask_part(
        self, node: int, part: str, question: bytes, then: Continuation[bytes], timeout_ms: int = PART_MS_MAX
    ) -> None:
        raise AssertionError("a node alone asks nobody")

    def serve_part(self, part: str, handle: PartHandler | None) -> None:
        """Nobody else asks."""

    def ask_again(
        self,
        attempt: Callable[[Continuation[T]], None],
        may_repeat: Callable[[HutongError], bool],
        timeout_ms: int,
        then: Continuation[T],
    ) -> None:
        raise AssertionError("a node alone asks nobody")

    def elect(self, group: str, *, is_unclean: bool, then: Continuation[None]) -> None:
        raise AssertionError("a node alone leads all groups")

    def forget_node(self, node: int, then: Continuation[None]) -> None:
        raise AssertionError("a node alone forgets nobody")

    def command(self, command: ControllerCommand, then: Continuation[CommandReply]) -> None:
        then(Refused(ErrorCode.INVALID_REQUEST, "This node is alone: commands for clusters have nothing to do here."))
