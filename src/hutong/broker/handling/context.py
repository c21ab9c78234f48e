"""The context of a request, and answers that come later.

Strategy: a handler is a function from (request, context) to a response. What cannot be answered at once is a `Later`:
the handler returns it empty and something else (a flush, a timer, another member joining) completes it. Whether
completion or return comes first makes no difference, so handlers need not know which of their steps are immediate.

Knows nothing of connections: the order of responses on the wire is the reactor's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.handling.session import ClientSession
    from hutong.security.principals import Principal

ResponseT = TypeVar("ResponseT")
PartsT_co = TypeVar("PartsT_co", covariant=True)


class RequestContext(Generic[PartsT_co]):
    """Everything about one request that is not in its body. One is made for each request, so it is kept bare.

    `client_id` is None where the client sent a null one. `session` is the connection that the request came by.
    `broker` has what the handler declares: its annotation names the parts of the broker that it uses, such as
    `RequestContext[FetchParts]`.
    """

    __slots__ = ("api_version", "broker", "client_id", "session")

    def __init__(self, api_version: int, client_id: str | None, session: ClientSession, broker: PartsT_co) -> None:
        self.api_version = api_version
        self.client_id = client_id
        self.session = session
        self.broker = broker

    @property
    def principal(self) -> Principal:
        """The client's principal."""
        return self.session.principal

    @property
    def listener(self) -> Listener:
        """The listener of the client's connection; its address is the one that answers name."""
        return self.session.listener


class Later(Generic[ResponseT]):
    """A response that is completed exactly once, on the loop thread, and consumed by exactly one callback."""

    __slots__ = ("_then", "_value", "is_complete", "is_large")

    def __init__(self) -> None:
        self.is_complete = False
        self.is_large = False  # of so many elements that a worker should encode it
        self._value: ResponseT | None = None
        self._then: Callable[[ResponseT], None] | None = None

    def complete(self, response: ResponseT) -> None:
        """Hand the response over. A second completion is our own fault and raises RuntimeError."""
        if self.is_complete:
            raise RuntimeError("a response was completed twice")
        self.is_complete = True
        if self._then is None:
            self._value = response
            return
        then, self._then = self._then, None
        then(response)

    def then(self, callback: Callable[[ResponseT], None]) -> None:
        """Call back with the response: now if it is already here, else when it is completed."""
        if not self.is_complete:
            self._then = callback
            return
        response, self._value = self._value, None
        callback(response)  # type: ignore[arg-type]  # None here means that None is a ResponseT
