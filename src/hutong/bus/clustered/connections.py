"""The two kinds of connections between nodes, as handlers of the reactor.

Strategy: as in Vert.x, each direction has its own connection. One that this node has opened carries its messages, and
bytes that come back are pongs. One that was accepted carries the messages of another node, and pongs to it. The first
message of an accepted connection names its sender, which stays the same. A node opens another one when it has given up
the last. What still comes by that would arrive behind later messages, so the newest connection of a node counts.

Knows no messages but pings.
"""

import itertools
from collections.abc import Sequence
from typing import Final, Protocol

from hutong.bus.clustered.link import NodeLink
from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.foundation.errors import ProtocolError
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer, RequestBatch
from hutong.wire.buffer import Buffer
from hutong.wire.vertx.cluster_frames import LENGTH_BYTES, PING_CODEC, PONG, ClusterFrame, decode
from hutong.wire.vertx.usual_frames import UsualFrame, take_frames
from hutong.wire.vertx.wire_versions import VERSION_2, WireVersion

FRAMES_MAX: Final = 4_096
"""Usual frames that are taken together: a read has 256 KiB, and small frames have 60 bytes."""
_REPLY_PREFIX: Final = REPLY_PREFIX.encode()


class IncomingMessages(Protocol):
    """The receiver of what accepted connections bring."""

    def frame_received(self, frame: ClusterFrame, size: int) -> None:
        """Take the message of another node, whose frame has `size` bytes."""

    def usual_received(self, node: str, frames: Sequence[UsualFrame], size: int) -> None:
        """Take usual messages of the node, whose frames have `size` bytes together."""


class _AcceptedConnection:
    """The session of a peer. `node` is None until its first message."""

    __slots__ = ("_incoming", "_sender", "_wire", "is_over", "node", "number", "peer")

    def __init__(self, number: int, peer: Peer, incoming: IncomingMessages, wire: WireVersion) -> None:
        self.number = number  # rises with each that is accepted
        self.peer = peer
        self.node: str | None = None
        self._sender = b""  # the same as frames have it
        self.is_over = False  # the node has a newer one
        self._incoming = incoming
        self._wire = wire

    def take_requests(self, data: Buffer, requests_max: int) -> RequestBatch | None:
        """Take the usual messages at the beginning of what was read, without a step of the reactor for each.

        The first message of a connection comes by `request_received`, and so does every message that is not usual.
        """
        if self.node is None or self.is_over:
            return None
        # `requests_max` bounds answers that are under way on a connection, and none is given by this one. What would be
        # left goes frame by frame, at three times the cost.
        version, sender = self._wire.number, self._sender
        frames, taken = take_frames(data, version, sender, _REPLY_PREFIX, FRAMES_MAX, self.peer.frame_limit)
        if not frames:
            return None
        self._incoming.usual_received(self.node, frames, taken)
        return len(frames), taken, []

    def name(self, node: str) -> None:
        self.node = node
        self._sender = self._wire.sender_bytes(node)


class AcceptedConnections:
    """The handler of connections that other nodes have opened."""

    def __init__(self, node: str | None, incoming: IncomingMessages, wire: WireVersion = VERSION_2) -> None:
        """`node` is the name of this one, or None while it has none."""
        self.node = node
        self._incoming = incoming
        self._wire = wire
        self._numbers = itertools.count(1)
        self._newest: dict[str, _AcceptedConnection] = {}  # by node; each is open

    def connection_opened(self, peer: Peer) -> None:
        # Who it is, the first message says.
        peer.session = peer.express = _AcceptedConnection(next(self._numbers), peer, self._incoming, self._wire)

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        message = decode(frame, self._wire)
        # It was there before at the same place: others may still send to it. They try again.
        if self.node is None:
            raise ProtocolError("a message has come to a node that has not entered the cluster yet")
        # A ping names its receiver where others name their sender.
        if message.codec == PING_CODEC:
            # For a node that was at this place before: its messages are not for this one.
            if message.sender != self.node:
                raise ProtocolError(f"a connection for node {message.sender} has come to node {self.node}")
            return [PONG]
        connection: _AcceptedConnection = peer.session
        # No node connects to itself: an answer would wait here for an entry that is never another's.
        if message.sender == self.node:
            raise ProtocolError("a connection has a message of the very node that it came to")
        if connection.node is None:
            self._name(connection, message.sender)
        # Otherwise one connection could answer requests that were sent to another node.
        elif connection.node != message.sender:
            raise ProtocolError(f"a connection of node {connection.node} has a message of node {message.sender}")
        # The node has given it up, and sends by another one: delivered, this would come after what was sent later.
        if not connection.is_over:
            self._incoming.frame_received(message, LENGTH_BYTES + len(frame))
        return None

    def connection_closed(self, peer: Peer) -> None:
        # That a node has gone, the membership says, and the connection to it.
        connection: _AcceptedConnection = peer.session
        if connection.node is not None and self._newest.get(connection.node) is connection:
            del self._newest[connection.node]

    def _name(self, connection: _AcceptedConnection, node: str) -> None:
        connection.name(node)
        other = self._newest.get(node)
        newer, older = connection, other
        # The first message of an older one may be read last: its bytes have waited here.
        if other is not None and other.number > connection.number:
            newer, older = other, connection
        self._newest[node] = newer
        if older is not None:
            older.is_over = True
            older.peer.close()


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
