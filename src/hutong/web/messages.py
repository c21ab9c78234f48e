"""Events of HTTP connections, which their engine makes and their driver carries out.

Knows nothing of bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Fields: TypeAlias = Sequence[tuple[str, str]]
"""Headers of an answer."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A whole request. Header names are in lower case; of several of one name, the values are joined by commas."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)  # credentials among them
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpFault:
    """A malformed request, with the status to answer."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing came that matters above, but there is something to send."""


@dataclass(frozen=True, slots=True)
class PipelinedBytes:
    """More has come than one step processes, or than may be processed before the answer to a request.

    Continue with `next_slice`, and read no more until `is_behind` is False.
    """


HttpEvent: TypeAlias = HttpRequest | HttpFault | Ready | PipelinedBytes | str
"""A str is a message on an accepted WebSocket."""
