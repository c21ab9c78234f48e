"""Pages of other origins at a web server, and WebSockets that it speaks on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.sockjs import upgrade
from tests.support.web_client import WebClient, request
from wsproto import ConnectionType
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Ping, TextMessage

from hutong.web.answers import SocketAnswer, WebAnswer, text
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute
from hutong.web.visitors import Visitors


def page(*fields: str, method: str = "GET") -> bytes:
    """A request that a browser sends for a page."""
    return request(method, "/a", b"", "", *fields).replace(b"Host: x\r\n", b"")


ROUTES = [WebRoute("GET", "/a", lambda _request: text(200, "body"))]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (("Host: 127.0.0.1:80",), 200),
        (("Host: localhost",), 200),
        (("Host: rebound.example",), 403),
        (("Host: rebound.example", "Origin: http://rebound.example"), 403),
        (("Host: 127.0.0.1:80", "Origin: http://127.0.0.1:80"), 200),
        (("Host: 127.0.0.1:80", "Origin: http://stranger.example"), 403),
        (("Host: 127.0.0.1:80", "Origin: null"), 403),
        (("Host: 127.0.0.1:80", "Origin: https://shop.example"), 200),
    ],
)
async def test_pages_of_strangers_are_refused(fields: tuple[str, ...], status: int) -> None:
    client = WebClient(ROUTES, visitors=Visitors(("https://shop.example", "http://127.0.0.1:80")))
    await client.send(page(*fields))
    assert client.statuses == [status]


async def test_a_page_that_is_allowed_may_read_the_answer_and_ask_first() -> None:
    visitors = Visitors(("https://shop.example",))
    client = WebClient(ROUTES, visitors=visitors)
    fields = ("Host: 127.0.0.1", "Origin: https://shop.example")
    await client.send(page(*fields) + page(*fields, "Access-Control-Request-Headers: content-type", method="OPTIONS"))
    assert client.statuses == [200, 204]
    assert client.answers.count(b"Access-Control-Allow-Origin: https://shop.example\r\n") == 2
    assert b"Access-Control-Allow-Headers: content-type\r\n" in client.answers
    other = WebClient(ROUTES, visitors=visitors)
    await other.send(page("Host: 127.0.0.1", "Origin: https://other.example", method="OPTIONS"))
    assert other.statuses == [403]
    assert b"Access-Control-Allow-Origin" not in other.answers


class Speaker:
    """A route that speaks on a WebSocket, until `gate` is opened."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.closed = 0

    def answer(self, request: WebRequest) -> SocketAnswer | WebAnswer:
        return SocketAnswer(self.texts())

    async def texts(self) -> AsyncIterator[str | None]:
        try:
            yield "one"
            yield None
            yield "two"
            await self.gate.wait()
        finally:
            self.closed += 1

    @property
    def routes(self) -> list[WebRoute]:
        return [WebRoute("GET", "/speak", self.answer)]


def handshake(**changed: str) -> bytes:
    fields = [f"{name.replace('_', '-')}: {value}" for name, value in upgrade(**changed).items()]
    return request("GET", "/speak", b"", "", *fields)


def heard(client: WebClient) -> list[object]:
    frames = Connection(ConnectionType.CLIENT)
    frames.receive_data(client.answers.partition(b"\r\n\r\n")[2])
    return list(frames.events())


async def test_a_socket_speaks_until_its_texts_end() -> None:
    speaker = Speaker()
    client = WebClient(speaker.routes)
    await client.send(handshake())
    assert client.statuses == [101]
    assert [type(event) for event in heard(client)] == [TextMessage, Ping, TextMessage]
    speaker.gate.set()
    await client.settle()
    last = heard(client)[-1]
    assert isinstance(last, CloseConnection)
    assert last.code == 1000
    assert speaker.closed == 1
    assert client.http.is_finished


async def test_what_a_client_says_on_it_is_dropped_and_its_goodbye_ends_it() -> None:
    speaker = Speaker()
    client = WebClient(speaker.routes)
    await client.send(handshake())
    frames = Connection(ConnectionType.CLIENT)
    await client.send(frames.send(TextMessage("hear me")) + frames.send(CloseConnection(1000)))
    client.lose()
    await client.settle()
    assert speaker.closed == 1


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Upgrade": "h2c"}, 400),
        ({"Connection": "keep-alive"}, 400),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": "short"}, 400),
    ],
)
async def test_what_is_no_handshake_is_refused(changed: dict[str, str], status: int) -> None:
    client = WebClient(Speaker().routes)
    await client.send(handshake(**changed))
    assert client.statuses == [status]
