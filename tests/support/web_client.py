"""A client of a web server without a socket: bytes into the engine of a connection, answers out of it."""

import asyncio
from collections.abc import Sequence
from typing import cast

from hutong.foundation.clock import ManualClock
from hutong.reactor.connections.connection import Connection
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import ReactorFigures
from hutong.web.admission import Everybody
from hutong.web.driver import WebAdmission, WebDriver
from hutong.web.limits import WebLimits
from hutong.web.machine import HttpConnection
from hutong.web.routes import WebRoute, WebRoutes
from hutong.web.visitors import Visitors

TURNS_MAX = 1_000


class WebClient:
    """One connection to these routes. Make it inside of a loop."""

    def __init__(
        self,
        routes: Sequence[WebRoute],
        admission: WebAdmission | None = None,
        limits: WebLimits | None = None,
        visitors: Visitors | None = None,
    ) -> None:
        limits = limits or WebLimits()
        self.clock = ManualClock()
        loop = asyncio.get_running_loop()
        self.driver = WebDriver(WebRoutes(routes), admission or Everybody(), loop, self.clock, visitors=visitors)
        framing = HttpConnection(limits.http)
        self.peer = Peer(1, "127.0.0.1", 1, framing)
        now_ms = self.clock.monotonic_ms()
        figures = ReactorFigures()
        self.engine = Connection(self.peer, framing, self.driver, limits.reactor(), figures, now_ms, lambda: None)
        self.driver.connection_opened(self.peer)
        self.answers = b""

    async def send(self, data: bytes) -> None:
        """Send, and let the server come to rest."""
        self.engine.receive_data(data, self.clock.monotonic_ms())
        await self.settle()

    async def settle(self) -> None:
        quiet = 0
        for _ in range(TURNS_MAX):
            self.engine.resume_work(self.clock.monotonic_ms())
            taken = self.take()
            quiet = 0 if taken else quiet + 1
            if quiet > 5:
                return
            await asyncio.sleep(0)
        raise AssertionError("a server that never comes to rest")

    def take(self) -> bool:
        parts = self.engine.data_to_send(self.clock.monotonic_ms())
        self.engine.wants_to_read(self.clock.monotonic_ms())
        self.answers += b"".join(bytes(part) for part in parts)
        return bool(parts)

    def lose(self) -> None:
        """The connection is gone."""
        self.engine.connection_lost()

    @property
    def statuses(self) -> list[int]:
        return [int(part.split(b" ", 1)[0]) for part in self.answers.split(b"HTTP/1.1 ")[1:]]

    @property
    def body(self) -> bytes:
        """The body of the last answer."""
        return self.answers.rpartition(b"\r\n\r\n")[2]

    @property
    def http(self) -> HttpConnection:
        return cast(HttpConnection, self.peer.framing)


async def answered(
    data: bytes, routes: Sequence[WebRoute], admission: WebAdmission | None = None, limits: WebLimits | None = None
) -> WebClient:
    client = WebClient(routes, admission, limits)
    await client.send(data)
    return client


def request(method: str, target: str, body: bytes = b"", content_type: str = "application/json", *fields: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *fields]
    if body:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
