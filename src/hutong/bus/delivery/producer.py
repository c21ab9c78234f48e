"""Producers: writers to one address that have to wait while their recipients are behind.

Strategy: every message written takes one of `write_queue_max` credits, and the message carries it. The credit goes back
when nobody holds it any more: the recipient has handled the message, or discarded it, an interceptor has dropped it, a
context was closed with the message in its queue, an error lost it. That is what Python counts references for, so there
is no way to lose one (Vert.x gave credits up for a release because they leaked). A published message carries one credit
to all recipients; the last one's is what counts.

What is written while no credit is left waits here, in order, up to WRITES_HELD_MAX.

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

    def carry(self, message: FullMessage) -> None:
        """Send or publish the message. Raises ReplyError NO_HANDLERS at an address without consumers."""

    def on_home_loop(self, work: Callable[[], None]) -> None:
        """Do the work soon on the loop of the bus; from any thread."""


class Credit:
    """One message on its way. It goes back to its producer when the last reference to it goes."""

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
        self._returned: deque[None] = deque()  # credits that have come back and are not taken in yet
        self._is_taking_in = False  # it will happen soon: nobody else needs to ask for it
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
            if self._held or self.is_full:
                return self._hold(message)
            try:
                self._carry(message)
            except ReplyError as error:
                failed = self._bus.callers_state().promise()
                failed.fail(error)
                return failed
        return self._written

    def close(self) -> None:
        """Give up what is held: who waits for it fails. What is on its way arrives."""
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
            self._bus.carry(message)
        except HutongError:
            message._credit = None  # the error's traceback has the message
            raise

    def _credit_returned(self) -> None:
        """From wherever the last reference went, on any thread: no lock may be taken here."""
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
                except HutongError as error:
                    promise.fail(error)
                else:
                    promise.resume(None)
            is_drained = self._has_been_full and not self._held and self._credits_given <= self.write_queue_max // 2
            if is_drained:
                self._has_been_full = False
        if is_drained and self._drain_handler is not None:
            self._state.executor.run(_call, self._drain_handler)


def _call(handler: Callable[[], object]) -> object:
    return handler()
