"""What a hostile client of the SockJS bridge sends to keep a node busy, by the port of its bridge.

As in `bridge_attacks`: the tests see that others are served, and `python -m bench bridges` measures.
"""

import contextlib
import json
import struct
from collections.abc import Callable
from typing import Final

from tests.support.sockjs import Http, WebSocketClient

BASE: Final = "/eventbus"
WS: Final = f"{BASE}/0/w/websocket"
MESSAGES: Final = 200_000
LISTENERS: Final = 500
OPTIONS: Final = ("--bridge-permit", "in=.*", "--bridge-permit", "out=.*")
"""Options of the node that is attacked."""


def must_be_served(port: int) -> None:
    with WebSocketClient(port, WS) as client:
        assert client.receive() == "o"
        assert client.ask(type="ping") == {"type": "pong"}


def small_frames(port: int) -> None:
    for frame in (b"\x89\x80\0\0\0\0", b"\x81\x80\0\0\0\0", b"\x8a\x80\0\0\0\0"):
        with WebSocketClient(port, WS) as client:
            client.http.socket.settimeout(1)
            with contextlib.suppress(TimeoutError):
                client.http.raw(frame * 100_000)


def parts_of_a_message(port: int) -> None:
    with WebSocketClient(port, WS) as client:
        client.http.raw(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 100_000 + b"\x80\x80\0\0\0\0")
        assert client.receive() == "o"
        assert client.ask(type="ping") == {"type": "pong"}


def pipelined(port: int) -> None:
    with Http(port) as client:
        client.raw(f"GET {BASE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 1_000)
        for _ in range(1_000):
            assert client.finish(client.head()).status == 200


def small_chunks(port: int) -> None:
    with Http(port) as client:
        client.raw(
            f"POST {BASE}/0/c/xhr_send HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        client.raw(b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n")
        assert client.head().status == 404


def arrays_of_messages(port: int) -> None:
    for number, message in enumerate(("", "{", '{"type":"ping"}')):
        url = f"{BASE}/0/array-{number}"
        with Http(port) as client:
            client.ask("POST", f"{url}/xhr", b"")
            body = json.dumps([message] * (MESSAGES // (1 + len(message)))).encode()
            assert client.ask("POST", f"{url}/xhr_send", body).status == 204
            assert client.ask("POST", f"{url}/xhr", b"").text.startswith("a[")


def fan_out(port: int) -> None:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(WebSocketClient(port, WS)) for _ in range(LISTENERS)]
        for listener in listeners:
            assert listener.receive() == "o"
            listener.tell(type="register", address="news")
            assert listener.ask(type="ping") == {"type": "pong"}
        text = json.dumps([json.dumps({"type": "publish", "address": "news", "body": "x" * 10_000})])
        head = struct.pack(">BBH", 0x81, 0x80 | 126, len(text))
        listeners[0].http.raw(head + bytes(4) + text.encode())
        for listener in listeners:
            assert listener.hear()[0]["type"] == "rec"


ATTACKS: Final[tuple[Callable[[int], None], ...]] = (
    small_frames,
    parts_of_a_message,
    pipelined,
    small_chunks,
    arrays_of_messages,
    fan_out,
)
