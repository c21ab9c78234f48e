"""The TCP event-bus bridge: Vert.x's clients of that protocol, each frame a 32-bit length and one JSON object.

Strategy: the reactor's handler of a `Bridge`. Every frame is answered with nothing as far as the reactor is concerned,
so that it begins a bounded number of frames per loop iteration; frames for the client are pushed. A frame too large
cannot be skipped: the client gets an error, and its connection is closed.

Knows nothing of what frames mean.
"""

import struct
from typing import Final

from hutong.bus.bridge.bridge import Bridge
from hutong.bus.bridge.driver import ConnectedClient
from hutong.bus.bridge.hooks import BridgePeer
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.frames.framing import LengthPrefixedFraming
from hutong.wire.buffer import Buffer

FRAMES_PER_TURN_MAX: Final = 64
"""The acceptor's `requests_in_flight_max`: a client's frames in one loop iteration."""
_length: Final = struct.Struct(">i").pack
_TOO_LARGE: Final = memoryview(b"")
"""Marker for a frame that the framing did not take. An empty frame of a client is `bytes`, never this very object."""


class BridgeFraming(LengthPrefixedFraming):
    """Hands out `_TOO_LARGE` where the stream breaks, behind the frames before it."""

    __slots__ = ("_is_reported",)

    def __init__(self, frame_bytes_max: int) -> None:
        super().__init__(frame_bytes_max)
        self._is_reported = False

    def receive_data(self, data: Buffer) -> list[Buffer]:
        frames = super().receive_data(data)
        if self.failure is not None and not self._is_reported:
            self._is_reported = True
            frames.append(_TOO_LARGE)
        return frames


class _Outlet:
    """One client's way out."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def write(self, frame: bytes) -> None:
        self._peer.push([_length(len(frame)), frame])

    def resume(self) -> None:
        self._peer.release()

    def close(self) -> None:
        self._peer.close()


class TcpBridge:
    """The handler of an acceptor whose framing is BridgeFraming."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._clients: dict[Peer, ConnectedClient] = {}

    def connection_opened(self, peer: Peer) -> None:
        who = BridgePeer(0, peer.address, peer.port, peer.certificate)
        client = self._bridge.connect(who, _Outlet(peer))
        if client is None:
            peer.close()
            return
        self._clients[peer] = client
        peer.sending_changed = client.sending_changed

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        client = self._clients.get(peer)
        if client is None:
            return []
        if frame is _TOO_LARGE:
            client.frame_too_large()
            return []
        return [] if client.receive(frame) else HELD

    def connection_closed(self, peer: Peer) -> None:
        client = self._clients.pop(peer, None)
        if client is not None:
            client.ended()
