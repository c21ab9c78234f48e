"""A web server without a socket: requests in, answers out in order, later, streamed, refused, cut off."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.web_client import WebClient, answered, request

from hutong.security.principals import ANONYMOUS, USER, Principal
from hutong.web.admission import Everybody, OneUser, basic_credentials
from hutong.web.answers import StreamedAnswer, WebAnswer, WebRefusal, json, text
from hutong.web.limits import HttpLimits, WebLimits
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Server:
    """Some routes, and what has happened at them."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: list[WebRequest] = []
        self.cancelled = 0
        self.streams_closed = 0
        self.chunks_made = 0

    @property
    def routes(self) -> list[WebRoute]:
        return [
            WebRoute("GET", "/a", lambda _request: text(200, "body of a")),
            WebRoute("GET", "/late", self.late),
            WebRoute("GET", "/stream", self.stream),
            WebRoute("POST", "/items/{name}/parts/{number:int}", self.take, ("application/json", "application/x")),
            WebRoute("GET", "/items/types", lambda _request: text(200, "types")),
            WebRoute("GET", "/items/{name}", self.note),
            WebRoute("GET", "/refused", self.refuse),
            WebRoute("GET", "/broken", self.fail),
            WebRoute("GET", "/broken-later", self.fail_later),
            WebRoute("GET", "/public", lambda _request: text(200, "for all"), is_public=True),
            WebRoute("DELETE", "/items/{name}", lambda _request: WebAnswer(204)),
        ]

    def note(self, request: WebRequest) -> WebAnswer:
        self.seen.append(request)
        return text(200, request.text("name"))

    async def late(self, request: WebRequest) -> WebAnswer:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return text(200, "late")

    def stream(self, request: WebRequest) -> StreamedAnswer:
        return StreamedAnswer(self.chunks(), "text/event-stream")

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for number in range(100):
                self.chunks_made += 1
                yield f"chunk {number};".encode()
            await self.gate.wait()
        finally:
            self.streams_closed += 1

    def take(self, request: WebRequest) -> WebAnswer:
        self.seen.append(request)
        return json({"sum": sum(request.json(list[int]))}, 201)

    def refuse(self, request: WebRequest) -> WebAnswer:
        raise WebRefusal(409, "not now", 40901)

    def fail(self, request: WebRequest) -> WebAnswer:
        raise ZeroDivisionError("our fault")

    async def fail_later(self, request: WebRequest) -> WebAnswer:
        raise ZeroDivisionError("our fault")


async def test_an_answer_as_it_leaves() -> None:
    client = await answered(GET, Server().routes)
    assert client.answers == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
        b"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: 9\r\n\r\nbody of a"
    )


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("GET", "/a?x=1"), 200),
        (request("GET", "http://x/a?x=1"), 200),
        (request("GET", "/items/types"), 200),
        (request("GET", "/items/types/"), 200),
        (request("GET", "/items/a%2Fb"), 200),
        (request("GET", "/items/"), 404),
        (request("GET", "/items/%ff"), 400),
        (request("GET", "/c"), 404),
        (request("GET", "/" + "a/" * 100), 404),
        (request("PUT", "/a"), 405),
        (request("BREW", "/a"), 405),
        (request("POST", "/items/x/parts/1", b"[1,2]"), 201),
        (request("POST", "/items/x/parts/1", b"[1,2]", "application/x; v=1"), 201),
        (request("POST", "/items/x/parts/1", b"[1,2]", "text/plain"), 415),
        (request("POST", "/items/x/parts/1", b"[1,"), 400),
        (request("POST", "/items/x/parts/1", b"[" * 5000), 400),
        (request("POST", "/items/x/parts/1", b'["a"]'), 400),
        (request("POST", "/items/x/parts/-1", b"[1]"), 404),
        (request("POST", "/items/x/parts/1_0", b"[1]"), 404),
        (request("POST", "/items/x/parts/" + "9" * 30, b"[1]"), 404),
        (request("POST", "/items/x/parts/1", b"1" * 10_001), 413),
        (request("GET", "/a", b"", "", "X: " + "y" * 20_000), 431),
        (request("GET", "/items/a?" + "a=1&" * 100), 400),
        (request("GET", "/items/a?a=%ff"), 400),
        (request("GET", "ftp://x/a"), 400),
        (request("GET", "*"), 400),
        (request("GET", "/refused"), 409),
        (request("DELETE", "/items/a"), 204),
        (b"GET /a HTTP/1.1\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"\xff\xfe\r\n\r\n", 400),
    ],
)
async def test_each_request_has_one_answer(data: bytes, status: int) -> None:
    client = await answered(data, Server().routes, limits=WebLimits(HttpLimits(body_bytes_max=10_000)))
    assert client.statuses == [status]


async def test_a_method_that_is_not_there_names_those_that_are() -> None:
    client = await answered(request("PUT", "/items/a"), Server().routes)
    assert b"Allow: DELETE, GET, HEAD\r\n" in client.answers


async def test_parameters_and_query_arrive_unescaped() -> None:
    server = Server()
    await answered(request("GET", "/items/a%2Fb%20%E5%8C%97?x=1&x=2&y=%20&z="), server.routes)
    (seen,) = server.seen
    assert (seen.text("name"), dict(seen.query)) == ("a/b 北", {"x": "2", "y": " ", "z": ""})


async def test_head_is_the_answer_without_the_body() -> None:
    whole, head = await answered(GET, Server().routes), await answered(GET.replace(b"GET", b"HEAD"), Server().routes)
    assert whole.answers == head.answers + b"body of a"


@given(st.lists(st.integers(1, 40), max_size=30))
async def test_it_makes_no_difference_how_the_bytes_come(cuts: list[int]) -> None:
    server = Server()
    server.gate.set()
    stream = GET + b"\r\n" + GET.replace(b"/a", b"/late") + GET.replace(b"/a", b"/b") + LAST + GET
    client, at = WebClient(server.routes), 0
    for count in [*cuts, len(stream)]:
        if at < len(stream) and not client.engine.is_closed:
            await client.send(stream[at : at + count])
            at += count
    assert client.answers == (await answered(stream, server.routes)).answers
    assert client.statuses == [200, 200, 404, 200]
    assert client.engine.is_closed


@pytest.mark.parametrize(
    ("data", "is_last"),
    [
        (GET, False),
        (LAST, True),
        (b"GET /a HTTP/1.0\r\n\r\n", True),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: upgrade, Close\r\n\r\n", True),
        (request("PUT", "/a", b"x"), False),
        (b"nonsense\r\n\r\n", True),
    ],
)
async def test_when_a_connection_ends_and_that_it_says_so(data: bytes, is_last: bool) -> None:
    client = await answered(data + GET, Server().routes)
    assert client.engine.is_closed == is_last
    assert len(client.statuses) == (1 if is_last else 2)
    assert (b"connection: close" in client.answers.lower()) == is_last


async def test_requests_behind_a_late_answer_wait_for_it_unread() -> None:
    server = Server()
    client = await answered(GET.replace(b"/a", b"/late") + GET * 3, server.routes)
    assert client.statuses == []
    await client.send(GET * 1000)
    assert not client.engine.wants_to_read(client.clock.monotonic_ms())
    server.gate.set()
    await client.settle()
    assert client.statuses == [200] * 1004
    assert client.answers.index(b"late") < client.answers.index(b"body of a")
    assert client.engine.wants_to_read(client.clock.monotonic_ms())


async def test_a_client_that_goes_ends_what_it_waited_for() -> None:
    server = Server()
    client = await answered(GET.replace(b"/a", b"/late"), server.routes)
    client.lose()
    await client.settle()
    assert server.cancelled == 1


async def test_a_server_that_stops_lets_an_answer_be_completed() -> None:
    server = Server()
    client = await answered(GET.replace(b"/a", b"/late"), server.routes)
    client.engine.drain()
    assert not client.engine.is_closed
    server.gate.set()
    await client.settle()
    assert client.statuses == [200]
    assert client.engine.is_closed


async def test_a_stream_is_made_no_faster_than_it_is_read() -> None:
    server = Server()
    client = WebClient(server.routes)
    client.peer.sending_changed(True)
    await client.send(GET.replace(b"/a", b"/stream"))
    assert server.chunks_made == 1
    client.peer.sending_changed(False)
    await client.settle()
    assert server.chunks_made == 100
    assert b"transfer-encoding: chunked" in client.answers.lower()
    server.gate.set()
    await client.send(GET)
    assert (client.statuses, server.streams_closed) == ([200, 200], 1)


async def test_a_stream_ends_with_its_client_or_its_server() -> None:
    server = Server()
    gone, stopped = WebClient(server.routes), WebClient(server.routes)
    for client in (gone, stopped):
        await client.send(GET.replace(b"/a", b"/stream"))
    gone.lose()
    stopped.driver.end_streams()
    for client in (gone, stopped):
        await client.settle()
    assert server.streams_closed == 2
    assert stopped.engine.is_closed


async def test_the_head_of_a_stream_makes_no_chunks() -> None:
    server = Server()
    client = await answered(GET.replace(b"GET /a", b"HEAD /stream") + GET, server.routes)
    assert (client.statuses, server.chunks_made) == ([200, 200], 0)
    gc.collect()


@pytest.mark.parametrize("path", ["/broken", "/broken-later"])
async def test_a_fault_of_ours_is_reported_and_answered(path: str) -> None:
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context["exception"]))
    client = await answered(request("GET", path) + GET, Server().routes)
    assert client.statuses == [500, 200]
    assert b"our fault" not in client.answers
    assert [type(each) for each in heard] == [ZeroDivisionError]


async def test_a_slow_request_is_answered_before_its_connection_ends() -> None:
    client = await answered(GET + GET[:20], Server().routes)
    await client.send(GET[20:25])
    client.clock.advance(WebLimits().request_ms_max + 1)
    client.engine.handle_timer(client.clock.monotonic_ms())
    client.take()
    assert client.statuses == [200, 408]
    assert client.engine.is_closed


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("X: y", 401),
        ("Authorization: Basic YW5uOnPDqWNyZXQ=", 200),  # ann:sécret
        ("authorization: bAsIc  YW5uOnPDqWNyZXQ=", 200),
        ("Authorization: Basic ann:secret", 401),
        ("Authorization: Bearer YW5uOnPDqWNyZXQ=", 401),
        ("Authorization: Basic", 401),
        ("Authorization: Basic YW5u", 401),
        ("Authorization: Basic /zp4", 401),
        ("Authorization: Basic YW5uOnPDqWNyZXQ=x", 401),
        ("Authorization: Basic YW5uOng=", 401),
    ],
)
async def test_a_route_is_for_users_unless_it_is_public(header: str, status: int) -> None:
    for target, expected in (("/a", status), ("/nowhere", 404 if status == 200 else 401), ("/public", 200)):
        client = await answered(request("GET", target, b"", "", header), Server().routes, OneUser("ann", "s\u00e9cret"))
        assert client.statuses == [expected]
        assert (b'WWW-Authenticate: Basic realm="hutong"' in client.answers) == (expected == 401)


async def test_who_asks_may_be_found_out_later() -> None:
    class Slow:
        async def admit(self, request: object, peer: object) -> Principal:
            await asyncio.sleep(0)
            user, _password = basic_credentials(request)  # type: ignore[arg-type]
            return Principal(USER, user)

    server = Server()
    header = "Authorization: Basic YW5uOng="
    for target, expected in (("/items/a", 200), ("/nowhere", 404), ("/public", 200)):
        assert (await answered(request("GET", target, b"", "", header), server.routes, Slow())).statuses == [expected]
    assert (await answered(request("GET", "/items/a"), server.routes, Slow())).statuses == [401]
    assert [each.principal for each in server.seen] == [Principal(USER, "ann")]


async def test_everybody_is_who_the_certificate_says() -> None:
    server = Server()
    await answered(request("GET", "/items/a"), server.routes)
    await answered(request("GET", "/items/a"), server.routes, Everybody(lambda _peer: Principal(USER, "CN=x")))
    assert [each.principal for each in server.seen] == [ANONYMOUS, Principal(USER, "CN=x")]


def test_a_request_does_not_show_its_credentials() -> None:
    seen = WebRequest("GET", "/", {}, {}, {"authorization": "Basic c2VjcmV0"}, b"secret", "127.0.0.1")
    assert "c2VjcmV0" not in repr(seen)
    assert "secret" not in repr(seen)


@pytest.mark.parametrize("pattern", ["a", "/{a", "/{1}", "/{a:float}"])
async def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="a pa"):
        WebClient([WebRoute("GET", pattern, lambda _request: WebAnswer(204))])


async def test_a_route_that_is_there_twice_is_refused() -> None:
    route = WebRoute("GET", "/a", lambda _request: WebAnswer(204))
    with pytest.raises(ValueError, match="twice"):
        WebClient([route, route])


@pytest.mark.parametrize(
    ("query", "number"), [("", 7), ("n=3", 3), ("n=-2", -2), ("n=11", None), ("n=+3", None), ("n=" + "1" * 99, None)]
)
def test_numbers_of_a_query_are_bounded(query: str, number: int | None) -> None:
    asked = WebRequest("GET", "/", {}, dict([query.split("=")]) if query else {}, {}, b"", "")
    if number is None:
        with pytest.raises(WebRefusal, match="from -5 to 10"):
            asked.integer("n", 7, -5, 10)
    else:
        assert asked.integer("n", 7, -5, 10) == number


@pytest.mark.parametrize(("value", "flag"), [(None, True), ("true", True), ("", True), ("FALSE", False), ("x", None)])
def test_flags_of_a_query(value: str | None, flag: bool | None) -> None:
    asked = WebRequest("GET", "/", {}, {} if value is None else {"f": value}, {}, b"", "")
    if flag is None:
        with pytest.raises(WebRefusal, match="true or false"):
            asked.flag("f")
    else:
        assert asked.flag("f", default=True) is flag
