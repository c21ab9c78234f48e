"""Interface between the reactor and its user: peers, and the handler of their requests.

Strategy: a handler is given whole frames and a `Peer`, and returns an answer (`channel.Response`). It never sees a
socket, so it cannot write out of order. A protocol whose server speaks without being asked uses `Peer.push` for that,
and `Peer.sending_changed` is called when its peer does not read.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hutong.foundation.waiting.table import Owner
from hutong.reactor.connections.channel import PendingResponse, Response
from hutong.reactor.figures import CloseReason
from hutong.reactor.frames.framing import Framing
from hutong.wire.buffer import Buffer


class Peer:
    """The other end of a connection, as the handler sees it.

    `owner` ends with the connection, and with it everything parked under it. `certificate` is the peer's, as
    `ssl.SSLSocket.getpeercert` returns it, `certificate_der` the same in DER; None without a certificate or TLS.
    `express` is the handler's fast path for requests that this peer repeats, None without one. `session` is the
    handler's own state of the connection. `queued_ms` is the time that the current request has waited for others of its
    connection.

    The functions may be called at any time and more than once, and do nothing once the connection is gone. `release`
    lets a peer go on whose request was answered with HELD. `push` sends buffers that answer no request; they are not
    held up by answers still pending, nor by a peer that does not read: bounding them is the handler's. `send` is the
    same at once, for a handler that sends nothing else in this loop iteration. `close` ends the connection once what is
    ready was sent. The handler may set `sending_changed`: called with True when more is
    unsent than `unsent_bytes_max`, with False when most of it is gone. `unsent_bytes` is how much that is;
    `close_reason` why the connection ended, once it did. It may set `frame_overdue` as well: called before a connection
    is closed whose frame took too long, so that the handler can push a last word.

    A peer that does not read is not listened to either. Where both sides ask and answer, two that wait for each other
    in this way would wait for ever: such a handler sets `is_duplex`, so that requests are begun all the same, and
    bounds by itself, with HELD, what it answers meanwhile.
    """

    __slots__ = (
        "_framing",
        "address",
        "certificate",
        "certificate_der",
        "close",
        "close_reason",
        "express",
        "frame_overdue",
        "id",
        "is_duplex",
        "owner",
        "port",
        "push",
        "queued_ms",
        "release",
        "send",
        "sending_changed",
        "session",
        "unsent_bytes",
    )

    def __init__(self, peer_id: int, address: str, port: int, framing: Framing) -> None:
        self.id = peer_id
        self.address = address
        self.port = port
        self.owner = Owner()
        self.certificate: Mapping[str, Any] | None = None
        self.certificate_der: bytes | None = None
        self.close_reason: CloseReason | None = None
        self.unsent_bytes: Callable[[], int] = nothing_unsent
        self.express: Express | None = None
        self.session: Any = None
        self.is_duplex = False
        self.queued_ms = 0
        self.release: Callable[[], None] = do_nothing
        self.close: Callable[[], None] = do_nothing
        self.push: Callable[[list[Buffer]], None] = drop_buffers
        self.send: Callable[[list[Buffer]], None] = drop_buffers
        self.sending_changed: Callable[[bool], None] = ignore_change
        self.frame_overdue: Callable[[], None] = do_nothing
        self._framing = framing

    @property
    def framing(self) -> Framing:
        """The framing of its connection, for a handler whose answers depend on what was read so far (HTTP)."""
        return self._framing

    @property
    def frame_limit(self) -> int:
        """Largest frame taken from this peer, in bytes: small before it has authenticated."""
        return self._framing.frame_bytes_max

    @frame_limit.setter
    def frame_limit(self, frame_bytes_max: int) -> None:
        self._framing.frame_bytes_max = frame_bytes_max

    def __str__(self) -> str:
        return f"peer {self.id} at {self.address}:{self.port}"


# The functions of a peer without a connection: not opened yet, or gone.


def do_nothing() -> None:
    """Ignore a call."""


def nothing_unsent() -> int:
    """Report no unsent bytes."""
    return 0


def drop_buffers(buffers: list[Buffer]) -> None:
    """Send nothing."""


def ignore_change(is_paused: bool) -> None:
    """Ignore a pause or its end: also the default of a handler that pushes nothing."""


RequestBatch = tuple[int, int, list[Buffer] | PendingResponse]
"""Requests taken together: how many, how many bytes they were, and all their answers in order."""


class Express(Protocol):
    """Takes requests that arrived together, for a handler that recognises them by their bytes, uncut."""

    def take_requests(self, data: Buffer, requests_max: int) -> RequestBatch | None:
        """Begin the requests at the beginning of `data`, which is only lent and begins with a frame.

        None, or fewer than there are, where the rest must go by `Handler.request_received`.
        """
        ...


class Handler(Protocol):
    """The handler of one protocol, which the reactor calls."""

    def connection_opened(self, peer: Peer) -> None: ...

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        """Begin one request. Raising ProtocolError closes this connection; any other error is a fault of ours.

        HELD keeps this request and all that follow; reading stops, so the peer feels it, until `peer.release()`.
        """
        ...

    def connection_closed(self, peer: Peer) -> None:
        """Called once for each connection opened; its owner has ended by then."""
        ...
