"""The question whether anybody listens at an address: a connection that is closed as soon as it is open.

Knows nothing of nodes.
"""

import asyncio
import socket

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.connections.channel import Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import Connector
from hutong.reactor.frames.framing import length_prefixed
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

CLOSING_MS_MAX = 100


class AddressProbe:
    """Any number of questions at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, clock: Clock, wheel: TimerWheel, timeout_ms: int) -> None:
        limits = ReactorLimits(closing_ms_max=CLOSING_MS_MAX)
        handler, framing = _ClosingHandler(), length_prefixed()
        self._loop = loop
        self._connector = Connector(loop, handler, framing, clock=clock, wheel=wheel, limits=limits)
        self._timeout_ms = timeout_ms

    async def ask(self, host: str, port: int) -> None:
        """Return if somebody listens at an address of `host`. Raises ConnectionRefusedError where each refuses.

        Raises OSError and HutongError where that cannot be known.
        """
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        refused = None
        # One by one: the loop's own way around several addresses does not say that all of them refused.
        for address in dict.fromkeys(str(place[0]) for *_, place in found):
            try:
                peer = await self._connector.connect(address, port, timeout_ms=self._timeout_ms)
            except ConnectionRefusedError as error:
                refused = error
            else:
                peer.close()
                return
        if refused is not None:
            raise refused

    async def close(self) -> None:
        await self._connector.close(0)


class _ClosingHandler:
    """Takes nothing."""

    def connection_opened(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        peer.close()
        return None

    def connection_closed(self, peer: Peer) -> None: ...
