"""The SockJS bridge as a thing to open and close: an acceptor, its handler, the sessions, the bridge behind them.

Strategy: the reactor bounds connections and the time that a request may take; everything else is bounded by
`SockJSLimits`. Knows no settings.
"""

import secrets
import socket
import ssl
from collections.abc import Callable

from hutong.bus.sockjs.driver import Application, Sessions
from hutong.bus.sockjs.handler import ENTROPY_MAX, Site, SockJSHandler
from hutong.bus.sockjs.limits import MEBIBYTE, SockJSLimits
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.tls.protocol import TlsSource
from hutong.runtime.contexts.contexts import Context
from hutong.web.limits import HttpLimits
from hutong.web.machine import HttpConnection

REQUESTS_PER_TURN_MAX = 64
RECEIVING_BYTES_MAX = 256 * MEBIBYTE


class SockJSServer:
    """Serves SockJS for an application, in a context whose loop it runs on."""

    def __init__(
        self,
        application: Application,
        context: Context,
        *,
        clock: Clock,
        wheel: TimerWheel,
        site: Site | None = None,
        limits: SockJSLimits | None = None,
        entropy: Callable[[], int] = lambda: secrets.randbelow(ENTROPY_MAX),
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        self.limits = limits or SockJSLimits()
        self.sessions = Sessions(application, self.limits, clock, wheel, context.loop.call_soon)
        self._acceptor = Acceptor(
            context.loop,
            SockJSHandler(self.sessions, site or Site(), entropy),
            lambda frame_bytes_max: HttpConnection(http_limits(self.limits)),
            clock=clock,
            wheel=wheel,
            limits=reactor_limits(self.limits),
            open_socket=open_socket,
        )

    @property
    def figures(self) -> ReactorFigures:
        return self._acceptor.figures

    async def start(self, host: str, port: int, tls: ssl.SSLContext | TlsSource | None = None) -> tuple[str, int]:
        """Listen; returns the address and the port, which is a free one for 0. Raises OSError."""
        return await self._acceptor.listen(host, port, tls)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any connection reads."""
        self._acceptor.memory.call_at_traffic(callback)

    async def stop(self) -> None:
        """Close every connection, then every session that was between two of them."""
        await self._acceptor.drain()
        self.sessions.close()


def http_limits(limits: SockJSLimits) -> HttpLimits:
    return HttpLimits(head_bytes_max=limits.head_bytes_max, body_bytes_max=limits.message_bytes_max)


def reactor_limits(limits: SockJSLimits) -> ReactorLimits:
    return ReactorLimits(
        connections_max=limits.connections_max,
        connections_per_ip_max=limits.connections_per_ip_max,
        frame_bytes_max=limits.message_bytes_max,
        receiving_bytes_max=RECEIVING_BYTES_MAX,
        requests_in_flight_max=REQUESTS_PER_TURN_MAX,
        unsent_bytes_max=limits.buffered_bytes_max,
        idle_ms_max=limits.idle_ms_max,
        frame_ms_max=limits.head_ms_max,
    )
