"""Requests that other nodes hand to this one: Kafka's for the controller or of their own, and RocketMQ's commands.

Strategy: these are handled as if they had come by a connection, with the rights of the client, or with those of the
cluster for a node's own. The nodes have proven to each other that they belong to the cluster (`cluster/peers`), and no
client can have the principal of a node, whose kind is another one. Questions to other parts of this node are theirs.

Decides nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.broker.dispatch.forwarded import ForwardedRequests
from hutong.broker.handling.cluster_view import CommandHandler, PartHandler
from hutong.broker.handling.listeners import Listener
from hutong.broker.handling.session import ClientSession
from hutong.cluster.peers.port import PeerMessage, Peers
from hutong.cluster.questions import ForwardedRequest, QuestionCode, decode_forwarded
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.security.principals import CLUSTER_NODE, Principal
from hutong.wire.kafka.error_codes import ErrorCode

PART_CHARACTERS_MAX: Final = 50
ListenerOf = Callable[[str], Listener | None]


class KafkaQuestions:
    """Answers the other nodes' Kafka requests. `listener_of` gives this node's listener of a name."""

    def __init__(self, requests: ForwardedRequests, node: int, listener_of: ListenerOf) -> None:
        self._requests = requests
        self._node = node
        self._listener_of = listener_of
        self._handle_command: CommandHandler | None = None
        self._parts: dict[str, PartHandler] = {}

    def register(self, peers: Peers) -> None:
        peers.register(QuestionCode.KAFKA_FORWARDED, lambda _node, message, then: self.handle_forwarded(message, then))
        peers.register(QuestionCode.KAFKA_ASKED, self._asked)
        peers.register(
            QuestionCode.COMMAND_HANDED_OVER, lambda _node, message, then: self.handle_command(message, then)
        )
        peers.register(QuestionCode.PART_ASKED, lambda _node, message, then: self._ask_part(message, then))

    def take_over(self, handle: "CommandHandler | None") -> None:
        """Have `handle` answer RocketMQ's commands of other nodes' clients; None: nobody does."""
        self._handle_command = handle

    def serve_part(self, part: str, handle: "PartHandler | None") -> None:
        """Have `handle` answer the questions to a part of this node; None: nobody does."""
        if handle is None:
            self._parts.pop(part, None)
        else:
            self._parts[part] = handle

    def ask_own(self, frame: bytes, then: Continuation[bytes]) -> None:
        """Handle a request of this node itself."""
        self._requests.handle_frame(frame, self._requests.session_of(CLUSTER_NODE, f"node {self._node}"), then)

    def handle_forwarded(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        """Handle a client's request for the controller, which this node is."""
        asked = decode_forwarded(message)
        self._requests.handle_frame(asked.frame, self._session_of(asked), partial(_handled, then))

    def handle_command(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        """Handle a command of RocketMQ's for something that this node leads."""
        asked = decode_forwarded(message)
        if self._handle_command is None:
            then(Refused(ErrorCode.UNSUPPORTED_VERSION, f"Node {self._node} serves no clients of RocketMQ."))
        else:
            self._handle_command(asked.frame, self._session_of(asked), partial(_handled, then))

    def _ask_part(self, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        part = message.fields.get("part", "")
        handle = self._parts.get(part)
        if handle is None:
            then(Refused(ErrorCode.UNSUPPORTED_VERSION, f"Node {self._node} has no {part[:PART_CHARACTERS_MAX]}."))
        else:
            handle(message.body, partial(_handled, then))

    def _session_of(self, asked: ForwardedRequest) -> ClientSession:
        principal = Principal(asked.principal_type, asked.principal_name)
        listener = self._listener_of(asked.listener)
        session = self._requests.session_of(principal, asked.address, asked.port, listener)
        session.is_by_token = asked.is_by_token
        return session

    def _asked(self, node: int, message: PeerMessage, then: Continuation[PeerMessage]) -> None:
        session = self._requests.session_of(CLUSTER_NODE, f"node {node}")
        self._requests.handle_frame(bytes(message.body), session, partial(_handled, then))


def _handled(then: Continuation[PeerMessage], outcome: bytes | HutongError) -> None:
    then(outcome if isinstance(outcome, HutongError) else PeerMessage(0, {}, outcome))
