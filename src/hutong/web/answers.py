"""Answers as values: handlers return them, and never touch a connection.

Knows nothing of bytes on the wire.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hutong.foundation.errors import PeerError
from hutong.web.messages import Fields

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """A whole answer: its body may be followed by further pieces of it."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: Fields = ()
    pieces: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer whose body is made while it is sent. The next chunk is asked for once the client has read enough.

    The iterator ends by `aclose` when the client is gone or the server stops.
    """

    chunks: AsyncIterator[bytes]
    content_type: str
    status: int = 200
    headers: Fields = ()


@dataclass(frozen=True, slots=True)
class SocketAnswer:
    """A WebSocket whose messages the server sends; those of the client are read and dropped.

    The next text is asked for once the client has read enough; None sends a ping. The iterator ends by `aclose`.
    """

    texts: AsyncIterator[str | None]


Answer: TypeAlias = WebAnswer | StreamedAnswer | SocketAnswer


class WebRefusal(PeerError):
    """A request that is not done: the status, a code of the application's own, and a sentence for the client."""

    def __init__(self, status: int, message: str, code: int | None = None, headers: Fields = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = status if code is None else code
        self.headers = headers


def text(status: int, words: str, headers: Fields = ()) -> WebAnswer:
    return WebAnswer(status, words.encode(), TEXT, headers)


def json(value: Any, status: int = 200, content_type: str = JSON, headers: Fields = ()) -> WebAnswer:
    """A value that msgspec can encode."""
    import msgspec  # late: a node that serves metrics alone starts without it

    return WebAnswer(status, msgspec.json.encode(value), content_type, headers)


def refused_in_text(refusal: WebRefusal) -> WebAnswer:
    """The refusal in one line: what a server answers that has no form of its own for errors."""
    return text(refusal.status, f"{refusal.message}\n", refusal.headers)
