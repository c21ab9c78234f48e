"""Requests that come from other nodes, for their clients or for themselves: handled here outside of any connection.

Strategy: the same `Dispatch` as for a connection, with the same routes, rights and bounds. What it needs of a
connection is a stand-in that lives as long as one request. A request that is held is given again when its session is
released, as a connection would.

Knows nothing of links between nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from hutong.broker.apis import BROKER_APIS
from hutong.broker.dispatch.dispatcher import Dispatch
from hutong.broker.handling.session import ClientSession
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError, Refused
from hutong.foundation.waiting.table import Owner
from hutong.reactor.connections.channel import Held
from hutong.reactor.connections.connection import PendingResponse
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_request_header

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.handling.listeners import Listener
    from hutong.foundation.waiting.pending import Continuation
    from hutong.security.principals import Principal
    from hutong.wire.buffer import Buffer

FORWARDED_MAX: Final = 10_000
"""Requests of other nodes that are not answered yet."""


class ForwardedRequests:
    """Handles frames of other nodes. `call_soon` runs a callback in the next loop iteration."""

    def __init__(self, broker: Broker, listener: Listener, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """`listener` is for sessions that come by none of this node's."""
        self._broker = broker
        self._listener = listener
        self._call_soon = call_soon
        self._dispatch = Dispatch(broker, listener)
        self._numbers = count(1)
        self._under_way: set[_ForwardedRequest] = set()

    @property
    def requests_total(self) -> dict[int, int]:
        """Requests that were handled, by API."""
        return self._dispatch.requests_total

    def session_of(
        self, principal: Principal, address: str, port: int = 0, listener: Listener | None = None
    ) -> ClientSession:
        """The session of a client that is connected to another node, or of that node itself.

        `listener` is the one of that name: answers name nodes by their addresses there.
        """
        # Connections have positive numbers.
        session = ClientSession(-next(self._numbers), address, port, listener or self._listener, Owner(), _nothing)
        session.principal = principal
        return session

    def handle_frame(self, frame: Buffer, session: ClientSession, then: Continuation[bytes]) -> None:
        """Handle one request, a frame without its size. `then` gets the frame of the response, with its size.

        It is empty where no answer is due. `then` gets Refused for what is no request, NOT_CONTROLLER for one that this
        node would have to forward in turn, and LimitExceeded. A session serves one request.
        """
        try:
            api_key = decode_request_header(frame)[0].api_key
        except ProtocolError as error:
            then(Refused(ErrorCode.INVALID_REQUEST, str(error)))
            return
        if len(self._under_way) >= FORWARDED_MAX:
            then(LimitExceeded("FORWARDED_MAX", FORWARDED_MAX))
        # It goes round only if two nodes each take the other for the controller; the first asks again.
        elif BROKER_APIS[api_key].is_forwarded and not self._broker.cluster.is_controller:
            then(Refused(ErrorCode.NOT_CONTROLLER, "This node is not the controller."))
        else:
            request = _ForwardedRequest(bytes(frame), session, self._dispatch, self._call_soon, then, self._ended)
            self._under_way.add(request)
            request.handle()

    def close(self, error: HutongError) -> None:
        """End all that is under way."""
        for request in list(self._under_way):
            request.finish(error)

    def _ended(self, request: _ForwardedRequest) -> None:
        self._under_way.discard(request)


class _ForwardedRequest:
    """One request: what `Dispatch` sees as its connection, which is always ready and has nothing queued."""

    def __init__(
        self,
        frame: bytes,
        session: ClientSession,
        dispatch: Dispatch,
        call_soon: Callable[[Callable[[], None]], object],
        then: Continuation[bytes],
        ended: Callable[[_ForwardedRequest], None],
    ) -> None:
        self.session = session
        self.address = session.address
        self.queued_ms = 0
        self.express: object = None
        self._frame = frame
        self._dispatch = dispatch
        self._then: Continuation[bytes] | None = then
        self._ended = ended
        self._call_soon = call_soon
        session.release = self._released

    def __str__(self) -> str:
        return f"{self.session.principal} at {self.address}, by another node"

    def handle(self) -> None:
        """Handle the request, again where it was held."""
        if self._then is None:
            return
        try:
            response = self._dispatch.request_received(self._frame, self)  # type: ignore[arg-type]
        except ProtocolError as error:
            self.finish(Refused(ErrorCode.INVALID_REQUEST, str(error)))
            return
        if isinstance(response, Held):
            return
        if isinstance(response, PendingResponse):
            response.then(lambda buffers: self._answered(response, buffers))
        else:
            self.finish(b"".join(response or ()))

    def _released(self) -> None:
        self._call_soon(self.handle)

    def finish(self, outcome: bytes | HutongError) -> None:
        """Give the answer, once, and end all that waits for the session."""
        then, self._then = self._then, None
        if then is None:
            return
        self._ended(self)
        # Verdicts and parts of long requests that were kept for the session go with it.
        self._dispatch.connection_closed(self)  # type: ignore[arg-type]
        self.session.owner.end()
        then(outcome)

    def _answered(self, response: PendingResponse, buffers: list[Buffer] | None) -> None:
        if response.taken is not None:
            response.taken()
        self.finish(b"".join(buffers or ()))


def _nothing() -> None:
    """The release of a session whose request has not come yet."""
