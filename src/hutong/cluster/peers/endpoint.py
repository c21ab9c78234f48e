"""The connections of a peer network: accepted and dialled ones, under one endpoint of remoting.

Strategy: each connection has a session, which takes its commands: a greeting first, then a link. What a link does not
take is a question or an answer, and remoting's own part.

Knows nothing of what sessions do.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol

from hutong.cluster.peers.limits import PeerLimits
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import Connector
from hutong.reactor.frames.framing import length_prefixed
from hutong.remoting.channels.channel import Channel
from hutong.remoting.endpoint import Endpoint
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import Command, decode

VIEWED_BYTES: Final = 4 * 1024  # of a frame whose body is taken as a view, not as a copy


class PeerSession(Protocol):
    """The user of one connection."""

    def received(self, command: Command, size: int) -> bool:
        """Take a command; False leaves it to remoting. Raises ProtocolError."""
        ...

    def connection_closed(self) -> None: ...


class PeerEndpoint(Endpoint):
    """`accepted` gives a new connection its session. One that was dialled gets it from who dialled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: PeerLimits,
        open_socket: OpenSocket,
        accepted: Callable[[Peer], PeerSession],
    ) -> None:
        remoting = limits.remoting()
        super().__init__(loop, clock=clock, wheel=wheel, limits=remoting)
        self._accepted = accepted
        self._handshake_frame_bytes_max = limits.handshake_frame_bytes_max
        framing, reactor, peer_ids = length_prefixed(), remoting.reactor, count(1)
        self.acceptor = Acceptor(
            loop,
            _AcceptedConnections(self),
            framing,
            clock=clock,
            wheel=wheel,
            limits=reactor,
            peer_ids=peer_ids,
            open_socket=open_socket,
        )
        self.connector = Connector(loop, self, framing, clock=clock, wheel=wheel, limits=reactor, peer_ids=peer_ids)

    def accept(self, peer: Peer) -> None:
        self.connection_opened(peer)
        peer.session = self._accepted(peer)

    def channel_of(self, peer: Peer) -> Channel | None:
        """None once the connection has ended."""
        return self._channels.get(peer.id)

    def cut(self, peer: Peer) -> None:
        """End the connection now, with what is unsent."""
        self.acceptor.cut(lambda each: each is peer)
        self.connector.cut(lambda each: each is peer)

    async def close(self, grace_ms: int) -> None:
        """Send what is ready, within the grace, and end all connections."""
        await self.acceptor.drain(grace_ms)
        await self.connector.close(grace_ms)

    # For the reactor.

    def connection_opened(self, peer: Peer) -> None:
        super().connection_opened(peer)
        peer.frame_limit = self._handshake_frame_bytes_max

    def request_received(self, frame: Buffer | Command, peer: Peer) -> Response:
        assert not isinstance(frame, Command), "there is no pipeline"
        session: PeerSession | None = peer.session
        # It was dialled, and speaks before it was spoken to.
        if session is None:
            raise ProtocolError("a frame before the handshake")
        size = len(frame)
        command = decode(memoryview(frame) if size > VIEWED_BYTES else frame)
        if session.received(command, size):
            return None
        return super().request_received(command, peer)

    def connection_closed(self, peer: Peer) -> None:
        super().connection_closed(peer)
        session: PeerSession | None = peer.session
        if session is not None:
            session.connection_closed()


class _AcceptedConnections:
    """The handler of accepted connections: the endpoint's own, with another beginning."""

    def __init__(self, endpoint: PeerEndpoint) -> None:
        self.connection_opened = endpoint.accept
        self.request_received = endpoint.request_received
        self.connection_closed = endpoint.connection_closed
