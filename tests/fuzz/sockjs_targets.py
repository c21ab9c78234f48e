"""A target for a whole SockJS server: its handler, sessions and framing on the reactor's engine, without a socket.

Knows no bus: an echo sits behind the sessions.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.fuzz.bus_targets import http_requests, websocket_frames
from tests.fuzz.target import KIBIBYTE, MEBIBYTE, Target

from hutong.bus.bridge.driver import Outlet
from hutong.bus.bridge.hooks import BridgePeer
from hutong.bus.sockjs.driver import Sessions
from hutong.bus.sockjs.handler import Site, SockJSHandler
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.server import http_limits, reactor_limits
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.connection import Connection, Peer
from hutong.reactor.figures import ReactorFigures
from hutong.web.machine import HttpConnection

LIMITS: Final = SockJSLimits(message_bytes_max=16 * KIBIBYTE, buffered_bytes_max=16 * KIBIBYTE)
TURNS_MAX: Final = 10_000


class Echo:
    """Says to each client what it said."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def receive(self, data: str) -> bool:
        self._outlet.write(data.encode(errors="replace"))
        return True

    def frame_too_large(self) -> None: ...
    def sending_changed(self, is_paused: bool) -> None: ...
    def ended(self) -> None: ...


class Echoes:
    def connect(self, peer: BridgePeer, outlet: Outlet) -> Echo:
        return Echo(outlet)


class Server:
    """One server, and the turns of a loop that it asks for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.sessions = Sessions(Echoes(), LIMITS, self.clock, self.wheel, self._call_soon)
        self.handler = SockJSHandler(self.sessions, Site(origins=("*",)), lambda: 7)

    def _call_soon(self, work: Callable[..., object], *arguments: Any) -> None:
        self._soon.append((work, arguments))

    def serve(self, number: int, parts: list[bytes]) -> None:
        """A connection that sends these, one after the other, and is then lost."""
        limits = reactor_limits(LIMITS)
        framing = HttpConnection(http_limits(LIMITS))
        peer = Peer(number, "10.0.0.1", number, framing)
        engine = Connection(peer, framing, self.handler, limits, ReactorFigures(), 0, lambda: None)
        self.handler.connection_opened(peer)
        for part in filter(None, parts):
            if engine.is_closed:
                break
            engine.receive_data(part, self.clock.monotonic_ms())
            self._settle(engine)
        self.clock.advance(30_000)
        self.wheel.advance(self.clock.monotonic_ms())
        self._settle(engine)
        peer.owner.end()
        self.handler.connection_closed(peer)

    def _settle(self, engine: Connection) -> None:
        for _ in range(TURNS_MAX):
            engine.resume_work(self.clock.monotonic_ms())
            engine.data_to_send(self.clock.monotonic_ms())
            if not self._soon:
                return
            work, arguments = self._soon.popleft()
            work(*arguments)
        raise AssertionError("a server that never comes to rest")


def serve(data: bytes) -> object:
    """The first byte says where the data is cut; a second connection comes after the first, to the same sessions."""
    server = Server()
    cut = data[0] if data else 0
    server.serve(1, [data[1 : 1 + cut], data[1 + cut :]])
    server.serve(2, [b"POST /eventbus/0/s/xhr HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"])
    return server


def visits() -> Iterator[bytes]:
    yield from http_requests()
    frames = next(websocket_frames())
    head = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for version in (b"HTTP/1.1", b"HTTP/1.0"):
        for path in (b"/eventbus/0/s/websocket", b"/eventbus/websocket"):
            line = b"GET " + path + b" " + version + b"\r\nHost: x\r\nSec-WebSocket-Version: 13\r\n"
            yield b"\xff" + line + head + b"\r\n" + frames
    for kind in (
        b"xhr",
        b"xhr_streaming",
        b"xhr_send",
        b"eventsource?c=x",
        b"jsonp?c=callback",
        b"jsonp_send",
        b"htmlfile?c=x",
    ):
        for method in (b"GET ", b"POST ", b"OPTIONS ", b"HEAD "):
            line = method + b"/eventbus/0/s/" + kind + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            yield b"\x40" + line + b'\r\n["a"]' + line + b"Content-Type: application/x-www-form-urlencoded\r\n\r\nd=[1]"
    yield b"\x10GET /eventbus/iframe-1.html HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n"
    yield b"\x10GET /eventbus/info HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\nCookie: JSESSIONID=x\r\n\r\n"


TARGETS = [Target("sockjs", serve, visits, (), memory_base=8 * MEBIBYTE, memory_factor=4_000)]
