"""A listener whose connections are TLS or not, as their first byte says: 0x16 begins a handshake, and no frame of ours.

Strategy: the socket is accepted here and looked into before any transport has it (MSG_PEEK takes nothing out), then
given to the loop with TLS or without, like any other. So the two kinds differ in nothing afterwards, and no loop has to
be talked into turning a transport that has read already into another one.

A connection that says nothing for `handshake_ms_max` is closed; `connections_max` bounds those that have said nothing.
Knows nothing of what is served.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.limits import ReactorLimits

HANDSHAKE: Final = b"\x16"
ACCEPTED_PER_TURN: Final = 64


class SniffingListener:
    """Accepts until it is closed; then those that have said nothing are closed too."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext,
        clock: Clock,
        wheel: TimerWheel,
        limits: ReactorLimits,
    ) -> None:
        """`listener` is bound, does not block, and is this object's from now on."""
        self._loop = loop
        self._listener = listener
        self._make_protocol = make_protocol
        self._tls = tls
        self._clock = clock
        self._wheel = wheel
        self._limits = limits
        self._silent: dict[socket.socket, Timer] = {}
        self._handshakes: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        self._listener.listen(self._limits.listen_backlog)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """A second call does nothing."""
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in list(self._silent):
            self._let_go(connection)
            connection.close()
        for handshake in self._handshakes:
            handshake.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # nobody (any more), or no descriptor left: the kernel keeps the rest for the next turn
            if len(self._silent) + len(self._handshakes) >= self._limits.connections_max:
                connection.close()
                continue
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            due_ms = self._clock.monotonic_ms() + self._limits.handshake_ms_max
            self._silent[connection] = self._wheel.add(due_ms, partial(self._expire, connection))
            self._loop.add_reader(connection, self._look, connection)

    def _look(self, connection: socket.socket) -> None:
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._let_go(connection)
        if not first:
            connection.close()
            return
        handshake: asyncio.Task[object] = self._loop.create_task(self._serve(connection, first == HANDSHAKE))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _serve(self, connection: socket.socket, is_tls: bool) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._tls if is_tls else None,
                ssl_handshake_timeout=self._limits.handshake_ms_max / 1000 if is_tls else None,
                ssl_shutdown_timeout=self._limits.closing_ms_max / 1000 if is_tls else None,
            )
        except OSError:
            connection.close()  # the handshake failed: the peer's affair

    def _expire(self, connection: socket.socket) -> None:
        self._let_go(connection)
        connection.close()

    def _let_go(self, connection: socket.socket) -> None:
        self._silent.pop(connection).cancel()
        self._loop.remove_reader(connection)
