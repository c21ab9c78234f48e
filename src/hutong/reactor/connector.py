"""Opens connections that are then served as an acceptor's are: same engine, peer, handler, limits and figures.

Strategy: both sides of an open connection are the same, so this module only opens connections: one
deadline over look-up, connect and TLS handshake together, and no orphaned connection, whichever side gives up.

Knows nothing of frames, and does not connect again by itself.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.connections.open_connections import OpenConnections
from hutong.reactor.connections.protocol import AcceptorServices, ConnectionProtocol
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.frames.framing import Framing
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.memory.watch import MemoryWatch
from hutong.reactor.names import NameLookups

CONNECT_MS_MAX = 3_000


class Connector:
    """Any number of connections to anywhere, on one loop, for one handler. The wheel must be driven."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        framing: Callable[[int], Framing],
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: ReactorLimits | None = None,
        peer_ids: Iterator[int] | None = None,
    ) -> None:
        """`framing` makes the framing of one connection from its frame limit in bytes.

        Of the limits, those on accepting mean nothing here, and `connections_max` counts the attempts as well.
        `peer_ids` may be those of an acceptor with the same handler.
        """
        self.limits = limits or ReactorLimits()
        self.figures = ReactorFigures()
        self._loop = loop
        self._clock = clock
        self._wheel = wheel
        self._peer_ids = peer_ids or count(1)
        self._names = NameLookups(loop)
        self._open = OpenConnections(clock, wheel)
        self._attempts: dict[ConnectionProtocol, asyncio.Task[None]] = {}
        self._memory = MemoryWatch(self.limits.memory_bytes_max, loop, clock, wheel)
        self._memory.add(self._open, self.figures)
        shed, check = self._open.shed, self._memory.mark_passed
        self._around = AcceptorServices(
            loop, handler, framing, clock, wheel, self.limits, self.figures, self._admit, self._left, shed, check
        )

    async def connect(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, timeout_ms: int = CONNECT_MS_MAX
    ) -> Peer:
        """Open one connection; the handler hears of it (`connection_opened`) before this returns its peer.

        Raises OSError where nobody listens or TLS fails (`ssl.SSLError` is one), Expired after `timeout_ms`,
        LimitExceeded for one connection too many, and OwnerGone once the connector is closed.
        """
        if self._open.is_draining:
            raise OwnerGone("the connector is closed")
        if self.figures.connections_open + len(self._attempts) >= self.limits.connections_max:
            raise LimitExceeded("connections_max", self.limits.connections_max)
        protocol = ConnectionProtocol(self._around)
        attempt = self._attempts[protocol] = self._loop.create_task(self._dial(protocol, host, port, tls))
        attempt.add_done_callback(partial(self._attempt_ended, protocol))
        timer = self._wheel.add(self._clock.monotonic_ms() + timeout_ms, partial(self._give_up, protocol))
        try:
            await asyncio.wait((attempt,))
        # The caller has gone: a connection that opens all the same has no owner, and is cut off.
        except asyncio.CancelledError:
            attempt.add_done_callback(lambda _: self._abort(protocol))
            self._give_up(protocol)
            raise
        finally:
            timer.cancel()
        if self._open.is_draining:
            raise OwnerGone("the connector is closed")
        # Only `_give_up` cancels an attempt, and here that was the timer.
        if attempt.cancelled():
            raise Expired(f"no connection to {host}:{port} within {timeout_ms} ms")
        attempt.result()
        # Opened and lost between two loop iterations: its peer must not be returned.
        if protocol not in self._open:
            raise ConnectionResetError(f"{host}:{port} closed the connection at once")
        return protocol.peer

    def cut(self, is_chosen: Callable[[Peer], bool]) -> int:
        """End the connections of the peers for which this holds, now and with what is unsent; returns how many."""
        return self._open.cut(is_chosen)

    async def close(self, grace_ms: int | None = None) -> None:
        """Open and read no more, let requests in flight be answered, close; after the grace what is left is cut off.

        `grace_ms` is `drain_ms_max` by default. On return every connection has been closed and the handler notified.
        """
        attempts = list(self._attempts.values())
        self._names.close()
        for protocol in list(self._attempts):
            self._give_up(protocol)
        await self._open.drain(self.limits.drain_ms_max if grace_ms is None else grace_ms)
        if attempts:
            await asyncio.wait(attempts)

    async def _dial(self, protocol: ConnectionProtocol, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        # Each is refused by the loop where there is no TLS.
        handshake_s = self.limits.handshake_ms_max / 1000 if tls is not None else None
        closing_s = self.limits.closing_ms_max / 1000 if tls is not None else None
        addresses = await self._names.addresses_of(host, port)
        for number, address in enumerate(addresses, start=1):
            try:
                await self._loop.create_connection(
                    lambda: protocol,
                    address,
                    port,
                    ssl=tls,
                    server_hostname=host if tls is not None else None,
                    ssl_handshake_timeout=handshake_s,
                    ssl_shutdown_timeout=closing_s,
                )
            # A server is there, and refuses or is refused: its other addresses would be the same.
            except ssl.SSLError:
                raise
            # A name such as localhost has an address in each family, and a server may listen in one.
            except OSError:
                if number == len(addresses):
                    raise
            else:
                return

    def _admit(self, connection: ConnectionProtocol) -> int | None:
        if self._open.is_draining or connection not in self._attempts:
            self.figures.connections_refused_total += 1
            return None
        self.figures.connections_open += 1
        self.figures.connections_accepted_total += 1
        self._open.add(connection)
        return next(self._peer_ids)

    def _left(self, connection: ConnectionProtocol) -> None:
        self.figures.connections_open -= 1
        self._open.discard(connection)

    def _give_up(self, protocol: ConnectionProtocol) -> None:
        """Stop the attempt, unless its connection is open: uvloop would then forget it without `connection_lost`."""
        if protocol not in self._open and (attempt := self._attempts.pop(protocol, None)) is not None:
            attempt.cancel()

    def _attempt_ended(self, protocol: ConnectionProtocol, attempt: "asyncio.Task[None]") -> None:
        self._attempts.pop(protocol, None)
        if not attempt.cancelled():
            attempt.exception()  # waiters get it by the task; asyncio logs errors never retrieved

    def _abort(self, protocol: ConnectionProtocol) -> None:
        if protocol in self._open:
            protocol.abort(CloseReason.CUT)
