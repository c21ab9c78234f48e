"""Hooks of a bridge: an authenticator that is asked about each frame, and an event hook that sees and changes events.

Knows nothing of sessions or transports.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hutong.wire.vertx.client_frames import ClientFrame
from hutong.wire.vertx.codes import Code


@dataclass(slots=True, eq=False)
class BridgePeer:
    """The client at the other end of a bridge.

    `certificate` is the client's, as `ssl.SSLSocket.getpeercert` gives it, None without one. `request_headers` are
    those of the HTTP request that opened a SockJS session, names in lower case; empty over TCP. `user` is the
    authenticator's to set and everybody's to read.
    """

    id: int
    host: str
    port: int
    certificate: Mapping[str, Any] | None = None
    request_headers: Mapping[str, str] = field(default_factory=dict)
    user: Any = None

    def __str__(self) -> str:
        return f"bridge client {self.id} at {self.host}:{self.port}"


class Verdict(Enum):
    """The decision of an authenticator; all except ALLOWED are answered with the code."""

    ALLOWED = None
    DENIED = Code.ACCESS_DENIED
    NOT_LOGGED_IN = Code.NOT_LOGGED_IN


Authenticator = Callable[[BridgePeer, ClientFrame], Verdict | Awaitable[Verdict]]
"""Asked about each frame but pings, before anything is done with it, in the bridge's context.

While a coroutine decides, nothing further of that client is begun, and its socket is not read. What is raised is
answered with `auth_error` and reported to the context's exception handler. To be asked once, keep the answer in
`peer.user`.
"""


class EventKind(Enum):
    """The kinds of events that an event hook gets."""

    OPENED = "opened"  # a client has connected; blocking closes it
    CLOSED = "closed"  # it has gone; blocking changes nothing
    SEND = "send"
    PUBLISH = "publish"
    REGISTER = "register"
    UNREGISTER = "unregister"
    RECEIVE = "receive"  # a message of the bus, or the reply to a request, goes to the client


@dataclass(slots=True)
class BridgeEvent:
    """One event, which its hook may change: the bridge uses the fields as the hook leaves them.

    `address`, `body` and `headers` are those of the frame, or of the message that the client is given; permissions are
    asked after the hook, about the address that it left.
    """

    kind: EventKind
    peer: BridgePeer
    address: str = ""
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


EventHook = Callable[[BridgeEvent], bool]
"""True lets the event pass, False blocks it. Called inline, in the bridge's context; one that raises blocks too."""
