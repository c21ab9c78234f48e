"""What a hostile or broken client can do to a SockJS bridge: the documented answer, nothing left, others served.

Each test ends with a look at the bus: no client, no registration, no parked wait, no bytes held of anybody.
"""

import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.sockjs import Http, SockJSBus, WebSocketClient, sockjs_bus, upgrade
from wsproto.events import CloseConnection

from hutong.bus.bridge.limits import BridgeLimits
from hutong.bus.bridge.permissions import Permissions, Permit
from hutong.bus.sockjs.limits import SockJSLimits

pytestmark = pytest.mark.fault
BASE = "/eventbus"
LIMITS = SockJSLimits(message_bytes_max=64 * 1024, frame_characters_max=32 * 1024, disconnect_ms=500, head_ms_max=1_000)
BRIDGE_LIMITS = BridgeLimits(
    reply_address_characters_max=36, handlers_max=1000, frame_bytes_max=64 * 1024, slow_client_ms_max=1_000
)
PERMISSIONS = Permissions([Permit(regex=r"echo|fail|out\..*")], [Permit(regex=r"out.*"), Permit("x" * 200)])
WS = f"{BASE}/0/w/websocket"


@pytest.fixture(scope="module")
def shared() -> Iterator[SockJSBus]:
    with sockjs_bus(limits=LIMITS, bridge_limits=BRIDGE_LIMITS, permissions=PERMISSIONS) as running:
        yield running


@pytest.fixture
def bus(shared: SockJSBus) -> Iterator[SockJSBus]:
    """With a neighbour that is answered before and after."""
    with WebSocketClient(shared.port, f"{BASE}/0/neighbour/websocket") as neighbour:
        assert neighbour.receive() == "o"
        assert neighbour.ask(type="send", address="echo", replyAddress="r", body=1)["body"] == 1
        yield shared
        assert neighbour.ask(type="send", address="echo", replyAddress="r", body=2)["body"] == 2
    shared.must_be_empty()


@pytest.fixture
def http(bus: SockJSBus) -> Iterator[Http]:
    with Http(bus.port) as client:
        yield client


@pytest.fixture
def websocket(bus: SockJSBus) -> Iterator[WebSocketClient]:
    with WebSocketClient(bus.port, WS) as client:
        assert client.receive() == "o"
        yield client


# HTTP.


def request(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


XHR = f"POST {BASE}/0/s/xhr_send HTTP/1.1"
HOST = "Host: x"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00" * 100 + b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),  # TLS on a plain port
        (request("GET / HTTP/9.9", HOST), 505),
        (request("GET  / HTTP/1.1", HOST), 400),
        (request("G\x00T / HTTP/1.1", HOST), 400),
        (request(XHR), 400),
        (request(XHR, HOST, "Content-Length: 2", "Content-Length: 3", body=b'""'), 400),
        (request(XHR, HOST, "Content-Length: 2", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
        (request(XHR, HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"), 501),
        (request(XHR, HOST, "Transfer-Encoding: chunked", body=b"-1\r\n"), 400),
        (request(XHR, HOST, "Transfer-Encoding: chunked", body=b"fffffffffffffffffffff\r\n"), 400),
        (request(XHR, HOST, "Content-Length: 1 0", body=b'""'), 400),
        (request(XHR, HOST, "Content-Length: 65537"), 413),
        (request(XHR, HOST, "Content-Length: 18446744073709551616"), 413),
        (request(XHR, HOST, "Transfer-Encoding: chunked", body=b"10001\r\n" + b"x" * 65537), 413),
        (request(XHR, HOST, "X: " + "y" * 20_000), 431),
        (request(XHR, HOST, *(f"X{number}: y" for number in range(4_000))), 431),
        (request("GET /" + "a" * 20_000 + " HTTP/1.1", HOST), 431),
    ],
)
def test_a_request_that_breaks_the_rules_is_refused_and_is_the_last(http: Http, data: bytes, status: int) -> None:
    smuggled = request(f"GET {BASE} HTTP/1.1", HOST)
    http.raw(data + smuggled)
    reply = http.finish(http.head())
    assert (reply.status, reply.headers["connection"]) == (status, "close")
    http.must_be_closed()


def test_a_request_that_does_not_end_is_given_up(http: Http) -> None:
    http.raw(request(XHR, HOST, "Content-Length: 1000", body=b"x"))
    assert http.head().status == 408


def test_a_head_that_does_not_end_is_given_up(http: Http) -> None:
    http.raw(b"GET / HT")
    assert http.head().status == 408


def test_too_many_requests_behind_an_open_response_end_the_connection(http: Http) -> None:
    http.begin("POST", f"{BASE}/0/greedy/xhr_streaming")
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for _ in range(100):
            http.raw(request(f"GET {BASE} HTTP/1.1", HOST) * 100)
    with contextlib.suppress(EOFError, ConnectionResetError):
        http.rest()
    with contextlib.suppress(OSError):
        http.must_be_closed()


# WebSocket frames.


def frame(first: int, payload: bytes, *, mask: bytes | None = bytes(4), length: bytes | None = None) -> bytes:
    size = length
    if size is None:
        size = bytes([len(payload)]) if len(payload) < 126 else struct.pack(">BH", 126, len(payload))
    masked = bytes([size[0] | (0x80 if mask is not None else 0)]) + size[1:]
    return bytes([first]) + masked + (mask or b"") + payload


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(0x81, b"hello", mask=None), 1002),
        (frame(0xC1, b"hello"), 1002),  # a reserved bit, as permessage-deflate would set it
        (frame(0x83, b"hello"), 1002),  # a reserved opcode
        (frame(0x80, b"hello"), 1002),  # nothing to continue
        (frame(0x01, b"a") + frame(0x81, b"b"), 1002),  # a message within a message
        (frame(0x09, b"x"), 1002),  # a ping in parts
        (frame(0x89, b"x" * 126), 1002),  # a ping too long
        (frame(0x81, b"x", length=struct.pack(">BH", 126, 1)), 1002),  # a length longer than it need be
        (frame(0x81, b"", length=struct.pack(">BQ", 127, 2**63)), 1002),
        (frame(0x81, b"\xff\xfe"), 1007),
        (frame(0x82, b"x"), 1003),
        (frame(0x88, b"\x03"), 1002),
        (frame(0x88, struct.pack(">H", 999)), 1002),
        (frame(0x81, b'["a'), 1002),
        (frame(0x81, b"[1]"), 1002),
        (frame(0x81, b"x" * 65537, length=struct.pack(">BQ", 127, 65537)), 1009),
        (frame(0x01, b"x" * 60000) * 2, 1002),
        (
            frame(0x01, b"x" * 60000) + frame(0x00, b"x" * 60000),
            1009,
        ),
    ],
)
def test_a_broken_frame_closes_its_websocket_with_the_code_of_the_fault(
    websocket: WebSocketClient, data: bytes, code: int
) -> None:
    websocket.http.raw(data)
    event = websocket.receive_event()
    assert isinstance(event, CloseConnection)
    assert event.code == code
    websocket.http.must_be_closed()


def test_a_flood_of_pings_by_a_client_that_does_not_read_is_not_kept(bus: SockJSBus) -> None:
    with WebSocketClient(bus.port, WS, receive_bytes=4096) as client:
        client.http.socket.settimeout(3)
        ping = frame(0x89, b"x" * 125)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for _ in range(1000):
                client.http.raw(ping * 1000)
            raise AssertionError("130 MB of pings were taken from a client that reads no answer")


# Frames of the event bus: every error code of the bridge.


def nested(depth: int) -> str:
    return '{"type":"send","address":"echo","body":' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        (nested(65), "invalid_json"),
        (nested(15_000), "invalid_json"),
        ('{"type":"send","address":"echo","body":"\\ud800"}', "invalid_json"),
        ("{}", "missing_type"),
        ('{"type":"nonsense"}', "invalid_type"),
        ('{"type":7}', "invalid_type"),
        ('{"type":"send"}', "missing_address"),
        ('{"type":"send","address":7}', "missing_address"),
        (json.dumps({"type": "register", "address": "x" * 201}), "max_address_length_reached"),
        (json.dumps({"type": "send", "address": "echo", "replyAddress": "r" * 37}), "invalid_reply_address"),
        (json.dumps({"type": "send", "address": "secret"}), "access_denied"),
        (json.dumps({"type": "register", "address": "secret"}), "access_denied"),
        (json.dumps({"type": "send", "address": "echo", "headers": {"a": "x" * 20_000}}), "invalid_headers"),
    ],
)
def test_refused_frames_are_answered_with_their_code_and_the_socket_goes_on(
    websocket: WebSocketClient, text: str, code: str
) -> None:
    websocket.send(json.dumps([text]))
    (answer,) = websocket.hear()
    assert (answer["type"], answer["body"]) == ("err", code)
    assert websocket.ask(type="ping") == {"type": "pong"}


def test_a_lone_surrogate_outside_of_any_escape_spoils_its_own_message_alone(websocket: WebSocketClient) -> None:
    websocket.send('["\\ud800","{\\"type\\":\\"ping\\"}"]')
    assert [answer["type"] for answer in websocket.hear()] == ["err", "pong"]


def test_a_frame_that_is_too_long_is_told_and_closes_its_session(websocket: WebSocketClient) -> None:
    websocket.tell(type="send", address="echo", body="x" * 33_000)
    assert [answer["body"] for answer in websocket.hear()] == ["frame_too_large"]
    assert websocket.receive() == 'c[3000,"Go away!"]'


def test_an_address_is_registered_once_for_each_socket(websocket: WebSocketClient) -> None:
    websocket.tell(type="register", address="out.a")
    assert websocket.ask(type="register", address="out.a")["body"] == "address_already_registered"


def test_ten_thousand_registrations_are_refused_after_the_thousandth(bus: SockJSBus) -> None:
    with WebSocketClient(bus.port, WS) as client:
        assert client.receive() == "o"
        refused: list[Any] = []
        for start in range(0, 10_000, 500):
            texts = [json.dumps({"type": "register", "address": f"out.{start + at}"}) for at in range(500)]
            client.send(json.dumps(texts))
            if start >= 1000:
                while len(refused) < start - 500:
                    refused += client.hear()
        assert {answer["body"] for answer in refused} == {"max_handlers_reached"}
        bus.until(lambda: bus.bridge.figures.registrations == 1000, "a thousand registrations")


# Clients that vanish, and those that do not read.

TRANSPORTS = ["xhr", "xhr_streaming", "eventsource", "htmlfile", "jsonp", "websocket"]


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_client_that_vanishes_leaves_nothing(bus: SockJSBus, transport: str, is_reset: bool) -> None:
    url = f"{BASE}/0/vanish-{transport}-{is_reset}"
    client = Http(bus.port)
    method = "POST" if transport.startswith("xhr") else "GET"
    headers = upgrade() if transport == "websocket" else {}
    body = b"" if method == "POST" else None
    client.begin(method, f"{url}/{transport}?c=x", body, **headers)
    if transport in ("xhr", "jsonp"):
        client.rest()
        client.request(method, f"{url}/{transport}?c=x", body)
    frames = [{"type": "register", "address": "out.v"}, {"type": "send", "address": "echo", "replyAddress": "r"}]
    if transport == "websocket":
        text = json.dumps([json.dumps(one) for one in frames]).encode()
        client.raw(frame(0x81, text))
    else:
        with Http(bus.port) as sender:
            texts = json.dumps([json.dumps(frame) for frame in frames]).encode()
            assert sender.ask("POST", f"{url}/xhr_send", texts).status == 204
    bus.until(lambda: bus.bridge.figures.registrations == 1, "the registration")
    if is_reset:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    bus.until(lambda: bus.bridge.figures.registrations == 0, "the end of the registration")
    bus.until(lambda: len(bus.server.sessions) == 1, "the end of the session")


@pytest.mark.parametrize("transport", ["xhr_streaming", "websocket"])
def test_a_client_that_does_not_read_is_closed_and_what_it_was_sent_is_bounded(bus: SockJSBus, transport: str) -> None:
    url = f"{BASE}/0/slow-{transport}"
    with Http(bus.port, receive_bytes=4096) as client:
        if transport == "websocket":
            client.begin("GET", f"{url}/websocket", **upgrade())
            text = json.dumps([json.dumps({"type": "register", "address": "out.slow"})]).encode()
            client.raw(frame(0x81, text))
        else:
            client.begin("POST", f"{url}/xhr_streaming", b"")
            with Http(bus.port) as sender:
                text = json.dumps([json.dumps({"type": "register", "address": "out.slow"})]).encode()
                assert sender.ask("POST", f"{url}/xhr_send", text).status == 204
        bus.until(lambda: bus.bridge.figures.registrations == 1, "the registration")

        def publish() -> bool:
            for _ in range(20):
                bus.bus.publish("out.slow", "x" * 10_000)
            return bus.bridge.figures.registrations == 0

        bus.until(publish, "the end of a client that does not read")
        client.close()


@pytest.mark.thorough
def test_ten_thousand_sessions_of_one_client_are_the_last_until_they_end() -> None:
    with sockjs_bus(limits=SockJSLimits(disconnect_ms=8_000)) as bus:
        with Http(bus.port) as client:
            statuses = [status for start in range(0, 10_200, 100) for status in opened(client, start)]
            assert (statuses.count(200), statuses.count(503)) == (10_000, 200)
            assert bus.call(lambda: bus.bridge.figures.clients) == 10_000
        bus.until(lambda: len(bus.server.sessions) == 0, "the end of all sessions")


def opened(client: Http, start: int) -> list[int]:
    """The statuses of a hundred requests that came together, each for a session of its own."""
    line = "POST {}/0/many-{}/xhr HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    client.raw("".join(line.format(BASE, start + at) for at in range(100)).encode())
    return [client.finish(client.head()).status for _ in range(100)]


def test_a_thousand_websockets_that_leave_together(bus: SockJSBus) -> None:
    clients = [WebSocketClient(bus.port, f"{BASE}/0/{number}/websocket") for number in range(1_000)]
    for client in clients:
        client.tell(type="register", address="out.all")
    bus.until(lambda: bus.bridge.figures.registrations == 1_000, "all registrations")
    bus.call(lambda: bus.bus.publish("out.all", "hello"))
    for client in clients:
        assert client.receive() == "o"
        assert client.hear() == [{"type": "rec", "address": "out.all", "body": "hello"}]
    for client in clients:
        client.http.close()
    bus.until(lambda: bus.bridge.figures.registrations == 0, "no registrations")
