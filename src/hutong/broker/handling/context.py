"""The context of a request.

Strategy: a handler is a function from (request, context) to a response. For a response that comes later it returns a
`Pending` (`foundation.waiting.pending`), which something else completes: a flush, a timer, another member joining.

Knows nothing of connections: the order of responses on the wire is the reactor's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from hutong.broker.handling.listeners import Listener
    from hutong.broker.handling.session import ClientSession
    from hutong.security.principals import Principal

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
