"""Accepts connections within the limits, and ends them all when the node stops.

Strategy: a connection over a limit is accepted and closed at once, so that the peer learns it and the kernel's queue
stays short for others (as Kafka does per address). What is open lies in `open_connections`.

Knows nothing of frames or requests. One acceptor serves one handler on one loop.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from itertools import count

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.door import Door
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.framing import Framing
from hutong.reactor.handler import Handler, Peer
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.open_connections import OpenConnections
from hutong.reactor.protocol import SCRATCH_BYTES, ConnectionProtocol, Surroundings, Turns
from hutong.reactor.sniffing import SniffingListener


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
        door: Door | None = None,
    ) -> None:
        """`framing` makes the framing of one connection from its frame limit in bytes."""
        self.limits = limits or ReactorLimits()
        self.figures = ReactorFigures()
        self._loop = loop
        self._servers: list[asyncio.Server | SniffingListener] = []
        self._peer_ids = count(1)
        self._open = OpenConnections(clock, wheel)
        self._connections_per_ip: dict[str, int] = {}
        self._door = door
        self._around = Surroundings(
            loop,
            handler if door is None else door.before(handler, self._open.cut),
            framing,
            clock,
            wheel,
            self.limits,
            self.figures,
            Turns(loop),
            memoryview(bytearray(SCRATCH_BYTES)),
            self._admit,
            self._left,
            self._open.shed,
        )

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, is_tls_optional: bool = False
    ) -> tuple[str, int]:
        """Accept connections on every address of `host`; port 0 takes any free one, the same for all of them.

        With `tls` a connection begins once its handshake is done, and one whose handshake takes longer than
        `handshake_ms_max` is closed. Where it `is_tls_optional`, the first byte of each connection says whether it is
        TLS (see `sniffing`). Returns the first address and the port. Raises OSError where it cannot be bound.
        """
        handshake_s = self.limits.handshake_ms_max / 1000 if tls is not None else None
        closing_s = self.limits.closing_ms_max / 1000 if tls is not None else None
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound: list[tuple[str, int]] = []
        for family, kind, number, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, number)
            try:
                # Both are inherited by the sockets accepted; TCP_NODELAY is set by the loop.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.setblocking(False)
                listener.bind((address[0], bound[0][1] if bound else port, *address[2:]))
            except OSError:
                listener.close()
                raise
            bound.append(listener.getsockname()[:2])
            if tls is not None and is_tls_optional:
                self._servers.append(self._sniffing(listener, tls))
                continue
            self._servers.append(
                await self._loop.create_server(
                    lambda: ConnectionProtocol(self._around),
                    sock=listener,
                    backlog=self.limits.listen_backlog,
                    ssl=tls,
                    ssl_handshake_timeout=handshake_s,
                    ssl_shutdown_timeout=closing_s,
                )
            )
        return bound[0]

    async def drain(self, grace_ms: int | None = None) -> None:
        """Accept and read no more, let requests in flight be answered, close; after the grace what is left is cut off.

        `grace_ms` is `drain_ms_max` by default. On return every connection has been closed and the handler told.
        """
        for server in self._servers:
            server.close()
        await self._open.drain(self.limits.drain_ms_max if grace_ms is None else grace_ms)

    def cut(self, is_chosen: Callable[[Peer], bool]) -> int:
        """End the connections of the peers for which this holds, now and with what is unsent; returns how many."""
        return self._open.cut(is_chosen)

    def _sniffing(self, listener: socket.socket, tls: ssl.SSLContext) -> SniffingListener:
        around = self._around
        sniffing = SniffingListener(
            self._loop, listener, lambda: ConnectionProtocol(around), tls, around.clock, around.wheel, self.limits
        )
        sniffing.start()
        return sniffing

    def _admit(self, connection: ConnectionProtocol) -> int | None:
        figures, limits, per_ip = self.figures, self.limits, self._connections_per_ip
        is_shut = self._door is not None and not self._door.admits(connection.address)
        if is_shut or self._open.is_draining or figures.connections_open >= limits.connections_max:
            figures.connections_refused_total += 1
            return None
        open_from_there = per_ip.get(connection.address, 0)
        if open_from_there >= limits.connections_per_ip_max:
            figures.connections_refused_per_ip_total += 1
            return None
        per_ip[connection.address] = open_from_there + 1
        figures.connections_open += 1
        figures.connections_accepted_total += 1
        self._open.add(connection)
        return next(self._peer_ids)

    def _left(self, connection: ConnectionProtocol) -> None:
        self.figures.connections_open -= 1
        remaining = self._connections_per_ip[connection.address] - 1
        if remaining:
            self._connections_per_ip[connection.address] = remaining
        else:
            del self._connections_per_ip[connection.address]
        self._open.discard(connection)
