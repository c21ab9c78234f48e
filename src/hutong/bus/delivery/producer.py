"""Producers: writers to one address that have to wait while their recipients are behind.

Strategy: every message written takes one of `write_queue_max` credits, and carries it as an object. When the last
reference to that object is dropped, the credit returns to the producer. So each end of a message returns it: a
recipient handled or discarded it, an interceptor dropped it, its context was closed, an error lost it. No path can
forget to (Vert.x 4.0 removed credits because leaked ones stalled senders). The recipients of a publication share one
credit, which returns with the last of them.

Messages that are written while no credit is left wait here, in order, up to WRITES_HELD_MAX.

Knows no consumers: the bus carries its messages.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.bus.envelope.message import FullMessage
from hutong.bus.errors import BusClosed, ReplyError
from hutong.bus.options import DeliveryOptions
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import HutongError, LimitExceeded

if TYPE_CHECKING:
    from hutong.bus.waiting.context_state import ContextState

WRITE_QUEUE_MAX: Final = 1_000
"""Messages of one producer on their way, by default."""
WRITES_HELD_MAX: Final = 10_000
"""Messages that a full producer holds for writers that do not wait."""


class ProducerBus(Protocol):
    """The services of a bus that its producers use."""

    def callers_state(self) -> "ContextState":
        """The state of the caller's context."""

    def message_of(self, producer: "MessageProducer", body: Any) -> FullMessage:
        """The message that carries the body as it is now."""

    def carry(self, message: FullMessage, *, is_local_only: bool = False) -> None:
        """Send or publish the message. Raises ReplyError NO_HANDLERS at an address without consumers."""

    def on_home_loop(self, work: Callable[[], None]) -> None:
        """Do the work soon on the loop of the bus; from any thread."""


class Credit:
    """One message on its way. Its last reference returns it to its producer."""

    __slots__ = ("_producer",)

    def __init__(self, producer: "MessageProducer") -> None:
        self._producer = producer

    def __del__(self) -> None:
        self._producer._credit_returned()


class MessageProducer:
    """A writer to one address, made by `EventBus.sender` or `EventBus.publisher`. Any thread may write."""

    __slots__ = (
        "__weakref__",
        "_bus",
        "_credits_given",
        "_drain_handler",
        "_has_been_full",
        "_held",
        "_is_taking_in",
        "_lock",
        "_returned",
        "_state",
        "_written",
        "address",
        "is_send",
        "options",
        "write_queue_max",
    )

    def __init__(
        self, bus: ProducerBus, address: str, options: DeliveryOptions, write_queue_max: int, *, is_send: bool
    ) -> None:
        if type(write_queue_max) is not int or write_queue_max < 1:
            raise ValueError(f"write_queue_max is a count from 1, not {write_queue_max!r}")
        self.address = address
        self.options = options
        self.write_queue_max = write_queue_max
        self.is_send = is_send
        self._bus = bus
        self._state: ContextState = bus.callers_state()
        self._drain_handler: Callable[[], object] | None = None
        self._held: deque[tuple[FullMessage, Promise[None]]] = deque()  # written while it was full
        self._credits_given = 0
        self._returned: deque[None] = deque()  # credits that have come back and are not counted yet
        self._is_taking_in = False  # `_take_in` is scheduled: no further call is needed
        self._has_been_full = False  # since the drain handler was called last
        self._written: Promise[None] = Promise.resolved(self._state.executor, None)
        self._lock = threading.RLock()  # over credits given and messages held; interceptors may write, too

    @property
    def is_full(self) -> bool:
        """True while `write_queue_max` messages are on their way, not yet handled."""
        return self._credits_given - len(self._returned) >= self.write_queue_max

    def drain_handler(self, handler: Callable[[], object] | None) -> "MessageProducer":
        """Call `handler()`, in the context that made the producer, each time that it was full and is half empty."""
        self._drain_handler = handler
        return self

    def write(self, body: Any = None) -> Promise[None]:
        """Send (or publish) the message. Awaited, it waits while the producer is full.

        So `await producer.write(...)` in a loop goes as fast as the recipients do. The promise fails with NO_HANDLERS
        if there is no consumer. Raises TypeError or ValueError for what cannot be sent, BusClosed, and LimitExceeded
        with nothing sent when WRITES_HELD_MAX messages are held already.
        """
        message = self._bus.message_of(self, body)
        with self._lock:
            # Also while others are held: a free credit is theirs, or this message would overtake them.
            if self._held or self.is_full:
                return self._hold(message)
            try:
                self._carry(message)
            # NO_HANDLERS comes by the promise, as from a held write, so that callers handle both in one place.
            except ReplyError as error:
                failed = self._bus.callers_state().promise()
                failed.fail(error)
                return failed
        return self._written

    def close(self) -> None:
        """Fail the writes that are held. Messages on their way arrive."""
        with self._lock:
            while self._held:
                self._held.popleft()[1].fail(BusClosed(f"the producer for {self.address!r} has been closed"))

    def _hold(self, message: FullMessage) -> Promise[None]:
        if len(self._held) >= WRITES_HELD_MAX:
            raise LimitExceeded("writes_held_max", WRITES_HELD_MAX)
        promise = self._bus.callers_state().promise()
        self._held.append((message, promise))
        return promise

    def _carry(self, message: FullMessage) -> None:
        message._credit = Credit(self)
        self._credits_given += 1
        self._has_been_full = self._has_been_full or self.is_full
        try:
            self._bus.carry(message, is_local_only=self.options.local_only)
        except HutongError:
            message._credit = None  # the error's traceback has the message
            raise

    def _credit_returned(self) -> None:
        """Note a returned credit. It may come on any thread and at any point of its code, so no lock is taken."""
        self._returned.append(None)
        if not self._is_taking_in:
            self._is_taking_in = True
            self._bus.on_home_loop(self._take_in)

    def _take_in(self) -> None:
        """Use returned credits for held messages, oldest first. On the loop of the bus."""
        self._is_taking_in = False
        with self._lock:
            while self._returned:
                self._returned.popleft()
                self._credits_given -= 1
            while self._held and not self.is_full:
                message, promise = self._held.popleft()
                if promise.done():
                    continue  # who waited has been cancelled, and the message with it
                try:
                    self._carry(message)
                # BusClosed or NO_HANDLERS: each held write fails on its own, and the rest is tried.
                except HutongError as error:
                    promise.fail(error)
                else:
                    promise.resume(None)
            # Half empty, as in Vert.x: a drain at each returned credit would wake the writer for single messages.
            is_drained = self._has_been_full and not self._held and self._credits_given <= self.write_queue_max // 2
            if is_drained:
                self._has_been_full = False
        # Outside of the lock: the handler writes again.
        if is_drained and self._drain_handler is not None:
            self._state.executor.run(_call, self._drain_handler)


def _call(handler: Callable[[], object]) -> object:
    return handler()
