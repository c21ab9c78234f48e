"""An event bus with a TCP bridge, on a loop thread of its own, and a raw client of that bridge.

Strategy: what is served is what a node serves (the same verticle), but the consumers behind it are the test's, in this
process, so that a test sees both sides: what the client is told, and what is left on the bus. Knows no client library.
"""

import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.support.waiting import until

from hutong.bus import EventBus, Message
from hutong.bus.bridge.bridge import Bridge
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime
from hutong.server.bus.bridge_settings import BridgeHooks
from hutong.server.bus.bridges import TcpBridgeVerticle
from hutong.server.configuration.loader import load
from hutong.testing.node.loop_thread import LoopThread

DEADLINE_S: Final = 20.0
OPEN: Final = {"bridge.permit_in": (".*",), "bridge.permit_out": (".*",)}


class BridgedBus:
    """A bus with the consumers echo, fail, raise, headers, silent and count, behind a bridge on a free port."""

    def __init__(self, settings: dict[str, Any] | None = None, hooks: BridgeHooks | None = None) -> None:
        flags = {"tcp_bridge.listen": "127.0.0.1:0", **(OPEN if settings is None else settings)}
        self._settings = load(environment={}, flags=flags).settings
        self._hooks = hooks
        self.counted: list[Any] = []
        self.errors: list[BaseException] = []
        self.thread = LoopThread("bridged-bus")
        self.thread.run(self._start())

    async def _start(self) -> None:
        clock = SystemClock()
        self.runtime = Runtime(clock, exception_handler=lambda context, error: self.errors.append(error))
        self.bus = EventBus(self.runtime)
        address = self._settings.tcp_bridge.listen
        assert address is not None
        verticle = TcpBridgeVerticle(self._settings, address, self.bus, clock, hooks=self._hooks)
        await self.runtime.deploy(lambda: verticle)
        self.port = verticle.listens_at.port
        self.bridge: Bridge = verticle.bridge
        for name, handler in HANDLERS.items():
            self.bus.consumer(name, handler)
        self.bus.consumer("count", lambda message: self.counted.append(message.body))

    async def _stop(self) -> None:
        await self.runtime.close()
        await self.bus.close()

    def close(self) -> None:
        self.thread.run(self._stop())
        self.thread.close()

    def call(self, work: Callable[[], Any]) -> Any:
        return self.thread.call(work)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it on the bus's loop, turn by turn. Raises AssertionError after the deadline."""

        until(lambda: self.call(condition), what=what)

    def must_be_empty(self) -> None:
        """Nothing of any client is left: no connection, registration, parked wait or awaited reply."""
        figures, waits = self.bridge.figures, self.bridge.waits
        consumers = len(HANDLERS) + 1

        def is_empty() -> bool:
            parked = sum(len(table) for table in waits.values()) + self.bus.replies_waiting
            registered = sum(len(found) for found in self.bus._consumers.values())
            return not (figures.clients or figures.registrations or parked) and registered == consumers

        self.until(is_empty, "an empty bridge")


def _wrapped(plain: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(plain, server_hostname="localhost")
    except OSError:  # ssl.SSLError is one
        plain.close()
        raise


def _raise(message: Message) -> None:
    raise RuntimeError(f"cannot do {message.body!r}")


HANDLERS: Final[dict[str, Callable[[Message], object]]] = {
    "echo": lambda message: message.reply(message.body),
    "fail": lambda message: message.fail(7, "no"),
    "raise": _raise,
    "headers": lambda message: message.reply(dict(message.headers.items())),
    "silent": lambda message: None,
    "blackhole": lambda message: None,
}


@contextmanager
def bridged_bus(settings: dict[str, Any] | None = None, hooks: BridgeHooks | None = None) -> Iterator[BridgedBus]:
    running = BridgedBus(settings, hooks)
    try:
        yield running
        running.must_be_empty()
    finally:
        running.close()


class RawClient:
    """A socket that speaks frames of the TCP bridge, or any bytes."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, receive_bytes: int | None = None) -> None:
        plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        plain.settimeout(DEADLINE_S)
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.connect(("127.0.0.1", port))
        self.socket = plain if tls is None else _wrapped(plain, tls)
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._read.close()
        finally:
            self.socket.close()

    def send(self, **members: Any) -> None:
        self.send_frame(json.dumps(members).encode())

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> Any:
        """The next whole frame, decoded. Raises EOFError once the bridge has closed the connection."""
        return json.loads(self.receive_bytes())

    def receive_bytes(self) -> bytes:
        try:
            head = self._read.read(4)
            length = struct.unpack(">i", head)[0] if len(head) == 4 else -1
            frame = self._read.read(length) if length >= 0 else b""
        except ConnectionResetError:
            raise EOFError from None
        if len(frame) != length:
            raise EOFError
        return frame

    def ask(self, **members: Any) -> Any:
        self.send(**members)
        return self.receive()

    def must_be_alive(self) -> None:
        assert self.ask(type="ping") == {"type": "pong"}

    def must_be_closed(self) -> None:
        try:
            frame = self.receive()
        except EOFError:
            return
        raise AssertionError(f"still open, and was sent {frame}")
