"""Intake of an acceptor: accepts connections while there is room, at the allowed rate.

Strategy: `connection_quotas` decides, this carries out. Without room the listening sockets are left alone, so that
new connections wait in the kernel's queue, until one goes or the pace allows another. A connection that is refused for
its address is closed at once, or, where it came too fast, after the time that its address has to wait. A connection
counts from here on, through its handshake, to its end.

Knows nothing of frames, nor of what is served.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.accept.connection_quotas import ConnectionQuotas, ConnectionRefusal
from hutong.reactor.accept.listening_socket import ListeningSocket
from hutong.reactor.connections.protocol import ConnectionProtocol
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.tls.protocol import TlsProtocol

DELAYED_MAX: Final = 1_000
"""Connections that are closed later; one more is closed at once."""
NO_DESCRIPTOR_WAIT_MS: Final = 100

Make = Callable[[], ConnectionProtocol | TlsProtocol]
"""Makes the protocol of one connection."""


class Intake:
    """Of one acceptor. `waits` says whether a connection too many waits or is closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        quotas: ConnectionQuotas,
        admits: Callable[[str], bool],
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: ReactorLimits,
        figures: ReactorFigures,
        waits: bool,
    ) -> None:
        """`admits` is asked for each address first (a gate)."""
        self.entered_total = 0
        self.left_total = 0
        self._loop = loop
        self._name = name
        self._quotas = quotas
        self._admits = admits
        self._clock = clock
        self._wheel = wheel
        self._limits = limits
        self._figures = figures
        self._waits = waits
        self._sockets: list[ListeningSocket] = []
        self._handings: dict[asyncio.Task[None], ConnectionProtocol | TlsProtocol] = {}
        self._untaken: dict[socket.socket, ConnectionProtocol | TlsProtocol] = {}  # of handings that have not begun
        self._delayed: dict[socket.socket, Timer] = {}
        self._blocked_ms_total = 0
        self._paused_at_ms: int | None = None
        self._timer: Timer | None = None  # of a pause that ends by itself
        quotas.on_room.append(self._room)

    def add(self, listener: socket.socket, make: Make) -> None:
        """Listen on a socket that is bound and does not block."""
        listening = ListeningSocket(
            self._loop, listener, self._has_room, partial(self._take, make), lambda _error: self._no_descriptor()
        )
        self._sockets.append(listening)
        listening.start(self._limits.listen_backlog)
        # The acceptor is full already: a new socket must not let connections past the bound.
        if self._paused_at_ms is not None:
            listening.pause()

    def close(self) -> None:
        """Take nobody any more. A second call does nothing."""
        if self._room in self._quotas.on_room:
            self._quotas.on_room.remove(self._room)
        self._resume()
        for listening in self._sockets:
            listening.close()
        for connection, timer in self._delayed.items():
            timer.cancel()
            connection.close()
        self._delayed.clear()
        for handing, protocol in self._handings.items():
            # A transport that has the socket closes it by itself.
            if not protocol.is_made:
                handing.cancel()
        # A task that is cancelled before its first step runs nothing: nobody else closes these sockets.
        for connection, protocol in self._untaken.items():
            connection.close()
            self.leave(protocol.address)
        self._untaken.clear()

    def enter(self, address: str) -> bool:
        """Count a connection from there, if it may come. False: it is to be closed."""
        return self._is_welcome(address) and self._refusal(address) is None

    def leave(self, address: str) -> None:
        self.left_total += 1
        self._quotas.leave(self._name, address)

    @property
    def blocked_ms_total(self) -> int:
        """The total time of pauses, the present one included."""
        running_ms = 0 if self._paused_at_ms is None else self._clock.monotonic_ms() - self._paused_at_ms
        return self._blocked_ms_total + running_ms

    def _has_room(self) -> bool:
        if not self._waits:
            return True
        # No timer: a connection that leaves ends this pause (`_room`).
        if self._quotas.is_full(self._name):
            self._pause(None)
            return False
        wait_ms = self._quotas.wait_ms(self._name, self._clock.monotonic_ms())
        # max.connection.creation.rate (KIP-612): the kernel's queue is the delay.
        if wait_ms:
            self._pause(wait_ms)
        return not wait_ms

    def _take(self, make: Make, connection: socket.socket, address: str) -> None:
        # The gate comes first, so that an address it excludes counts against no quota.
        if not self._is_welcome(address):
            connection.close()
            return
        refusal = self._refusal(address)
        if refusal is not None:
            self._close_after(connection, refusal[1])
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol = make()
        protocol.address, protocol.has_entered = address, True
        self._untaken[connection] = protocol
        handing = self._loop.create_task(self._hand_over(connection, protocol))
        self._handings[handing] = protocol
        handing.add_done_callback(self._handings.pop)

    async def _hand_over(self, connection: socket.socket, protocol: ConnectionProtocol | TlsProtocol) -> None:
        del self._untaken[connection]
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()  # gone already
        finally:
            # The peer was gone before the loop had a transport for it, so `connection_lost` never comes.
            if not protocol.is_made:
                self.leave(protocol.address)

    def _is_welcome(self, address: str) -> bool:
        if self._admits(address) and (self._waits or not self._quotas.is_full(self._name)):
            return True
        self._figures.connections_refused_total += 1
        return False

    def _refusal(self, address: str) -> tuple[ConnectionRefusal, int] | None:
        refusal = self._quotas.enter(self._name, address, self._clock.monotonic_ms())
        if refusal is None:
            self.entered_total += 1
        else:
            # Two metrics, as an operator raises one bound or the other.
            if refusal[0] is ConnectionRefusal.TOO_MANY_OF_ONE_ADDRESS:
                self._figures.connections_refused_per_ip_total += 1
            else:
                self._figures.connections_refused_per_ip_rate_total += 1
        return refusal

    def _close_after(self, connection: socket.socket, wait_ms: int) -> None:
        """Delay the close of a connection that came too fast, so that reconnecting at once costs it time."""
        # Delayed closes hold descriptors: a flood must not use them up.
        if not wait_ms or len(self._delayed) >= DELAYED_MAX:
            connection.close()
            return

        def close() -> None:
            del self._delayed[connection]
            connection.close()

        self._delayed[connection] = self._wheel.add(self._clock.monotonic_ms() + wait_ms, close)

    def _no_descriptor(self) -> None:
        """The process has no descriptor for another connection: they wait a moment, as the kernel has no other sign."""
        self._pause(NO_DESCRIPTOR_WAIT_MS)

    def _pause(self, wait_ms: int | None) -> None:
        if self._paused_at_ms is not None:
            return
        self._paused_at_ms = self._clock.monotonic_ms()
        for listening in self._sockets:
            listening.pause()
        if wait_ms is not None:
            self._timer = self._wheel.add(self._paused_at_ms + wait_ms, self._resume)

    def _room(self) -> None:
        # A pause for the rate ends by its timer; room does not shorten it.
        if self._paused_at_ms is not None and self._timer is None:
            self._resume()

    def _resume(self) -> None:
        if self._paused_at_ms is None:
            return
        self._blocked_ms_total += self._clock.monotonic_ms() - self._paused_at_ms
        self._paused_at_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for listening in self._sockets:
            listening.resume()
