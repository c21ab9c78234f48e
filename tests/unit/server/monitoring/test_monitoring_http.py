"""The HTTP of the monitoring pages as an engine without a socket: whole, bytewise, with trailing data, and wrong."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import UsageError
from hutong.reactor.connections.connection import Connection
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import ReactorFigures
from hutong.server.monitoring.http import (
    HEAD_BYTES_MAX,
    LIMITS,
    HeadFraming,
    MetricsCredentials,
    Page,
    Pages,
    PageSource,
    parse_head,
)
from hutong.server.monitoring.slices import SlicedPage

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Client:
    """Feeds bytes to a connection engine and collects its answers."""

    def __init__(self, credentials: MetricsCredentials | None = None) -> None:
        self.soon: list[Callable[[], None]] = []
        sliced = SlicedPage(lambda: iter([b"one ", b"two"]), "text/x", self.soon.append)
        sources: dict[str, PageSource] = {
            "/a": lambda: Page(200, b"body of a"),
            "/b": lambda: Page(503, b"not now"),
            "/sliced": sliced,
        }
        pages = Pages(sources, ManualClock(), self.soon.append, credentials)
        framing = HeadFraming(LIMITS.frame_bytes_max)
        peer = Peer(1, "127.0.0.1", 1, framing)
        pages.connection_opened(peer)
        self.engine = Connection(peer, framing, pages, LIMITS, ReactorFigures(), 0, lambda: None)
        self.answers = b""

    def send(self, data: bytes) -> None:
        self.engine.receive_data(data, 0)
        self.take()
        while self.soon:
            self.soon.pop(0)()
            self.take()

    def take(self) -> None:
        self.answers += b"".join(bytes(part) for part in self.engine.data_to_send(0))

    def statuses(self) -> list[int]:
        return [int(part.split(b" ", 1)[0]) for part in self.answers.split(b"HTTP/1.1 ")[1:]]


def asked(data: bytes, credentials: MetricsCredentials | None = None) -> Client:
    client = Client(credentials)
    client.send(data)
    return client


def test_a_page_as_it_leaves() -> None:
    assert asked(GET).answers == (
        b"HTTP/1.1 200 OK\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 9\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\nbody of a"
    )


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET /a?x=1 HTTP/1.1\r\n\r\n", 200),
        (b"GET /b HTTP/1.1\r\n\r\n", 503),
        (b"GET /c HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /a HTTP/1.1\r\n\r\n", 405),
        (b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nGET", 405),
        (b"GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /a HTTP/2.0\r\n\r\n", 400),
        (b"GET a HTTP/1.1\r\n\r\n", 400),
        (b"GET /a\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /a HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"\xff\xfe\r\n\r\n", 400),
        (b"GET /" + b"a" * HEAD_BYTES_MAX + b" HTTP/1.1\r\n\r\n", 431),
        (b"x" * (HEAD_BYTES_MAX + 1), 431),
    ],
)
def test_each_request_has_one_answer(request_head: bytes, status: int) -> None:
    assert asked(request_head).statuses() == [status]


def test_head_is_the_answer_without_the_body() -> None:
    whole, head = asked(GET).answers, asked(GET.replace(b"GET", b"HEAD")).answers
    assert whole == head + b"body of a"


@given(st.lists(st.integers(1, 40), max_size=30))
def test_it_makes_no_difference_how_the_bytes_come(cuts: list[int]) -> None:
    stream = GET + b"\r\n" + GET.replace(b"/a", b"/b") + LAST + GET
    client, at = Client(), 0
    for count in [*cuts, len(stream)]:
        if at < len(stream) and not client.engine.is_closed:
            client.send(stream[at : at + count])
            at += count
    assert client.answers == asked(stream).answers
    assert client.statuses() == [200, 503, 200]
    assert client.engine.is_closed


@pytest.mark.parametrize(
    ("head", "is_last"),
    [
        (GET, False),
        (LAST, True),
        (b"GET /a HTTP/1.0\r\n\r\n", True),
        (b"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", False),
        (b"GET /a HTTP/1.1\r\nConnection: upgrade, Close\r\n\r\n", True),
        (b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\n", True),
        (b"nonsense\r\n\r\n", True),
    ],
)
def test_when_a_connection_ends_and_that_it_says_so(head: bytes, is_last: bool) -> None:
    client = asked(head + GET)
    assert client.engine.is_closed == is_last
    assert len(client.statuses()) == (1 if is_last else 2)
    assert (b"Connection: close" in client.answers) == is_last


@given(st.binary(max_size=200))
def test_any_head_is_a_request_or_none(head: bytes) -> None:
    request = parse_head(head)
    assert request is None or request.path.startswith("/")


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_no_bytes_make_it_hold_more_than_a_head(pieces: list[bytes]) -> None:
    framing = HeadFraming(100)
    for piece in pieces:
        framing.receive_data(piece)
        assert framing.bytes_held <= 100
        assert framing.failure is None


def test_a_page_that_takes_several_turns_is_answered_before_what_follows_it() -> None:
    client = asked(GET.replace(b"/a", b"/sliced") + GET + LAST.replace(b"/a", b"/sliced") + GET)
    assert client.statuses() == [200, 200, 200]
    assert client.answers.count(b"one two") == 2
    assert b"Content-Type: text/x\r\nContent-Length: 7\r\n" in client.answers
    assert client.engine.is_closed


def test_a_last_request_waits_for_the_pages_before_it() -> None:
    client = asked(GET.replace(b"/a", b"/sliced") + LAST)
    assert client.statuses() == [200, 200]
    assert client.answers.endswith(b"body of a")
    assert client.engine.is_closed


def test_who_asks_while_a_page_is_made_gets_that_one() -> None:
    soon: list[Callable[[], None]] = []
    made: list[int] = []
    got: list[list[bytes] | None] = []

    def steps() -> Iterator[bytes]:
        made.append(1)
        yield b"a"
        yield b"b"

    page = SlicedPage(steps, "text/x", soon.append)
    page.ask(got.append)
    soon.pop(0)()
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert (got, made) == ([[b"a", b"b"], [b"a", b"b"]], [1])
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert (len(got), len(made)) == (3, 2)


def test_a_page_that_cannot_be_made_is_tried_anew_for_the_next() -> None:
    soon: list[Callable[[], None]] = []
    got: list[list[bytes] | None] = []
    faults = [True]

    def steps() -> Iterator[bytes]:
        if faults:
            faults.clear()
            raise ValueError("our fault")
        yield b"a"

    page = SlicedPage(steps, "text/x", soon.append)
    page.ask(got.append)
    with pytest.raises(ValueError, match="our fault"):
        soon.pop(0)()
    page.ask(got.append)
    while soon:
        soon.pop(0)()
    assert got == [None, [b"a"]]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"", 401),
        (b"Authorization: Basic YW5uOnPDqWNyZXQ=\r\n", 200),  # ann:s\u00e9cret
        (b"authorization: bAsIc  YW5uOnPDqWNyZXQ=\r\n", 200),
        (b"Authorization: Basic ann:secret\r\n", 401),
        (b"Authorization: Bearer YW5uOnPDqWNyZXQ=\r\n", 401),
        (b"Authorization: Basic\r\n", 401),
        (b"Authorization: Basic \xff\xfe\r\n", 401),
        (b"Authorization: Basic YW5uOnPDqWNyZXQ=x\r\n", 401),
    ],
)
def test_a_page_of_metrics_is_for_who_has_the_password(header: bytes, status: int) -> None:
    client = asked(b"GET /sliced HTTP/1.1\r\n" + header + b"\r\n", MetricsCredentials("ann", "s\u00e9cret"))
    assert client.statuses() == [status]
    assert (b'WWW-Authenticate: Basic realm="hutong"' in client.answers) == (status == 401)


def test_health_is_for_everybody() -> None:
    assert asked(GET, MetricsCredentials("ann", "secret")).statuses() == [200]


@pytest.mark.parametrize("user", ["", "a:b"])
def test_a_user_that_basic_cannot_say_is_refused(user: str) -> None:
    with pytest.raises(UsageError, match=r"metrics\.user"):
        MetricsCredentials(user, "secret")


def test_a_request_does_not_show_its_credentials() -> None:
    assert "c2VjcmV0" not in repr(parse_head(b"GET / HTTP/1.1\r\nAuthorization: Basic c2VjcmV0"))
