"""A SockJS server on a loop thread of its own, and a raw HTTP and WebSocket client for it.

Strategy: blocking sockets, and the bytes as they are. Knows no
client library but wsproto's frames.
"""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.support.waiting import until
from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from hutong.bus import EventBus
from hutong.bus.bridge.bridge import Bridge
from hutong.bus.bridge.driver import Outlet
from hutong.bus.bridge.hooks import BridgePeer
from hutong.bus.bridge.limits import BridgeLimits
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.bus.sockjs.driver import Application
from hutong.bus.sockjs.handler import Site
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.server import SockJSServer
from hutong.foundation.clock import SystemClock
from hutong.runtime.contexts.contexts import Context
from hutong.runtime.runtime import Runtime
from hutong.testing.node.loop_thread import LoopThread
from hutong.wire.vertx.codes import Dialect

DEADLINE_S: Final = 20.0
KEY: Final = base64.b64encode(bytes(16)).decode()


class EchoClient:
    """Says everything back; `close` closes, `big N` answers with N characters, `wait` is not taken at first."""

    def __init__(self, echo: "Echo", outlet: Outlet) -> None:
        self.outlet = outlet
        self._echo = echo

    def receive(self, data: str) -> bool:
        if data == "wait" and not self._echo.is_willing:
            self._echo.waiting.append(self.outlet)
            return False
        if data == "close":
            self.outlet.close()
        elif data.startswith("big "):
            self.outlet.write(b"x" * int(data[4:]))
        else:
            self.outlet.write(data.encode(errors="replace"))
        return True

    def frame_too_large(self) -> None:
        self.outlet.close()

    def sending_changed(self, is_paused: bool) -> None:
        self._echo.pauses.append(is_paused)

    def ended(self) -> None:
        self._echo.clients.remove(self)


class Echo:
    """The application of most protocol tests."""

    def __init__(self) -> None:
        self.clients: list[EchoClient] = []
        self.peers: list[BridgePeer] = []
        self.pauses: list[bool] = []
        self.waiting: list[Outlet] = []
        self.is_willing = False

    def connect(self, peer: BridgePeer, outlet: Outlet) -> EchoClient:
        client = EchoClient(self, outlet)
        self.clients.append(client)
        self.peers.append(peer)
        return client


ALL: Final = Permissions([Permit(regex=".*")], [Permit(regex=".*")])


class SockJSBus:
    """A bus with the consumers echo and fail, behind a SockJS bridge; or an application of the test's own."""

    port: int

    def __init__(
        self,
        application: Application | None = None,
        *,
        limits: SockJSLimits | None = None,
        site: Site | None = None,
        permissions: Permissions = ALL,
        bridge_limits: BridgeLimits | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self.thread = LoopThread("sockjs-bus")
        self.faults: list[dict[str, Any]] = []
        self._application = application
        self._arguments = (limits, site or Site(origins=("*",)), permissions, bridge_limits)
        self.thread.run(self._start(tls, port))

    async def _start(self, tls: ssl.SSLContext | None, port: int) -> None:
        limits, site, permissions, bridge_limits = self._arguments
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.faults.append(context))
        clock = SystemClock()
        self.runtime = Runtime(clock)
        self.bus = EventBus(self.runtime)
        context: Context = self.runtime.context(name="sockjs")
        wheel = context.home.wheel
        self.bridge = Bridge(
            self.bus, context, Dialect.SOCKJS, permissions, clock=clock, wheel=wheel, limits=bridge_limits
        )
        self.server = SockJSServer(
            self._application or self.bridge, context, clock=clock, wheel=wheel, limits=limits, site=site
        )
        self.bus.consumer("echo", lambda message: message.reply(message.body))
        self.bus.consumer("fail", lambda message: message.fail(7, "no"))
        _, self.port = await self.server.start("127.0.0.1", port, tls)

    async def _stop(self) -> None:
        await self.server.stop()
        await self.runtime.close()
        await self.bus.close()

    def close(self) -> None:
        self.thread.run(self._stop())
        self.thread.close()
        assert self.faults == []

    def call(self, work: Callable[[], Any]) -> Any:
        return self.thread.call(work)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        until(lambda: self.call(condition), what=what)

    def must_be_empty(self) -> None:
        """Nothing of any client is left on the bus or here, but for closed sessions that are remembered."""
        figures, waits = self.bridge.figures, self.bridge.waits

        def is_empty() -> bool:
            parked = sum(len(table) for table in waits.values()) + self.bus.replies_waiting
            return not (figures.clients or figures.registrations or parked or self.server.figures.connections_open)

        self.until(is_empty, "an empty bridge")
        self.until(lambda: self.server.figures.receiving_bytes == 0, "no bytes held")


@contextmanager
def sockjs_bus(application: Application | None = None, **options: Any) -> Iterator[SockJSBus]:
    running = SockJSBus(application, **options)
    try:
        yield running
        running.must_be_empty()
    finally:
        running.close()


class Reply:
    """The head of an HTTP response, and its body where that was read."""

    def __init__(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.headers = dict(headers)
        self.body = b""

    @property
    def text(self) -> str:
        return self.body.decode()


class Http:
    """One connection. `ask` is a whole exchange; `begin` leaves the body to `line` and `rest`."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None = None,
        receive_bytes: int | None = None,
        source: str = "127.0.0.1",
    ) -> None:
        plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        plain.settimeout(DEADLINE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.bind((source, 0))
        plain.connect(("127.0.0.1", port))
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.file = self.socket.makefile("rb")
        self._chunk = b""

    def __enter__(self) -> "Http":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {headers.pop('Host', 'localhost')}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.raw("\r\n".join([*lines, "", ""]).encode() + (body or b""))

    def head(self) -> Reply:
        status = self.file.readline()
        if not status:
            raise EOFError("the connection was closed")
        headers = []
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().strip().partition(": ")
            headers.append((name.lower(), value))
        return Reply(int(status.split()[1]), headers)

    def begin(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Reply:
        self.request(method, path, body, **headers)
        return self.head()

    def ask(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Reply:
        return self.finish(self.begin(method, path, body, **headers), method)

    def finish(self, reply: Reply, method: str = "GET") -> Reply:
        if reply.status in (101, 204, 304) or method == "HEAD":
            return reply
        if "content-length" in reply.headers:
            reply.body = self.file.read(int(reply.headers["content-length"]))
        elif reply.headers.get("transfer-encoding") == "chunked":
            reply.body = self.rest()
        else:
            reply.body = self.file.read()
        return reply

    def line(self) -> str:
        """The next line of a chunked body. Raises EOFError where the body has ended."""
        while b"\n" not in self._chunk:
            more = self._next_chunk()
            if not more:
                raise EOFError("the body has ended")
            self._chunk += more
        line, _, self._chunk = self._chunk.partition(b"\n")
        return line.decode().rstrip("\r")

    def rest(self) -> bytes:
        """The rest of a chunked body."""
        parts, self._chunk = [self._chunk], b""
        while more := self._next_chunk():
            parts.append(more)
        return b"".join(parts)

    def must_be_closed(self) -> None:
        try:
            left = self.file.read()
        except ConnectionResetError:
            return
        assert left == b"", left

    def _next_chunk(self) -> bytes:
        size = self.file.readline()
        if not size:
            raise EOFError("the connection was closed")
        data = self.file.read(int(size, 16))
        self.file.readline()
        return data


class WebSocketClient:
    """A WebSocket at a path."""

    def __init__(self, port: int, path: str = "/eventbus/000/abc/websocket", **options: Any) -> None:
        self.http = Http(port, **options)
        self.reply = self.http.begin("GET", path, **upgrade())
        assert self.reply.status == 101, (self.reply.status, self.http.finish(self.reply).text)
        self.frames = Connection(ConnectionType.CLIENT)
        self._events: list[Any] = []

    def __enter__(self) -> "WebSocketClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def send(self, text: str) -> None:
        self.http.raw(self.frames.send(TextMessage(text)))

    def send_event(self, event: BytesMessage | Ping | CloseConnection) -> None:
        self.http.raw(self.frames.send(event))

    def tell(self, **members: Any) -> None:
        """One frame of the event-bus bridge."""
        self.send(json.dumps([json.dumps(members)]))

    def receive_event(self) -> Any:
        while not self._events:
            data = self.http.file.read1(65536)
            if not data:
                raise EOFError("the connection was closed")
            self.frames.receive_data(data)
            self._events += self.frames.events()
        return self._events.pop(0)

    def receive(self) -> str:
        """The next whole text. Raises EOFError where the other side says goodbye."""
        text = ""
        while True:
            event = self.receive_event()
            if isinstance(event, CloseConnection):
                raise EOFError(event)
            if isinstance(event, TextMessage):
                text += event.data
                if event.message_finished:
                    return text

    def hear(self) -> list[Any]:
        """The messages of the next `a` frame, decoded once more."""
        frame = self.receive()
        assert frame[0] == "a", frame
        return [json.loads(text) for text in json.loads(frame[1:])]

    def ask(self, **members: Any) -> Any:
        self.tell(**members)
        (answer,) = self.hear()
        return answer


def upgrade(**changed: str) -> dict[str, str]:
    """The headers of a request for a WebSocket."""
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": KEY,
    } | changed
    return {name: value for name, value in headers.items() if value}
