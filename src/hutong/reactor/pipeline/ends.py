"""The two ends of a pipeline, its peer and its tail, and the events of the connection between them.

Knows nothing of handlers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """The event of a new connection: the first that every handler gets."""


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """The event of the end: the last, when nothing can be sent any more."""


@dataclass(frozen=True, slots=True)
class SendingChanged:
    """The event of a peer that stopped reading, or reads again: a program that sends unasked minds it."""

    is_paused: bool


class PipelinePeer(Protocol):
    """The other end of the connection, as its handlers see it: a `Peer` of the reactor has more."""

    @property
    def id(self) -> int: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """As `ssl.SSLSocket.getpeercert` returns it; None without one, and for a `TlsHandler`, which has its own."""


class PipelineTail(Protocol):
    """Takes what the last handler passes on."""

    def take_value(self, value: Any) -> None:
        """Take one value. Raises ProtocolError for a fault of the peer; `pipeline.hold` asks for no more."""
        ...

    def resume(self) -> None:
        """Continue with what it kept while it held the pipeline: framings cut on behind this call."""
        ...
