"""One connection to the TCP bridge of the event bus: frames out and in, each a length and a JSON object, as in Vert.x.

Knows nothing of what is sent.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from hutong.testing.simulation.hosts.host import SimProcess

_SIZE_BYTES: Final = 4
Frame = dict[str, Any]


class BridgeConnection(asyncio.Protocol):
    """Open one with `connect`. `received` gets each frame, `lost` is called once, at the end."""

    def __init__(self, received: Callable[[Frame], None], lost: Callable[[], None]) -> None:
        self.is_open = False
        self._on_received = received
        self._on_lost = lost
        self._bytes = bytearray()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(
        cls, process: SimProcess, place: tuple[str, int], received: Callable[[Frame], None], lost: Callable[[], None]
    ) -> "BridgeConnection":
        """Raises OSError."""
        _, protocol = await process.open_connection(lambda: cls(received, lost), *place)
        assert isinstance(protocol, cls)
        return protocol

    def send(self, frame: Frame) -> None:
        if self.is_open and self._transport is not None:
            data = json.dumps(frame).encode()
            self._transport.write(len(data).to_bytes(_SIZE_BYTES, "big") + data)

    def set_reading(self, *, is_reading: bool) -> None:
        """Stop reading, or go on: a client that is busy."""
        if self.is_open and self._transport is not None:
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # -- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        received = self._bytes
        received += data
        while len(received) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(received[:_SIZE_BYTES], "big")
            # The rest of the frame is on its way.
            if len(received) < end:
                return
            frame = json.loads(received[_SIZE_BYTES:end])
            del received[:end]
            self._on_received(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        # Once: a connection that was closed here is lost, too.
        if self.is_open:
            self.is_open = False
            self._on_lost()
