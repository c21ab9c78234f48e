"""How long a client of the SockJS bridge can make a node's loop not turn: docs/bridges.md states the figure.

As in `test_bridge_stalls`, the node is a process of its own, which measures itself.
"""

import contextlib
import json
import struct
from collections.abc import Callable, Iterator

import pytest
from bench.processes import ReadyProcess
from bench.targets import hutong_command
from tests.support.sockjs import Http, WebSocketClient
from tests.support.stalls import stalls

pytestmark = pytest.mark.fault
BASE = "/eventbus"
WS = f"{BASE}/0/w/websocket"
MESSAGES = 200_000
LISTENERS = 500
ATTEMPTS = 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    folder = tmp_path_factory.mktemp("node")
    command = hutong_command(folder / "data", "127.0.0.1:0")
    bridge = ("--sockjs", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
    permits = ("--bridge-permit", "in=.*", "--bridge-permit", "out=.*")
    with ReadyProcess([*command, *bridge, *permits], log_path=str(folder / "node.log")) as running:
        yield running


def port_of(node: ReadyProcess) -> int:
    return int(node.fields["sockjs"].rpartition(":")[2])


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
        client.raw(f"GET {BASE} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 1_000)
        for _ in range(1_000):
            assert client.finish(client.head()).status == 200


def small_chunks(port: int) -> None:
    with Http(port) as client:
        client.raw(f"POST {BASE}/0/c/xhr_send HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
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


@pytest.mark.parametrize(
    "attack", [small_frames, parts_of_a_message, pipelined, small_chunks, arrays_of_messages, fan_out]
)
def test_no_client_stops_the_loop_for_long(node: ReadyProcess, attack: Callable[[int], None]) -> None:
    """What a client can do it can do every time; this machine's other work may hold up the node too, but not always."""
    for _ in range(ATTEMPTS):
        looks, late = stalls(node)
        attack(port_of(node))
        must_be_served(port_of(node))
        after, late_after = stalls(node)
        assert after > looks
        if late_after == late:
            return
    raise AssertionError(f"{late_after - late:g} of {after - looks:g} looks found the loop later than that")
