"""The request channel of one connection: answers leave in the order of their requests, even if they come in another.

Strategy: while nothing is pending, an answer goes straight to what is ready to send; behind a pending one it waits in
line. So the common case, a request answered at once, costs no queue at all.

Knows nothing of bytes received, limits or sockets.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from hutong.foundation.waiting.pending import Pending
from hutong.wire.buffer import Buffer


class PendingResponse(Pending[list[Buffer] | None]):
    """A response that comes later: returned by the handler, completed exactly once, on the loop's thread.

    `taken`, which may be set until then, is called once its buffers go to the kernel.
    """

    __slots__ = ("_channel", "_is_closing", "_is_dropped", "_requests", "_size", "parked_bytes", "taken")

    def __init__(self, parked_bytes: int = 0) -> None:
        """`parked_bytes` is what the handler keeps of the request until it is answered, as far as it is much."""
        # In place of `super().__init__()`, as `complete` is: one is made for nearly every Produce, which waits for the
        # disk. Two calls fewer are a third of its cost (measured: 0.7 instead of 0.9 us).
        self.is_complete = self.is_large = False
        self._value = self._then = None
        self.parked_bytes = parked_bytes
        self.taken: Callable[[], None] | None = None
        self._requests = 1
        self._channel: RequestChannel | None = None
        self._size = 0
        self._is_closing = False  # completed by asking for the connection's end
        self._is_dropped = False  # the connection ended first: completing does nothing any more

    def complete(self, value: list[Buffer] | None) -> None:
        """Send the buffers, in order, after all earlier requests; None sends nothing.

        Does nothing once the connection is gone; raises RuntimeError when completed a second time.
        """
        if self._channel is not None and not self.is_complete:
            self.is_complete = True
            self._value = value
            self._channel._completed(self)
        elif not self._is_dropped:  # the handler has not returned yet, or completes it again
            super().complete(value)

    def close_connection(self) -> None:
        """End the connection instead of answering (a failed request that has no answer, for one)."""
        if self._is_dropped:
            return
        super().complete(None)
        self._is_closing = True
        if self._channel is not None:
            self._channel._close()


class Held(Enum):
    """A handler's way to say "not now": the request is given again once the peer is released."""

    HELD = 0


HELD: Final = Held.HELD

Response = list[Buffer] | PendingResponse | Held | None
"""The response of a handler: buffers to send in order, an answer that comes later, "not now", or nothing to send."""


def _nobody() -> None:
    """Drop a notice: the connection has ended."""


class RequestChannel:
    """`changed` is called when an answer that was pending becomes ready, `close` when one asks for the end.

    `in_flight` counts the requests that are begun and whose answers were not yet taken; `unsent_bytes` are the bytes of
    answers not yet taken, of which `held_bytes` wait for an earlier answer. `parked_bytes` are what requests keep that
    are not answered yet.
    """

    __slots__ = (
        "_changed",
        "_close",
        "_queue",
        "_queued_requests",
        "_ready",
        "_taken_notices",
        "held_bytes",
        "in_flight",
        "parked_bytes",
        "unsent_bytes",
    )

    def __init__(self, changed: Callable[[], None], close: Callable[[], None]) -> None:
        self._changed = changed
        self._close = close
        self._ready: list[Buffer] = []
        self._queue: deque[PendingResponse] | None = None  # made on first use; its head, if any, is not answered yet
        self._taken_notices: list[Callable[[], None]] = []  # notices to call once the ready buffers are taken
        self._queued_requests = 0  # requests whose answers are in the queue
        self.in_flight = 0
        self.unsent_bytes = 0
        self.held_bytes = 0
        self.parked_bytes = 0

    @property
    def is_empty(self) -> bool:
        """True when every request so far is answered and its answer taken."""
        return not self.in_flight

    @property
    def pending_count(self) -> int:
        """Requests that are not answered yet, or answered behind one that is not."""
        return self._queued_requests

    @property
    def waiting_count(self) -> int:
        """Requests that are answered behind one that is not."""
        return sum(each._requests for each in self._queue if each.is_complete) if self._queue else 0

    def add_response(self, response: list[Buffer] | PendingResponse | None, requests: int = 1) -> None:
        """Take the handler's response to the next request, or to that many requests together."""
        if isinstance(response, PendingResponse):
            # A PendingResponse completed before the handler returns it is an ordinary answer, and costs no queue.
            if not response.is_complete:
                self._wait(response, requests)
                return
            if response._is_closing:
                self._close()
                return
            if response.taken is not None:
                self._taken_notices.append(response.taken)
            response = response._value
        if response is None:  # a request without an answer, as Produce with acks=0: the order of the others holds
            return
        self.in_flight += requests
        size = 0
        for buffer in response:
            size += len(buffer)
        if self._queue:  # an earlier request is pending: Kafka's clients match answers by their order
            answered = PendingResponse()
            answered.is_complete, answered._value, answered._size = True, response, size
            answered._requests = requests
            self._queued_requests += requests
            self._queue.append(answered)
            self.held_bytes += size
        else:
            self._ready += response
        self.unsent_bytes += size

    def push(self, buffers: list[Buffer]) -> None:
        """Push frames that no request asked for: ready at once, before pending answers."""
        for buffer in buffers:
            self.unsent_bytes += len(buffer)
        self._ready += buffers

    def take_ready(self) -> list[Buffer]:
        """The buffers that are ready, in order; they count as sent from now on."""
        ready = self._ready
        self._ready = []
        self.unsent_bytes = self.held_bytes  # the rest is the driver's from now on
        self.in_flight = self._queued_requests
        if self._taken_notices:
            # Replaced before the calls: a notice may begin the next request, whose answer adds a notice of its own.
            notices, self._taken_notices = self._taken_notices, []
            for taken in notices:
                taken()
        return ready

    def end(self) -> None:
        """Release all pending answers, since the connection ends. Ready buffers may still be taken."""
        for pending in self._queue or ():
            pending._channel = None
            pending._is_dropped = True
        self._queue = None
        self._queued_requests = 0
        self.held_bytes = self.parked_bytes = 0
        self._changed = self._close = _nobody

    def _wait(self, pending: PendingResponse, requests: int) -> None:
        pending._channel = self
        pending._requests = requests
        if self._queue is None:
            self._queue = deque()
        self._queue.append(pending)
        self._queued_requests += requests
        self.in_flight += requests
        self.parked_bytes += pending.parked_bytes

    def _completed(self, pending: PendingResponse) -> None:
        """Move the answered requests from the head of the queue to the ready buffers."""
        pending._channel = None
        self.parked_bytes -= pending.parked_bytes
        size = 0
        for buffer in pending._value or ():
            size += len(buffer)
        self.unsent_bytes += size
        queue = self._queue
        assert queue, "a pending answer stays in the queue until it is ready"
        # A client with one request in flight, as most have: nothing is before this answer and nothing behind it.
        if len(queue) == 1:
            queue.clear()
            self._queued_requests = 0
            self._ready += pending._value or ()
            if pending.taken is not None:
                self._taken_notices.append(pending.taken)
            self._changed()
            return
        pending._size = size
        self.held_bytes += size
        if queue[0] is not pending:
            return  # an earlier one is pending still, and its completion moves this one too
        while queue and queue[0].is_complete and not queue[0]._is_closing:
            answered = queue.popleft()
            self._queued_requests -= answered._requests
            self.held_bytes -= answered._size
            self._ready += answered._value or ()
            if answered.taken is not None:
                self._taken_notices.append(answered.taken)
        self._changed()
