"""An HTTP server as a thing to open and close: an acceptor, its driver and its routes.

Knows no settings.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.tls.protocol import TlsSource
from hutong.web.admission import Everybody
from hutong.web.answers import WebAnswer, WebRefusal, refused_in_text
from hutong.web.driver import WebAdmission, WebDriver
from hutong.web.limits import WebLimits
from hutong.web.machine import HttpConnection
from hutong.web.routes import WebRoute, WebRoutes
from hutong.web.visitors import Visitors


class WebServer:
    """Serves routes on a loop. The wheel must be driven."""

    def __init__(
        self,
        routes: Sequence[WebRoute],
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: WebLimits | None = None,
        admission: WebAdmission | None = None,
        refused: Callable[[WebRefusal], WebAnswer] = refused_in_text,
        visitors: Visitors | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        """Without an `admission` everybody is admitted. `refused` makes the answer of a refusal.

        `visitors` says which pages browsers may connect: without it a page of any name that leads here may.
        """
        limits = limits or WebLimits()
        self._driver = WebDriver(WebRoutes(routes), admission or Everybody(), loop, clock, refused, visitors)
        self._acceptor = Acceptor(
            loop,
            self._driver,
            lambda _frame_bytes_max: HttpConnection(limits.http),
            clock=clock,
            wheel=wheel,
            limits=limits.reactor(),
            open_socket=open_socket,
        )

    @property
    def figures(self) -> ReactorFigures:
        return self._acceptor.figures

    @property
    def answers_total(self) -> Mapping[int, int]:
        """Answers since the start, by status."""
        return self._driver.answers_total

    @property
    def streams(self) -> int:
        """Streamed answers and WebSockets that have not ended."""
        return self._driver.streams

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | TlsSource | None = None) -> tuple[str, int]:
        """Listen; returns the address and the port, which is a free one for 0. Raises OSError."""
        return await self._acceptor.listen(host, port, tls)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any connection reads."""
        self._acceptor.memory.call_at_traffic(callback)

    async def close(self) -> None:
        """End streamed answers, let others be completed, and close every connection."""
        self._driver.end_streams()
        await self._acceptor.drain()
