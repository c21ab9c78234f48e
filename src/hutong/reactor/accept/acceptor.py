"""Accepts connections within the limits, and ends them all when the node stops.

Strategy: an `intake` takes connections, under quotas that several acceptors may share: then a connection too many
in total waits in the kernel's queue. An acceptor with bounds of its own closes it at once, so that the peer learns it.
Open connections are kept in `open_connections`.

Knows nothing of frames or requests. One acceptor serves one handler on one loop.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import count

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.connection_quotas import ConnectionLimits, ConnectionQuotas
from hutong.reactor.accept.gate import ConnectionGate
from hutong.reactor.accept.intake import Intake
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.connections.open_connections import OpenConnections
from hutong.reactor.connections.protocol import AcceptorServices, ConnectionProtocol
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import Framing
from hutong.reactor.frames.request_queue import UNBOUNDED
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.memory.watch import MemoryWatch
from hutong.reactor.tls.handshakes import Handshakes
from hutong.reactor.tls.protocol import TlsProtocol, TlsSource

OpenSocket = Callable[[int, int, int], socket.socket]
"""Makes a socket by family, kind and protocol."""


class Acceptor:
    """Listens on any number of addresses. The wheel must be driven, by `runtime.timers.LoopTimers` for one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        framing: Callable[[int], Framing],
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: ReactorLimits | None = None,
        gate: ConnectionGate | None = None,
        name: str = "",
        quotas: ConnectionQuotas | None = None,
        memory: MemoryWatch | None = None,
        figures: ReactorFigures | None = None,
        peer_ids: Iterator[int] | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        """`framing` makes the framing of one connection from its frame limit in bytes.

        With `quotas`, which know this acceptor by its name, the bounds of connections in `limits` do not count.
        `memory` watches what the connections hold, together with those of other acceptors; without one this acceptor
        has its own, with the bound of its limits. `figures` may be those of several acceptors together. Acceptors with
        one handler behind them share `peer_ids`: it may keep state by the number of a peer. `open_socket` makes those
        that listen.
        """
        self.limits = limits or ReactorLimits()
        self.figures = figures or ReactorFigures()
        self.figures.queue.requests_max = self.limits.queued_requests_max or UNBOUNDED
        self.figures.queue.bytes_max = self.limits.queued_bytes_max or UNBOUNDED
        self._loop = loop
        self._open_socket = open_socket
        self._peer_ids = peer_ids or count(1)
        self._open = OpenConnections(clock, wheel)
        self.memory = memory or MemoryWatch(self.limits.memory_bytes_max, loop, clock, wheel)
        self.memory.add(self._open, self.figures)
        # A gate may wrap the handler, and needs a way to cut connections.
        if gate is not None:
            handler = gate.before(handler, self._open.cut)
        shed, check = self._open.shed, self.memory.mark_passed
        self._around = AcceptorServices(
            loop, handler, framing, clock, wheel, self.limits, self.figures, self._admit, self._left, shed, check
        )
        own = ConnectionQuotas(ConnectionLimits(self.limits.connections_max, self.limits.connections_per_ip_max))
        self._intake = Intake(
            loop,
            name,
            quotas or own,
            (lambda _address: True) if gate is None else gate.admits,
            clock=clock,
            wheel=wheel,
            limits=self.limits,
            figures=self.figures,
            waits=quotas is not None,
        )
        self._handshakes = Handshakes(clock, self.figures, self._intake.leave)

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | TlsSource | None = None, *, is_tls_optional: bool = False
    ) -> tuple[str, int]:
        """Accept connections on every address of `host`; port 0 takes any free one, the same for all of them.

        With `tls` (a function is asked for each connection) a connection begins once its handshake is done, and one
        whose handshake takes longer than `handshake_ms_max` is closed. Where it `is_tls_optional`, the first byte of
        each connection says whether it is TLS. Returns the first address and the port. Raises OSError where it cannot
        be bound.
        """
        make = self._plain if tls is None else self._encrypted(tls, is_tls_optional)
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[tuple[str, int]] = []
        # `localhost` resolves to IPv4 and IPv6; some resolvers return an address twice.
        for family, kind, number, _, address in dict.fromkeys(found):
            listener = self._open_socket(family, kind, number)
            try:
                # Inherited by the sockets accepted.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                # Else `::` would take IPv4's port as well, and binding 0.0.0.0 next would fail.
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if (
                    self.limits.receive_buffer_bytes is not None
                ):  # before the handshake of TCP, which announces its size
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer_bytes)
                listener.setblocking(False)
                # The port that the first address got, so that port 0 gives one port for all.
                listener.bind((address[0], bound[0][1] if bound else port, *address[2:]))
            except OSError:
                listener.close()
                raise
            bound.append(listener.getsockname()[:2])
            self._intake.add(listener, make)
        return bound[0]

    async def drain(self, grace_ms: int | None = None) -> None:
        """Accept and read no more, let requests in flight be answered, close; after the grace what is left is cut off.

        `grace_ms` is `drain_ms_max` by default. On return every connection has been closed and the handler notified.
        """
        # In this order nothing new appears behind what is being closed.
        self._intake.close()
        self._handshakes.close()
        await self._open.drain(self.limits.drain_ms_max if grace_ms is None else grace_ms)

    @property
    def connections_accepted_total(self) -> int:
        return self._intake.entered_total

    @property
    def connections_left_total(self) -> int:
        """Those of them that are gone."""
        return self._intake.left_total

    @property
    def answers_waiting(self) -> int:
        """Answers that wait for one to an earlier request of their connection; every connection is asked."""
        return sum(connection.answers_waiting for connection in self._open)

    @property
    def accept_blocked_ms_total(self) -> int:
        """The total time without accepts, for want of room or because of the rate limit."""
        return self._intake.blocked_ms_total

    def cut(self, is_chosen: Callable[[Peer], bool]) -> int:
        """End the connections of the peers for which this holds, now and with what is unsent; returns how many."""
        return self._open.cut(is_chosen)

    def _plain(self) -> ConnectionProtocol:
        return ConnectionProtocol(self._around)

    def _encrypted(self, tls: ssl.SSLContext | TlsSource, is_optional: bool) -> Callable[[], TlsProtocol]:
        source = (lambda: tls) if isinstance(tls, ssl.SSLContext) else tls
        return lambda: TlsProtocol(self._around, source, self._handshakes, is_optional=is_optional)

    def _admit(self, connection: ConnectionProtocol) -> int | None:
        # The intake has counted those that it accepted.
        if not connection.has_entered and not self._intake.enter(connection.address):
            return None
        # A handshake may end after the drain began.
        if self._open.is_draining:
            self._intake.leave(connection.address)
            return None
        self.figures.connections_open += 1
        self.figures.connections_accepted_total += 1
        self._open.add(connection)
        return next(self._peer_ids)

    def _left(self, connection: ConnectionProtocol) -> None:
        self.figures.connections_open -= 1
        self._intake.leave(connection.address)
        self._open.discard(connection)


def close_longest_idle(acceptors: Iterable[Acceptor], count: int) -> None:
    """Close `count` connections of these acceptors, the longest idle first."""
    connections = [connection for acceptor in acceptors for connection in acceptor._open]
    for connection in nsmallest(count, connections, key=lambda connection: connection.active_at_ms):
        connection.abort(CloseReason.EXCESS)
