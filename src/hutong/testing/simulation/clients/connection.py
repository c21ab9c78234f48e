"""One connection of a Kafka client: requests out, answers in their order.

What answers say of nodes, and the end of the connection, go to the client's routes.

Knows nothing else of what is asked.
"""

import asyncio
import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from hutong.testing.simulation.clients.routing.routes import Address, Routes
from hutong.testing.simulation.clients.routing.targets import RequestTarget, target_of
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.world import World
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

REQUEST_TIMEOUT_S: Final = 5.0
_SIZE_BYTES: Final = 4


class Disconnected(Exception):
    """No answer came: the request may have been carried out, or not."""


def errors_in(answer: Any) -> Iterator[ErrorCode]:
    """The error codes anywhere in a response."""
    if isinstance(answer, list):
        for each in answer:
            yield from errors_in(each)
    elif dataclasses.is_dataclass(answer):
        for part in dataclasses.fields(answer):
            value = getattr(answer, part.name)
            if part.name.endswith("error_code") and value:
                yield ErrorCode(value)
            else:
                yield from errors_in(value)


class KafkaConnection(asyncio.Protocol):
    """Open one with `connect`; a closed one fails every request at once."""

    def __init__(self, client_id: str, world: World, address: Address, routes: Routes) -> None:
        self._client_id = client_id
        self._world = world
        self.address = address
        self._routes = routes
        self._waiting: deque[tuple[asyncio.Future[Any], int, int, RequestTarget]] = deque()  # with API key and version
        self._received = bytearray()
        self._numbers = 0
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    @classmethod
    async def connect(cls, process: SimProcess, client_id: str, address: Address, routes: Routes) -> "KafkaConnection":
        """Raises Disconnected."""
        try:
            _, protocol = await process.open_connection(
                lambda: cls(client_id, process.world, address, routes), *address
            )
        except OSError as error:
            routes.lost(address)
            raise Disconnected(str(error)) from None
        assert isinstance(protocol, cls)
        return protocol

    def begin(self, request: Any, version: int, target: RequestTarget | None = None) -> "asyncio.Future[Any]":
        """Send it; the future gets the decoded response, or Disconnected. `target` is whom a question is about."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.is_open or self._transport is None:
            _fail_future(future, "the connection is closed")
            return future
        self._numbers += 1
        self._waiting.append((future, message_info(type(request)).api_key, version, target or target_of(request)))
        self._transport.writelines(encode_request_frame(request, version, self._numbers, self._client_id))
        return future

    async def ask(self, request: Any, version: int, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """The decoded response. Raises Disconnected, also after the timeout, which closes the connection."""
        return await self.answer(self.begin(request, version), timeout_s)

    async def answer(self, future: "asyncio.Future[Any]", timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            self.close()
            raise Disconnected("no answer in time") from None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._fail("closed here")

    # -- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            if len(received) < end:
                return
            frame = bytes(received[_SIZE_BYTES:end])
            del received[:end]
            self._answered(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc))

    def _answered(self, frame: bytes) -> None:
        future, api_key, version, target = self._waiting.popleft()
        _, offset = decode_response_header(frame, api_key, version)
        response = codecs.decode_response(api_key, version, frame, offset)
        if self._world.keeps_trace or not self._routes.is_alone:
            errors = sorted(set(errors_in(response)))
            self._routes.heard(target, response, errors)
            self._comment_on(response, errors)
        if not future.done():
            future.set_result(response)

    def _comment_on(self, response: Any, errors: list[ErrorCode]) -> None:
        if errors:
            names = ", ".join(sorted(code.name for code in errors))
            self._world.comment(self._client_id, f"gets {names} in {type(response).__name__}")

    def _fail(self, reason: str) -> None:
        if self.is_open and self._waiting:
            self._world.comment(self._client_id, f"has no answer to {len(self._waiting)} requests: {reason}")
        if self.is_open:
            self._routes.lost(self.address)
        self.is_open = False
        while self._waiting:
            future = self._waiting.popleft()[0]
            if not future.done():
                _fail_future(future, reason)


def _fail_future(future: "asyncio.Future[Any]", reason: str) -> None:
    future.set_exception(Disconnected(reason))
    future.exception()  # nobody has to ask for it: of several requests only the first failure matters
