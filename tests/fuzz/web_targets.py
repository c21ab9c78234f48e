"""A whole web server without a socket: any bytes are answered or end their connection, and no handler fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any, Final

from tests.fuzz.bus_targets import http_requests
from tests.fuzz.target import KIBIBYTE, MEBIBYTE, Target
from tests.support.web_client import WebClient, request

from hutong.web.admission import OneUser
from hutong.web.answers import StreamedAnswer, WebAnswer, json, text
from hutong.web.limits import HttpLimits, WebLimits
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute

LIMITS: Final = WebLimits(HttpLimits(head_bytes_max=4 * KIBIBYTE, body_bytes_max=16 * KIBIBYTE))
CREDENTIALS: Final = "Authorization: Basic YW5uOnNlY3JldA=="


def _take(request: WebRequest) -> WebAnswer:
    request.flag("flag")
    request.integer("number", 0, 0, 10)
    return json([request.json(dict[str, Any]), request.parameters, request.accepts("application/json")])


async def _late(request: WebRequest) -> WebAnswer:
    await asyncio.sleep(0)
    return text(200, request.text("name"))


async def _chunks() -> AsyncIterator[bytes]:
    yield b"one"
    yield b"two"


ROUTES: Final = [
    WebRoute("POST", "/a/{name}/b/{number:int}", _take, ("application/json",)),
    WebRoute("GET", "/a/{name}", _late),
    WebRoute("GET", "/stream", lambda _request: StreamedAnswer(_chunks(), "text/event-stream")),
    WebRoute("GET", "/healthz", lambda _request: text(200, "ok"), is_public=True),
]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _visit(data: bytes) -> bytes:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    client = WebClient(ROUTES, OneUser("ann", "secret"), LIMITS)
    cut = data[0] if data else 0
    for part in filter(None, (data[1 : 1 + cut], data[1 + cut :])):
        if not client.engine.is_closed:
            await client.send(part)
    client.lose()
    await asyncio.sleep(0)
    assert not faults, faults
    return client.answers


def serve(data: bytes) -> object:
    """The first byte says where the data is cut."""
    return _loop().run_until_complete(_visit(data))


def visits() -> Iterator[bytes]:
    yield from http_requests()
    yield (
        b"\x40" + request("GET", "/a/x%20y?q=1", b"", "", CREDENTIALS) + request("GET", "/stream", b"", "", CREDENTIALS)
    )
    yield b"\x10" + request("POST", "/a/x/b/3?flag=true&number=3", b'{"a":[1]}', "application/json", CREDENTIALS)
    yield b"\x10" + request("HEAD", "/stream", b"", "", CREDENTIALS) + request("GET", "/healthz")


TARGETS = [Target("web", serve, visits, (), memory_base=8 * MEBIBYTE, memory_factor=4_000, slowness=4)]
