"""The two kinds of connections between nodes, as handlers of the reactor.

Strategy: as in Vert.x, each direction has its own connection. One that this node has opened carries its messages, and
bytes that come back are pongs. One that was accepted carries the messages of another node, and pongs to it. The first
message of an accepted connection names its sender, which stays the same.

Knows no messages but pings.
"""

from typing import Final, Protocol

from hutong.bus.clustered.link import NodeLink
from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.wire.buffer import Buffer
from hutong.wire.vertx.cluster_frames import PING_CODEC, PONG, ClusterFrame, decode

LENGTH_BYTES: Final = 4
"""Of the length before each frame."""


class IncomingMessages(Protocol):
    """The receiver of what accepted connections bring."""

    def frame_received(self, frame: ClusterFrame, size: int) -> None:
        """Take the message of another node, whose frame has `size` bytes."""


class AcceptedConnections:
    """The handler of connections that other nodes have opened."""

    def __init__(self, incoming: IncomingMessages) -> None:
        self._incoming = incoming

    def connection_opened(self, peer: Peer) -> None:
        """Do nothing: who it is, the first frame says."""

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        message = decode(frame)
        # A ping names its receiver where others name their sender.
        if message.codec == PING_CODEC:
            return [PONG]
        # Otherwise one connection could answer requests that were sent to another node.
        if peer.session is None:
            peer.session = message.sender
        elif peer.session != message.sender:
            raise ProtocolError(f"a connection of node {peer.session} has a message of node {message.sender}")
        self._incoming.frame_received(message, LENGTH_BYTES + len(frame))
        return []

    def connection_closed(self, peer: Peer) -> None:
        """Do nothing: the membership says that a node has gone, and so does the connection to it."""


class OutgoingEvents(Protocol):
    """The receiver of what happens to connections that this node has opened."""

    def pong_received(self, link: NodeLink) -> None: ...

    def connection_ended(self, link: NodeLink) -> None: ...


class OpenedConnections:
    """The handler of connections that this node has opened. The session of a peer is its link."""

    def __init__(self, events: OutgoingEvents) -> None:
        self._events = events

    def connection_opened(self, peer: Peer) -> None:
        # Pongs are read whether the node reads or not, and nothing else comes.
        peer.is_duplex = True

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if peer.session is not None:
            self._events.pong_received(peer.session)
        return None

    def connection_closed(self, peer: Peer) -> None:
        link: NodeLink | None = peer.session
        # One that was closed from here has no link any more.
        if link is not None and link.peer is peer:
            self._events.connection_ended(link)


class PongFraming:
    """One pong for all that comes in one read: nothing else is sent on such a connection."""

    __slots__ = ("bytes_held", "failure", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.bytes_held = 0
        self.failure: ProtocolError | None = None

    def receive_data(self, data: Buffer) -> list[Buffer]:
        return [PONG]
