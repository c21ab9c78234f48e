"""One connection's bytes in the order in which they must be worked off: events to its user, answers to its peer.

Strategy: at most one request is not answered. What came early, or more than one slice, is worked off a slice in each
loop iteration, and the connection is not read meanwhile. Everything is sent by `Peer.push`. While an answer is being
made the connection has one `PendingResponse` open: so it does not count as idle, and a server that stops waits for it.

Knows no paths and no sessions: its user answers requests and takes messages.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from hutong.reactor.connections.channel import HELD, PendingResponse, Response
from hutong.reactor.connections.handler import Peer
from hutong.web.machine import HttpConnection
from hutong.web.messages import HttpEvent, HttpFault, HttpRequest, PipelinedBytes, Ready
from hutong.wire.buffer import Buffer

CallSoon = Callable[[Callable[[], None]], object]
_TOO_SLOW: Final = HttpFault(408, "the request did not arrive in time")


class ChannelUser(Protocol):
    """The user of one connection."""

    @property
    def is_holding(self) -> bool:
        """True while it takes no WebSocket messages; it calls back what `when_taken` gave it, once it does."""
        ...

    def when_taken(self, then: Callable[[], None]) -> None: ...

    def request_received(self, request: HttpRequest) -> None:
        """Answer it by the engine, now or later; after a later answer call `HttpChannel.resume`."""
        ...

    def fault_received(self, fault: HttpFault) -> None:
        """Refuse by the engine what is no request, or did not come in time."""
        ...

    def message_received(self, text: str) -> None:
        """Take a message of a WebSocket that it has accepted."""
        ...


class HttpChannel:
    """`http` is its engine. Its user calls `received` or `received_awaited` for each frame of the reactor."""

    __slots__ = (
        "_call_soon",
        "_is_open",
        "_is_rest_given",
        "_is_scheduled",
        "_is_working",
        "_open_answer",
        "_user",
        "http",
        "peer",
    )

    def __init__(self, peer: Peer, call_soon: CallSoon, user: ChannelUser) -> None:
        self.peer = peer
        self.http = cast(HttpConnection, peer.framing)
        self._call_soon = call_soon
        self._user = user
        self._is_open = True
        self._is_working = False
        self._is_rest_given = False  # all events before the rest were given
        self._is_scheduled = False
        self._open_answer: PendingResponse | None = None
        peer.frame_overdue = self._frame_overdue

    @property
    def is_open(self) -> bool:
        """False once the connection is gone."""
        return self._is_open

    def closed(self) -> None:
        """Do nothing any more: the connection is gone."""
        self._is_open = False
        self._open_answer = None

    def received(self, frame: Buffer) -> Response:
        """Take one event of the framing; returns what the reactor's handler returns."""
        event = cast(HttpEvent, frame)
        # Back-pressure: the connection is not read until its user takes messages again.
        if isinstance(event, str) and self._user.is_holding:
            return HELD
        if isinstance(event, PipelinedBytes):
            return self._hold_rest()
        self._work((event,))
        return []

    def received_awaited(self, frame: Buffer) -> Response:
        """Do the same, and keep a request open at the reactor until its answer is complete."""
        response = self.received(frame)
        if response is HELD or self._open_answer is not None or not self._is_answering:
            return response
        self._open_answer = PendingResponse()
        return self._open_answer

    def resume(self) -> None:
        """Send what is ready, and go on with requests that came meanwhile."""
        self._work(())

    def send(self) -> None:
        """Send all that the engine has ready, and close after the last answer."""
        ready = self.http.data_to_send()
        if ready:
            self.peer.push(ready)
        self._settle()
        if self.http.is_finished:
            self.peer.close()

    # Steps of the above.

    @property
    def _is_answering(self) -> bool:
        return self.http.is_answering and self.http.websocket is None

    def _settle(self) -> None:
        if self._open_answer is not None and not self._is_answering:
            answer, self._open_answer = self._open_answer, None
            answer.complete([])

    def _hold_rest(self) -> Response:
        """Work off the rest, and hold the connection unread meanwhile; or not: see `HttpConnection.receive`."""
        # The first slice may have ended the connection.
        if not self.http.is_behind or self.http.is_finished:
            return []
        self._is_rest_given = True
        self._schedule()
        return [] if self.http.is_streaming else HELD

    def _schedule(self) -> None:
        # While a request is answered nothing is parsed: `resume` schedules again.
        if not self._is_scheduled and not self._is_answering:
            self._is_scheduled = True
            self._call_soon(self._catch_up)

    def _catch_up(self) -> None:
        """Work off one slice."""
        self._is_scheduled = False
        if not self._is_open:
            return
        # Slices respect the same back-pressure as reads do.
        if self._user.is_holding:
            self._user.when_taken(self._schedule)
            return
        self._work(self.http.next_slice())

    def _work(self, events: Sequence[HttpEvent]) -> None:
        """Work off these and what follows from their answers."""
        # Called again by an answer that was complete at once. The loop below continues; recursion would have no bound.
        if self._is_working or not self._is_open:
            return
        self._is_working = True
        while True:
            for event in events:
                self._take(event)
            self.send()
            # A pipelined request: h11 gives it out only after the answer to the one before it is complete.
            events = self.http.next_events()
            if not events:
                break
        self._is_working = False
        # Only once the events before the rest were given: the reactor may still have some of them.
        if not self._is_rest_given:
            return
        if self.http.is_behind and not self.http.is_finished:
            self._schedule()
        else:
            self._is_rest_given = False
            self.peer.release()

    def _take(self, event: HttpEvent) -> None:
        match event:
            case HttpRequest():
                self._user.request_received(event)
            case HttpFault():
                self._user.fault_received(event)
            case str():
                self._user.message_received(event)
            case Ready() | PipelinedBytes():
                pass  # `send` follows in any case, and `received` has taken the other one

    def _frame_overdue(self) -> None:
        # The half of a WebSocket message has no status to be answered with.
        if self.http.websocket is None and not self._is_answering:
            self._user.fault_received(_TOO_SLOW)
            self.send()
