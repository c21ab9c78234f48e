"""A Kafka client without a socket: hands whole requests to a node's handler, on the node's own loop.

Strategy: a request of a helper takes the path of any client's request without the network. So it means the same, and
works while the network is broken on purpose. A request that must wait is awaited; the node bounds it by the time
that the request itself names.

Knows nothing of the contents of requests.
"""

import asyncio
from itertools import count
from typing import Any, Final

from hutong.broker.handling.session import ClientSession
from hutong.foundation.errors import OwnerGone
from hutong.reactor.connections.channel import Held
from hutong.reactor.connections.handler import Handler, Peer
from hutong.reactor.frames.framing import length_prefixed
from hutong.reactor.limits import ReactorLimits
from hutong.security.principals import Principal
from hutong.testing.observe.answers import Buffers, when_answered
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame
from hutong.wire.kafka.schema import message_info

CLIENT_ID: Final = "hutong.testing"
HELPER: Final = Principal("Hutong", "testing")
"""The principal of helpers. SASL and certificates give no client this name, and the node allows it everything."""
_SIZE_BYTES: Final = 4
_frame_bytes_max: Final = ReactorLimits().frame_bytes_max


class Loopback:
    """One client of one life of a node, from `__init__` to `close`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._numbers = count(1)
        self._waiting: set[asyncio.Future[Buffers]] = set()
        self._peer = Peer(0, "127.0.0.1", 0, length_prefixed()(_frame_bytes_max))
        handler.connection_opened(self._peer)
        session: ClientSession = self._peer.session
        session.login, session.principal = None, HELPER
        self._session = session

    def close(self) -> None:
        """End the connection: every request without an answer fails with OwnerGone."""
        self._peer.owner.end()
        self._handler.connection_closed(self._peer)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(OwnerGone("the node has stopped"))

    async def ask(self, request: Any, version: int) -> Any:
        """The decoded response. Raises OwnerGone when the node stops first, ProtocolError when it is broken."""
        api_key = message_info(type(request)).api_key
        number = next(self._numbers)
        frame = b"".join(encode_request_frame(request, version, number, CLIENT_ID))[_SIZE_BYTES:]
        answer = b"".join(await self._handed_over(frame) or ())[_SIZE_BYTES:]
        _, body_at = decode_response_header(answer, api_key, version)
        return codecs.decode_response(api_key, version, answer, body_at)

    async def _handed_over(self, frame: bytes) -> Buffers:
        released = asyncio.Event()
        self._session.release = released.set
        while isinstance(answer := self._handler.request_received(frame, self._peer), Held):
            await released.wait()
            released.clear()
        waiter: asyncio.Future[Buffers] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)

        def arrived(buffers: Buffers) -> None:
            if not waiter.done():
                waiter.set_result(buffers)

        def refused() -> None:
            if not waiter.done():
                waiter.set_exception(OwnerGone("the node has ended this request"))

        try:
            when_answered(answer, arrived, refused)
            return await waiter
        finally:
            self._waiting.discard(waiter)
