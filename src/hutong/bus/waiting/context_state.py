"""Per-context state of the bus: the replies that a context awaits and the consumers that run in it.

Strategy: everything of a context ends together, so one object holds it: a wait table of the context's own, and one
close hook for any number of consumers.

Knows no addresses.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from hutong.bus.errors import BusClosed
from hutong.bus.options import TIMEOUT_MS_DEFAULT
from hutong.bus.waiting.callbacks import CallbackExecutor
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.numbered import NumberedWaitTable, WaitQueue
from hutong.foundation.waiting.table import NEVER
from hutong.runtime.contexts.contexts import Context

if TYPE_CHECKING:
    from hutong.bus.delivery.consumer import Consumer
    from hutong.bus.delivery.remote import RemoteSide
    from hutong.bus.envelope.interceptors import Interceptor
    from hutong.bus.tracing import BusTracer


class BusPort(Protocol):
    """The services of a bus that its consumers and its log use."""

    tracer: "BusTracer | None"
    inbound_chain: "tuple[Interceptor, ...]"

    def callers_state(self) -> "ContextState":
        """The state of the caller's context."""

    def remove_consumer(self, consumer: "Consumer") -> None:
        """The consumer has unregistered."""

    @property
    def remote_side(self) -> "RemoteSide":
        """The side for other nodes."""


class RegisteredConsumer(Protocol):
    """A consumer of either kind: at a local address, or at a durable one."""

    def unregister(self) -> object:
        """Receive nothing more. A second call does nothing."""


class ContextState:
    """One context's state at the bus. Replies with the default timeout are parked in `queue`."""

    __slots__ = ("_remove", "bus", "consumers", "context", "executor", "queue", "waits")

    def __init__(
        self,
        bus: BusPort,
        executor: CallbackExecutor,
        table: NumberedWaitTable[Any],
        remove: Callable[[Context], None],
    ) -> None:
        self.bus = bus
        self._remove = remove
        self.executor = executor
        self.waits = table
        self.queue = table.queue(TIMEOUT_MS_DEFAULT)
        self.consumers: dict[RegisteredConsumer, None] = {}
        self.context: Context | None = None  # its close ends this state; None: a context made for one consumer

    def queue_for(self, timeout_ms: int) -> WaitQueue[Any]:
        """The wait queue of replies with this timeout."""
        return self.queue if timeout_ms == TIMEOUT_MS_DEFAULT else self.waits.queue(timeout_ms)

    def promise(self) -> Promise[Any]:
        """A promise without a deadline, parked among the waits of this context."""
        promise: Promise[Any] = Promise(self.executor)
        self.waits.queue(NEVER).park(promise)
        return promise

    @property
    def is_idle(self) -> bool:
        """True when the state of a context that was made for one consumer can be forgotten without loss."""
        return self.context is None and not self.consumers and not len(self.waits)

    def end_with(self, context: Context) -> None:
        """End with the context, which its owner may close at any time."""
        if self.context is None:
            self.context = context
            with suppress(RuntimeError):  # it is closing, so nothing waits for what it still asks
                context.add_close_hook(self._closed)

    def _closed(self) -> None:
        self.end(BusClosed("the context of the requester has been closed"))
        if self.context is not None:
            self._remove(self.context)

    def end(self, error: HutongError) -> None:
        """Unregister every consumer and fail all that is awaited, now and from now on. A second call does nothing."""
        for consumer in list(self.consumers):
            consumer.unregister()
        self.waits.close(error)
