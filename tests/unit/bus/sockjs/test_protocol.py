"""The requirements of the protocol's own test suite (SockJS 0.3.4), rewritten, over real sockets."""

import itertools
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.support.sockjs import Echo, Http, SockJSBus, WebSocketClient, sockjs_bus, upgrade
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from hutong.bus.sockjs.handler import Site
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.reactor.tls.server_contexts import server_context

ECHO_LIMITS = SockJSLimits(response_bytes_max=4096, disconnect_ms=300, message_bytes_max=65536)
BASE = "/eventbus"
NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[SockJSBus, Echo]]:
    echo = Echo()
    with sockjs_bus(echo, limits=ECHO_LIMITS) as bus:
        yield bus, echo
        bus.until(lambda: not echo.clients, "no sessions")


@pytest.fixture
def http(running: tuple[SockJSBus, Echo]) -> Iterator[Http]:
    with Http(running[0].port) as client:
        yield client


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A session of the test's own."""
    return f"{BASE}/000/{next(NAMES)}"


def post(http: Http, path: str, *texts: str) -> int:
    return http.ask("POST", path, json.dumps(texts).encode()).status


# Base URL.


@pytest.mark.parametrize("path", [BASE, f"{BASE}/"])
def test_the_prefix_greets(http: Http, path: str) -> None:
    reply = http.ask("GET", path)
    assert (reply.status, reply.text) == (200, "Welcome to SockJS!\n")
    assert reply.headers["content-type"] == "text/plain; charset=UTF-8"
    assert "set-cookie" not in reply.headers


def test_the_root_and_unknown_paths_say_where_to_go(http: Http) -> None:
    assert (http.ask("GET", "/").status, BASE in http.ask("GET", "/").text) == (200, True)
    assert (http.ask("GET", "/x").status, BASE in http.ask("GET", "/x").text) == (404, True)


@pytest.mark.parametrize(
    "path",
    [
        *[f"{BASE}{rest}" for rest in ("/a", "/a.html", "//", "///", "/a/a", "/a/a/", "/a/", "/a/b/c", "/a/b/xhr/")],
        *[
            f"{BASE}{rest}"
            for rest in ("//xhr", "/a//xhr", "//b/xhr", "/a./b/xhr", "/a/b./xhr", "/./b/xhr", "/a/./xhr")
        ],
        *[f"{BASE}/iframe{rest}" for rest in ("", ".htm", "-a", ".HTML", ".xml", "-/.html", "/x.html")],
        f"{BASE}x",
        "//" + BASE,
        f"{BASE}/IFRAME.HTML",
    ],
)
def test_paths_that_are_not_the_protocols_are_not_found(http: Http, path: str) -> None:
    assert http.ask("GET", path).status == 404


@pytest.mark.parametrize(
    "name", ["iframe.html", "iframe-a.html", "iframe-0.1.2.html", "iframe-0.1.2abc-dirty.2144.html"]
)
def test_the_iframe_page_is_kept_by_whoever_has_it(http: Http, name: str) -> None:
    page = http.ask("GET", f"{BASE}/{name}?t=1")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=UTF-8"
    assert "max-age=31536000" in page.headers["cache-control"]
    assert "public" in page.headers["cache-control"]
    assert "expires" in page.headers
    assert "last-modified" not in page.headers
    assert "SockJS.bootstrap_iframe" in page.text
    again = http.ask("GET", f"{BASE}/{name}", If_None_Match=page.headers["etag"])
    assert again.status == 304
    assert "content-type" not in again.headers
    assert again.headers["etag"] == page.headers["etag"]


def test_info_says_what_a_client_must_know(http: Http) -> None:
    first, second = http.ask("GET", f"{BASE}/info"), http.ask("GET", f"{BASE}/info")
    assert first.headers["content-type"] == "application/json; charset=UTF-8"
    assert "no-store" in first.headers["cache-control"]
    told: dict[str, Any] = json.loads(first.body)
    assert (told["websocket"], told["cookie_needed"], told["origins"]) == (True, False, ["*:*"])
    assert 0 <= told["entropy"] < 2**32
    assert told["entropy"] != json.loads(second.body)["entropy"]


@pytest.mark.parametrize("path", ["info", "0/cors/xhr", "0/cors/xhr_streaming", "0/cors/xhr_send"])
@pytest.mark.parametrize("origin", ["http://a.example", "null", ""])
def test_browsers_ask_before_and_are_told_that_they_may(http: Http, path: str, origin: str) -> None:
    headers = {"Origin": origin} if origin else {}
    reply = http.ask("OPTIONS", f"{BASE}/{path}", Access_Control_Request_Headers="x-a, x-b", **headers)
    assert reply.status == 204
    assert "max-age=31536000" in reply.headers["cache-control"]
    assert int(reply.headers["access-control-max-age"]) > 1_000_000
    assert reply.headers["access-control-allow-methods"] == ("GET, OPTIONS" if path == "info" else "OPTIONS, POST")
    assert reply.headers["access-control-allow-headers"] == "x-a, x-b"
    has_origin = origin != ""  # a page from a file is one that is called null
    assert reply.headers["access-control-allow-origin"] == (origin if has_origin else "*")
    assert reply.headers.get("access-control-allow-credentials") == ("true" if has_origin else None)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "0/m/xhr", "POST, OPTIONS"),
        ("PUT", "0/m/xhr_send", "POST, OPTIONS"),
        ("POST", "0/m/eventsource", "GET"),
        ("DELETE", "info", "GET, OPTIONS"),
        ("POST", "0/m/websocket", "GET"),
        ("POST", "websocket", "GET"),
    ],
)
def test_other_methods_are_refused_and_the_right_ones_named(http: Http, method: str, path: str, allowed: str) -> None:
    reply = http.ask(method, f"{BASE}/{path}", b"")
    assert (reply.status, reply.headers["allow"], reply.body) == (405, allowed, b"")
    assert "content-type" not in reply.headers


# Polling by XHR, and what holds for every session.


def test_a_poll_opens_the_session_and_later_ones_bring_messages(http: Http, url: str) -> None:
    opened = http.ask("POST", f"{url}/xhr", Origin="http://a.example")
    assert (opened.status, opened.text) == (200, "o\n")
    assert opened.headers["content-type"] == "application/javascript; charset=UTF-8"
    assert opened.headers["access-control-allow-origin"] == "http://a.example"
    assert "no-store" in opened.headers["cache-control"]
    sent = http.ask("POST", f"{url}/xhr_send", b'["a","b"]')
    assert (sent.status, sent.body, sent.headers["content-type"]) == (204, b"", "text/plain; charset=UTF-8")
    assert http.ask("POST", f"{url}/xhr").text == 'a["a","b"]\n'
    assert post(http, f"{url}/xhr_send", "close") == 204
    for _ in range(2):
        assert http.ask("POST", f"{url}/xhr").text == 'c[3000,"Go away!"]\n'
    assert post(http, f"{url}/xhr_send", "a") == 404


def test_the_server_part_of_the_path_means_nothing(http: Http, url: str) -> None:
    assert http.ask("POST", f"{url}/xhr").text == "o\n"
    other = url.replace("/000/", "/999/")
    assert post(http, f"{other}/xhr_send", "a") == 204
    assert http.ask("POST", f"{other}/xhr").text == 'a["a"]\n'


def test_an_unknown_session_takes_no_messages(http: Http, url: str) -> None:
    assert post(http, f"{url}/xhr_send", "a") == 404
    assert post(http, f"{url}/jsonp_send", "a") == 404


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "Payload expected."),
        (b'["x', "Broken JSON encoding."),
        (b"[1]", "Broken JSON encoding."),
        (b"[" * 10_000, "Broken JSON encoding."),
        (b'["\xff"]', "Broken JSON encoding."),
    ],
)
def test_broken_payloads_are_refused_and_the_session_goes_on(http: Http, url: str, body: bytes, told: str) -> None:
    http.ask("POST", f"{url}/xhr")
    reply = http.ask("POST", f"{url}/xhr_send", body)
    assert (reply.status, reply.text.strip()) == (500, told)
    assert post(http, f"{url}/xhr_send", "a") == 204
    assert http.ask("POST", f"{url}/xhr").text == 'a["a"]\n'


@pytest.mark.parametrize("kind", ["text/plain", "T", "application/json", "application/xml", "", "text/html; charset=x"])
def test_the_type_of_a_payload_means_nothing_to_xhr_send(http: Http, url: str, kind: str) -> None:
    http.ask("POST", f"{url}/xhr")
    assert http.ask("POST", f"{url}/xhr_send", b'["a"]', Content_Type=kind).status == 204
    assert http.ask("POST", f"{url}/xhr").text == 'a["a"]\n'


def test_a_second_receiver_is_told_that_there_is_one(http: Http, url: str, running: tuple[SockJSBus, Echo]) -> None:
    http.begin("POST", f"{url}/xhr_streaming")
    assert http.line() == "h" * 2048
    assert http.line() == "o"
    with Http(running[0].port) as other:
        assert other.ask("POST", f"{url}/xhr").text == 'c[2010,"Another connection still open"]\n'
        assert post(other, f"{url}/xhr_send", "a") == 204
        assert http.line() == 'a["a"]'


def test_a_session_whose_response_broke_off_is_interrupted(url: str, running: tuple[SockJSBus, Echo]) -> None:
    bus, echo = running
    with Http(bus.port) as http:
        http.begin("POST", f"{url}/xhr_streaming")
        http.line()
        assert http.line() == "o"
        assert len(bus.call(lambda: list(echo.clients))) >= 1
    with Http(bus.port) as http:
        while (text := http.ask("POST", f"{url}/xhr").text) == 'c[2010,"Another connection still open"]\n':
            pass  # the server has not heard of it yet
        assert text == 'c[1002,"Connection interrupted"]\n'


def test_a_lost_session_is_over_after_the_delay_and_its_name_free(
    http: Http, url: str, running: tuple[SockJSBus, Echo]
) -> None:
    bus, echo = running
    assert http.ask("POST", f"{url}/xhr").text == "o\n"
    bus.until(lambda: not echo.clients, "the end of the session")
    assert http.ask("POST", f"{url}/xhr").text == "o\n"


# Streaming.


def test_a_stream_ends_when_enough_was_sent_and_the_next_one_goes_on(
    http: Http, url: str, running: tuple[SockJSBus, Echo]
) -> None:
    reply = http.begin("POST", f"{url}/xhr_streaming")
    assert reply.headers["content-type"] == "application/javascript; charset=UTF-8"
    assert (http.line(), http.line()) == ("h" * 2048, "o")
    with Http(running[0].port) as sender:
        for _ in range(3):
            assert post(sender, f"{url}/xhr_send", "x" * 2000) == 204
    for _ in range(3):
        assert http.line() == 'a["' + "x" * 2000 + '"]'
    assert http.rest() == b""
    http.begin("POST", f"{url}/xhr_streaming")
    assert http.line() == "h" * 2048
    assert post_elsewhere(running, f"{url}/xhr_send", "a") == 204
    assert http.line() == 'a["a"]'


def post_elsewhere(running: tuple[SockJSBus, Echo], path: str, *texts: str) -> int:
    with Http(running[0].port) as sender:
        return post(sender, path, *texts)


def test_eventsource(http: Http, url: str, running: tuple[SockJSBus, Echo]) -> None:
    reply = http.begin("GET", f"{url}/eventsource")
    assert reply.headers["content-type"] == "text/event-stream; charset=UTF-8"
    assert "no-store" in reply.headers["cache-control"]
    assert [http.line() for _ in range(3)] == ["", "data: o", ""]
    text = "  \0\n\r "
    assert post_elsewhere(running, f"{url}/xhr_send", text) == 204
    line = http.line()
    assert json.loads(line.removeprefix("data: a")) == [text]
    for _ in range(2):
        assert post_elsewhere(running, f"{url}/xhr_send", "x" * 3000) == 204
    assert http.rest().endswith(b'x"]\r\n\r\n')


def test_htmlfile(http: Http, url: str, running: tuple[SockJSBus, Echo]) -> None:
    reply = http.begin("GET", f"{url}/htmlfile?c=callback")
    assert reply.headers["content-type"] == "text/html; charset=UTF-8"
    page = ""
    while not page.endswith('p("o");\n</script>\n'):
        page += http.line() + "\n"
    prelude = page.partition("<script>\np(")[0]
    assert len(prelude) >= 1024
    assert "var c = parent.callback;" in prelude
    assert post_elsewhere(running, f"{url}/xhr_send", "</script>&x") == 204
    assert [http.line() for _ in range(3)] == ["<script>", 'p("a[\\"\\u003c/script\\u003e\\u0026x\\"]");', "</script>"]


def test_jsonp(http: Http, url: str) -> None:
    opened = http.ask("GET", f"{url}/jsonp?c=cb.x")
    assert opened.text == '/**/cb.x("o");\r\n'
    assert opened.headers["content-type"] == "application/javascript; charset=UTF-8"
    assert opened.headers["x-content-type-options"] == "nosniff"
    form = "application/x-www-form-urlencoded"
    sent = http.ask("POST", f"{url}/jsonp_send", b"d=%5B%22x%2b%22%5D", Content_Type=form)
    assert (sent.status, sent.text, sent.headers["content-type"]) == (200, "ok", "text/plain; charset=UTF-8")
    assert http.ask("GET", f"{url}/jsonp?c=cb").text == '/**/cb("a[\\"x+\\"]");\r\n'
    assert http.ask("POST", f"{url}/jsonp_send", b'["y"]', Content_Type="text/plain").text == "ok"
    assert http.ask("GET", f"{url}/jsonp?c=cb").text == '/**/cb("a[\\"y\\"]");\r\n'
    for body in (b"", b"d=", b"x=1"):
        refused = http.ask("POST", f"{url}/jsonp_send", body, Content_Type=form)
        assert (refused.status, refused.text.strip()) == (500, "Payload expected.")
    for body in (b"d=%5B%22x", b"d=%ff", b"\xff"):
        refused = http.ask("POST", f"{url}/jsonp_send", body, Content_Type=form)
        assert (refused.status, refused.text.strip()) == (500, "Broken JSON encoding.")


@pytest.mark.parametrize("transport", ["jsonp", "htmlfile"])
@pytest.mark.parametrize("callback", ["a()", "a;b", "%20", "<x>", "a-b", "x" * 101, "%u0041"])
def test_a_callback_that_is_no_name_is_refused(http: Http, url: str, transport: str, callback: str) -> None:
    missing = http.ask("GET", f"{url}/{transport}")
    assert (missing.status, missing.text.strip()) == (500, '"callback" parameter required')
    reply = http.ask("GET", f"{url}/{transport}?c={callback}")
    assert (reply.status, reply.text.strip()) == (500, 'invalid "callback" parameter')


def test_http_1_0_is_answered_and_closed(http: Http, url: str) -> None:
    http.raw(f"POST {url}/xhr HTTP/1.0\r\nContent-Length: 0\r\n\r\n".encode())
    reply = http.finish(http.head())
    assert reply.text == "o\n"
    assert "transfer-encoding" not in reply.headers
    http.must_be_closed()


def test_requests_that_come_together_are_answered_in_order(http: Http, url: str) -> None:
    lines = f"GET {BASE} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 200
    http.raw(lines + f"POST {url}/xhr HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    for _ in range(200):
        assert http.finish(http.head()).text == "Welcome to SockJS!\n"
    assert http.finish(http.head()).text == "o\n"


# WebSocket.


def test_a_websocket_opens_echoes_and_is_closed(running: tuple[SockJSBus, Echo], url: str) -> None:
    with WebSocketClient(running[0].port, f"{url}/websocket") as socket:
        assert socket.receive() == "o"
        socket.send("")
        socket.send('["a","b"]')
        assert socket.receive() == 'a["a","b"]'
        socket.send('"\\ud83d\\ude00"')
        assert socket.receive() == 'a["\\ud83d\\ude00"]'
        socket.send('["close"]')
        assert socket.receive() == 'c[3000,"Go away!"]'
        assert socket.receive_event().code == 1000
        socket.http.must_be_closed()


def test_two_websockets_of_one_name_are_two_sessions(running: tuple[SockJSBus, Echo], url: str) -> None:
    path = f"{url}/websocket"
    with WebSocketClient(running[0].port, path) as one, WebSocketClient(running[0].port, path) as two:
        assert (one.receive(), two.receive()) == ("o", "o")
        one.send('["a"]')
        assert one.receive() == 'a["a"]'


def test_a_raw_websocket_carries_messages_as_they_are(running: tuple[SockJSBus, Echo]) -> None:
    with WebSocketClient(running[0].port, f"{BASE}/websocket") as socket:
        socket.send("Hello ü\ud7ff")
        assert socket.receive() == "Hello ü\ud7ff"
        socket.send("close")
        closed = socket.receive_event()
        assert (closed.code, closed.reason) == (3000, "Go away!")


def test_a_broken_message_ends_a_websocket(running: tuple[SockJSBus, Echo], url: str) -> None:
    with WebSocketClient(running[0].port, f"{url}/websocket") as socket:
        assert socket.receive() == "o"
        socket.send('["a')
        assert socket.receive_event().code == 1002
        socket.http.must_be_closed()


@pytest.mark.parametrize("path", [f"{BASE}/websocket", f"{BASE}/0/bin/websocket"])
def test_pings_are_answered_and_binary_messages_are_not_taken(running: tuple[SockJSBus, Echo], path: str) -> None:
    with WebSocketClient(running[0].port, path) as socket:
        socket.send_event(Ping(b"x"))
        event = socket.receive_event()
        while not isinstance(event, Pong):
            event = socket.receive_event()
        assert event.payload == b"x"
        socket.send_event(BytesMessage(b"x"))
        assert socket.receive_event().code == 1003


def test_a_goodbye_is_answered(running: tuple[SockJSBus, Echo]) -> None:
    with WebSocketClient(running[0].port, f"{BASE}/websocket") as socket:
        socket.send_event(CloseConnection(4321, "bye"))
        assert socket.receive_event().code == 4321
        socket.http.must_be_closed()


@pytest.mark.parametrize(
    ("changed", "status", "told"),
    [
        ({"Upgrade": "", "Connection": ""}, 400, 'Can "Upgrade" only to "WebSocket".'),
        ({"Upgrade": "h2c"}, 400, 'Can "Upgrade" only to "WebSocket".'),
        ({"Connection": "close"}, 400, '"Connection" must be "Upgrade".'),
        ({"Sec_WebSocket_Version": "8"}, 426, "Only version 13"),
        ({"Sec_WebSocket_Version": ""}, 426, "Only version 13"),
        ({"Sec_WebSocket_Key": ""}, 400, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Key": "abc"}, 400, "Sec-WebSocket-Key"),
    ],
)
@pytest.mark.parametrize("path", [f"{BASE}/websocket", f"{BASE}/0/hand/websocket"])
def test_a_wrong_handshake_is_refused(http: Http, path: str, changed: dict[str, str], status: int, told: str) -> None:
    reply = http.ask("GET", path, **upgrade(**changed))
    assert reply.status == status
    assert told in reply.text
    http.must_be_closed()


def test_a_connection_that_polled_may_become_a_websocket(http: Http, url: str) -> None:
    assert http.ask("POST", f"{url}/xhr").text == "o\n"
    assert http.begin("GET", f"{BASE}/0/polled/websocket", **upgrade()).status == 101
    assert http.file.read(3) == b"\x81\x01o"


def test_a_handshake_may_name_more_than_one_wish(http: Http) -> None:
    assert http.begin("GET", f"{BASE}/websocket", **upgrade(Connection="keep-alive, Upgrade")).status == 101


# Who may come, and what is told of them.


def test_the_application_knows_who_opened_the_session(running: tuple[SockJSBus, Echo], http: Http, url: str) -> None:
    http.ask("POST", f"{url}/xhr", Cookie="a=b", Authorization="Bearer x")
    peer = running[1].peers[-1]
    assert peer.host == "127.0.0.1"
    assert (peer.request_headers["cookie"], peer.request_headers["authorization"]) == ("a=b", "Bearer x")


def test_a_message_that_is_not_taken_yet_holds_up_its_sender_alone(
    running: tuple[SockJSBus, Echo], http: Http, url: str
) -> None:
    bus, echo = running
    http.ask("POST", f"{url}/xhr")
    http.request("POST", f"{url}/xhr_send", b'["wait","b"]')
    bus.until(lambda: bool(echo.waiting), "a message that is not taken")
    with Http(bus.port) as other:
        assert other.ask("GET", BASE).status == 200
        assert post(other, f"{url}/xhr_send", "c") == 503

    def take() -> None:
        echo.is_willing = True
        echo.waiting.pop().resume()

    bus.call(take)
    assert http.head().status == 204
    assert http.ask("POST", f"{url}/xhr").text == 'a["wait","b"]\n'
    echo.is_willing = False


def test_a_websocket_is_not_read_while_its_messages_are_not_taken(running: tuple[SockJSBus, Echo]) -> None:
    bus, echo = running
    with WebSocketClient(bus.port, f"{BASE}/websocket") as socket:
        socket.send("wait")
        socket.http.raw(b"".join(socket.frames.send(TextMessage(str(number))) for number in range(5_000)))
        bus.until(lambda: bool(echo.waiting), "a message that is not taken")

        def take() -> None:
            echo.is_willing = True
            echo.waiting.pop().resume()

        bus.call(take)
        assert [socket.receive() for _ in range(5_001)] == ["wait", *map(str, range(5_000))]
    echo.is_willing = False


def test_origins_and_cookies_are_settings() -> None:
    site = Site(prefix="/bus/", origins=("http://a.example",), cookie_needed=True, client_url="http://x/s.js")
    with sockjs_bus(Echo(), site=site, limits=ECHO_LIMITS) as bus, Http(bus.port) as http:
        assert http.ask("GET", "/bus/info", Origin="http://b.example").status == 403
        assert http.ask("POST", "/bus/0/a/xhr", Origin="http://b.example").status == 403
        info = http.ask("GET", "/bus/info", Origin="http://a.example")
        assert json.loads(info.body)["cookie_needed"] is True
        own = http.ask("POST", "/bus/0/a/xhr", Origin="http://localhost")
        assert (own.status, own.headers["set-cookie"]) == (200, "JSESSIONID=dummy; Path=/")
        kept = http.ask("POST", "/bus/0/b/xhr", Cookie="x=y; JSESSIONID=abc.1")
        assert kept.headers["set-cookie"] == "JSESSIONID=abc.1; Path=/"
        forged = http.ask("POST", "/bus/0/c/xhr", Cookie="JSESSIONID=a<b")
        assert forged.headers["set-cookie"] == "JSESSIONID=dummy; Path=/"
        assert "http://x/s.js" in http.ask("GET", "/bus/iframe.html").text
        refused = http.ask("GET", "/bus/websocket", **upgrade(Origin="http://b.example"))
        assert refused.status == 403


def test_one_address_does_not_take_all_sessions() -> None:
    limits = SockJSLimits(sessions_per_address_max=2, disconnect_ms=300)
    with sockjs_bus(Echo(), limits=limits) as bus, Http(bus.port) as http, Http(bus.port, source="127.0.0.2") as other:
        for name in ("a", "b"):
            assert http.ask("POST", f"{BASE}/0/{name}/xhr").text == "o\n"
        refused = http.ask("POST", f"{BASE}/0/c/xhr")
        assert (refused.status, "sessions_per_address_max" in refused.text) == (503, True)
        assert other.ask("POST", f"{BASE}/0/d/xhr").text == "o\n"
        bus.until(lambda: len(bus.server.sessions) == 0, "no sessions")
        assert http.ask("POST", f"{BASE}/0/c/xhr").text == "o\n"


def test_too_many_sessions_are_refused_by_name() -> None:
    limits = SockJSLimits(sessions_max=2, disconnect_ms=300)
    with sockjs_bus(Echo(), limits=limits) as bus, Http(bus.port) as http:
        for name in ("a", "b"):
            assert http.ask("POST", f"{BASE}/0/{name}/xhr").text == "o\n"
        refused = http.ask("POST", f"{BASE}/0/c/xhr")
        assert (refused.status, "sessions_max" in refused.text) == (503, True)
        bus.until(lambda: len(bus.server.sessions) == 0, "no sessions")
        assert http.ask("POST", f"{BASE}/0/c/xhr").text == "o\n"


def test_heartbeats_and_silence() -> None:
    # Far apart: a busy machine may be late for some heartbeats, and their number is no promise.
    limits = SockJSLimits(heartbeat_ms=20, ping_timeout_ms=600)
    with sockjs_bus(Echo(), limits=limits) as bus, WebSocketClient(bus.port) as socket:
        assert socket.receive() == "o"
        frames = list(iter(socket.receive, 'c[3000,"Go away!"]'))
        assert set(frames) == {"h"}


def test_tls_is_spoken_where_there_is_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    client = ssl.create_default_context()
    authority.configure_trust(client)
    with sockjs_bus(Echo(), limits=ECHO_LIMITS, tls=server_context(certificate)) as bus:
        with Http(bus.port, client) as http:
            assert http.ask("GET", BASE).text == "Welcome to SockJS!\n"
            assert http.ask("POST", f"{BASE}/0/tls/xhr").text == "o\n"
        with WebSocketClient(bus.port, tls=client) as socket:
            assert socket.receive() == "o"
            socket.send('["a"]')
            assert socket.receive() == 'a["a"]'
        with Http(bus.port) as plain:
            plain.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            plain.must_be_closed()
