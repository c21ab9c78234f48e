"""Consumers: receivers at an address, each in its context, with back-pressure by demand.

Strategy: a message waits in the context's queue together with `deliver`, which checks the consumer when it runs. So
pausing, unregistering and changing the handler apply to messages on their way too. While none of these is in use, the
whole cost is one check of `_is_plain`. Otherwise a message is handed over if there is demand, or kept in a bounded
buffer, or discarded. The requester of a discarded request gets a failure at once.

What a handler returns answers a request that it has not answered itself, and what it raises fails one at once: a
requester learns nothing by waiting for its timeout. Both hold for coroutines, at their end.

Knows no routes.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from hutong.bus.envelope.bodies import IMMUTABLE
from hutong.bus.envelope.interceptors import Delivery
from hutong.bus.envelope.message import FullMessage, Message
from hutong.bus.errors import BUILT_IN_CODE, BusClosed, FailureType, HandlerRaised, ReplyError, carrying_failed
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import UsageError
from hutong.runtime.contexts.contexts import Context

if TYPE_CHECKING:
    from hutong.bus.waiting.context_state import ContextState

Handler = Callable[[Message], object]
HandlerT = TypeVar("HandlerT", bound=Handler)
BUFFERED_MESSAGES_MAX: Final = 1_000
"""Messages that a consumer without demand keeps by default, as in Vert.x."""
UNLIMITED: Final = 1 << 62
_log = logging.getLogger("hutong.bus")


class Consumer:
    """A registration at an address, made by `EventBus.consumer`. Every method may be called from any thread.

    It receives from the start; what comes before it has a handler, or an `async for`, waits in its buffer.

    `discard_handler(message)` gets each message that was thrown away: the buffer was full, or it has unregistered.
    `end_handler()` is called once it is unregistered. Both are called in the consumer's context.

    A consumer that never changes a body may set `shares_bodies`: all such consumers of an address then get one body of
    a publication, instead of a copy for each. Without `is_traced` the bus's tracer skips it.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_demand",
        "_handler",
        "_is_draining",
        "_is_flowing",
        "_is_plain",
        "_iteration",
        "_lock",
        "_state",
        "_warns_of_discards",
        "address",
        "context",
        "discard_handler",
        "discarded_total",
        "end_handler",
        "is_registered",
        "is_traced",
        "local_only",
        "max_buffered_messages",
        "shares_bodies",
    )

    is_remote: ClassVar[bool] = False
    turns: ClassVar[int] = 1  # in a round of sends

    def __init__(
        self, state: "ContextState", context: Context, address: str, *, local_only: bool, max_buffered_messages: int
    ) -> None:
        self.address = address
        self.context = context
        self.local_only = local_only
        self.max_buffered_messages = max_buffered_messages
        self.discard_handler: Handler | None = None
        self.end_handler: Callable[[], object] | None = None
        self.discarded_total = 0
        self.shares_bodies = False
        self.is_registered = True
        self.is_traced = True
        self._state = state
        self._handler: Handler | None = None
        self._iteration: ConsumerIteration | None = None
        self._demand = UNLIMITED
        self._buffer: deque[Message] = deque()
        self._is_draining = False  # a step of `_drain` is in the context's queue
        self._warns_of_discards = True  # logged once until the buffer is empty again: a flood must not flood the log
        self._is_flowing = False  # demand is unlimited and the buffer empty: messages go straight to the handler
        self._is_plain = False  # and without interceptors
        self._lock = threading.Lock()  # of buffer, demand and draining, in whatever is not plain

    def handler(self, handler: Handler | None) -> "Consumer":
        """Receive with `handler` from now on; with None, keep what comes in the buffer."""
        if handler is not None and not callable(handler):
            raise TypeError(f"a handler is called with each message; {type(handler).__name__} is not callable")
        self._handler = handler  # one store, which needs no lock: `_handle` reads it once for each message
        self._hand_over_buffered()
        return self

    def __call__(self, handler: HandlerT) -> HandlerT:
        """Decorate a handler: `@bus.consumer(address)` over a function or a coroutine function, which stays itself.

        Raises UsageError where there is a handler already.
        """
        # A decorator that replaces a handler silently would hide that two functions are meant for one consumer.
        if self._handler is not None:
            raise UsageError(
                f"the consumer of {self.address!r} has a handler already; write another @bus.consumer(...) for a "
                "second one, or consumer.handler(f) to replace the first."
            )
        self.handler(handler)
        return handler

    def pause(self) -> "Consumer":
        """Hand over nothing more, until `resume` or `fetch`."""
        with self._lock:
            self._demand = 0
            # Cleared at once and under the lock, so that a message that arrives after this call is kept.
            self._is_plain = self._is_flowing = False
        return self

    def resume(self) -> "Consumer":
        """Deliver messages, buffered ones first."""
        with self._lock:
            self._demand = UNLIMITED
        self._hand_over_buffered()
        return self

    def fetch(self, count: int) -> "Consumer":
        """Hand over `count` messages more than asked for already. Raises ValueError for less than one."""
        if count < 1:
            raise ValueError(f"fetch asks for one message or more, not {count}")
        with self._lock:
            # Bounded, since UNLIMITED means "do not count": `fetch` after `resume` changes nothing.
            self._demand = min(self._demand + count, UNLIMITED)
        self._hand_over_buffered()
        return self

    def unregister(self) -> Awaitable[None]:
        """Receive nothing more: what is buffered or on its way is discarded. It is done when this returns.

        May be awaited as well, and called again.
        """
        state = self._state
        with self._lock:
            was_registered, self.is_registered = self.is_registered, False
            self._is_plain = self._is_flowing = False
            left, self._buffer = self._buffer, deque()
        if was_registered:  # two threads may call, or the user and the context's close: only one of them continues
            state.consumers.pop(self, None)
            state.bus.remove_consumer(self)
            self.context.run(self._end, left)  # discard and end handlers belong to the consumer's context
        return DONE

    def ready(self) -> Promise[None]:
        """Await it to know that other nodes can find this consumer: as `completion` in Vert.x.

        Done at once on a bus alone, and where it is `local_only`. Fails with OwnerGone where it has unregistered, or
        the node has left the cluster.
        """
        promise: Promise[None] = self._state.bus.callers_state().promise()
        self._state.bus.remote_side.await_announced(self, promise)
        return promise

    def settle(self) -> None:
        """For the bus: interceptors have come or gone."""
        with self._lock:
            self._settle()

    def take_buffered(self) -> Message | None:
        """For the iteration: the oldest message kept, if there is one and no interceptor wants to see it first."""
        with self._lock:
            if not self._buffer or self._state.bus.inbound_chain:
                return None  # interceptors may drop or delay a message, so it comes by the handler instead
            message = self._buffer.popleft()
            self._warns_of_discards = self._warns_of_discards or not self._buffer
        _return_credit(message)
        return message

    def deliver(self, message: Message) -> object:
        """For the context: a message has arrived."""
        if not self._is_plain:  # flowing: demand is unlimited and the buffer empty, so the lock is not needed
            return self._hand_over(message) if self._is_flowing else self.take_carefully(message)
        try:
            result = self._handler(message)  # type: ignore[misc]  # there is one while it is plain
        except BaseException as error:
            _fail(message, error)
            raise
        if result is None:
            return None
        # Nearly always. To know that a value is no coroutine, and no promise, costs more than the rest of this.
        if type(result) in IMMUTABLE:
            _reply(message, result)
            if message._credit is not None:
                _return_credit(message)
            return None
        return self._answer(message, result)

    def take_carefully(self, message: Message) -> object:
        """For the context: hand the message over, or keep it in the buffer, or discard it."""
        # The lock, because `pause` and `fetch` on other threads change demand and buffer meanwhile.
        with self._lock:
            # A buffered message goes first, so with a buffer even a wanted message queues behind it.
            is_wanted = self._demand and self._handler is not None and not self._buffer and self.is_registered
            if is_wanted and self._demand != UNLIMITED:
                self._demand -= 1
            # Unregistered: nobody would ever empty the buffer, and the requester must learn that at once.
            if not is_wanted and self.is_registered and len(self._buffer) < self.max_buffered_messages:
                self._buffer.append(message)
                return None
        # Outside of the lock: the handler may call `pause` or `fetch` of this consumer.
        if is_wanted:
            return self._hand_over(message)
        self._discard(message)
        return None

    def __aiter__(self) -> "ConsumerIteration":
        """`async for message in consumer`: each iteration asks for one message; it ends when unregistered.

        Leaving the loop leaves the consumer registered, with what it has buffered; `async with consumer` unregisters.
        """
        # A second loop continues with the first one's iteration, and with what arrived for it while nobody waited.
        if self._iteration is None:
            self._iteration = ConsumerIteration(self)
            self.pause()
            self.handler(self._iteration.receive)
        return self._iteration

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.unregister()

    def __repr__(self) -> str:
        return f"<Consumer {self.address!r} in {self.context.name}{'' if self.is_registered else ', unregistered'}>"

    def _settle(self) -> None:
        """Decide again if messages go straight to the handler. Under the lock."""
        self._is_flowing = (
            self.is_registered and self._handler is not None and self._demand == UNLIMITED and not self._buffer
        )
        bus = self._state.bus
        self._is_plain = self._is_flowing and not bus.inbound_chain and (bus.tracer is None or not self.is_traced)

    def _hand_over_buffered(self) -> None:
        """Demand or handler have changed: hand over what is kept, one message a step, in the context."""
        with self._lock:
            self._settle()
            # One step in the queue is enough: it queues the next one itself.
            if not self._buffer or not self._demand or self._handler is None or self._is_draining:
                return
            self._is_draining = True
        self.context.run(Consumer._drain, self)

    def _drain(self) -> object:
        with self._lock:
            self._is_draining = False
            # All of it may have changed since this step was queued.
            if not self._buffer or not self._demand or self._handler is None:
                return None
            message = self._buffer.popleft()
            self._warns_of_discards = self._warns_of_discards or not self._buffer
            if self._demand != UNLIMITED:
                self._demand -= 1
        self._hand_over_buffered()  # before the handler: it may pause, and one that raises must not stop the rest
        return self._hand_over(message)

    def _hand_over(self, message: Message) -> object:
        if message._variables is None:  # nearly always: the sender has no context variables of its own
            return self._hand_over_here(message)
        self.context.enter(message._variables, self._hand_over_here, message)
        return None

    def _hand_over_here(self, message: Message) -> object:
        chain = self._state.bus.inbound_chain
        if not chain:
            return self._handle(message)
        # The result is not awaited here: an interceptor may let the message continue later, or never.
        Delivery(message, chain, self._passed, self.context.fail).begin()
        return None

    def _passed(self, message: Message) -> None:
        """Handle the message in the consumer's context. The last interceptor may have run on any thread."""
        if self.context.is_current:  # `next` was called by the interceptor itself, in this context
            result = self._handle(message)
            # A coroutine, which only the context can drive: this call returns to an interceptor, not to the context.
            if result is not None:
                self.context.run(_returned_value, result)
        else:
            self.context.run(self._handle_elsewhere, message)

    def _handle_elsewhere(self, message: Message) -> object:
        """Handle a message that an interceptor continued elsewhere: the sender's variables are entered again."""
        if message._variables is None:
            return self._handle(message)
        self.context.enter(message._variables, self._handle, message)
        return None

    def _handle(self, message: Message) -> object:
        handler = self._handler
        if handler is None or not self.is_registered:  # it changed while the message was in the context's queue
            self._discard(message)
            return None
        tracer = self._state.bus.tracer
        try:
            # In an `async for` the handler only stores the message; the loop's body runs outside of any span here.
            if tracer is None or not self.is_traced or self._iteration is not None:
                result = handler(message)
            else:
                result = tracer.handling(message, handler)
        except BaseException as error:
            _fail(message, error)
            _return_credit(message)  # the traceback keeps the message alive, and with it the credit
            raise  # to the context, which reports it
        if result is not None:
            return self._answer(message, result)
        # At once, though the handler may have kept the message, which would hold the credit.
        if message._credit is not None:
            _return_credit(message)
        return None

    def _answer(self, message: Message, result: object) -> object:
        """Use what the handler returned: the context drives a coroutine, any other value is the reply."""
        if asyncio.iscoroutine(result):
            return _finish(message, result)
        _reply(message, result)
        _return_credit(message)
        return None

    def _discard(self, message: Message) -> None:
        self.discarded_total += 1
        _return_credit(message)  # a producer must not wait for a message that was thrown away
        reason = f"its buffer of {self.max_buffered_messages} was full" if self.is_registered else "it has unregistered"
        if message._reply is not None:
            # TIMEOUT and not an error of its own, as in Vert.x: the request waited for a consumer that did not take it.
            text = f"the consumer of {self.address!r} discarded the request: {reason}"
            message._reply.fail(ReplyError(FailureType.TIMEOUT, BUILT_IN_CODE, text))
        if self.discard_handler is not None:
            try:
                self.discard_handler(message)
            except Exception as error:  # noqa: BLE001  # a supervisor: the messages behind this one are discarded too
                self.context.fail(error)
        elif self._warns_of_discards and self.is_registered:
            self._warns_of_discards = False
            _log.warning("a message to the paused consumer of %r was discarded: %s", self.address, reason)

    def _end(self, left: deque[Message]) -> None:
        while left:
            self._discard(left.popleft())
        if self._iteration is not None:
            self._iteration.end()
        if self.end_handler is not None:
            self.end_handler()


class ConsumerIteration:
    """The messages of a consumer for one `async for`, which asks for one at a time."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._waiting: Promise[Message | None] | None = None
        self._arrived: deque[Message] = deque()  # handed over while nobody waited (any more): one, or two at most

    def __aiter__(self) -> "ConsumerIteration":
        return self

    async def __anext__(self) -> Message:
        if self._arrived:
            return self._arrived.popleft()
        consumer = self._consumer
        if not consumer.is_registered:
            raise StopAsyncIteration
        if (kept := consumer.take_buffered()) is not None:
            return kept
        # A promise of the caller's context: the task may run on another loop than the consumer.
        waiting: Promise[Message | None] = consumer._state.bus.callers_state().promise()
        self._waiting = waiting
        consumer.fetch(1)
        # Checked again: it may have been unregistered on another thread, before there was a promise to resume.
        if not consumer.is_registered:
            self.end()
        try:
            message = await waiting
        except asyncio.CancelledError:
            self._interrupted(waiting)
            raise
        except BusClosed:  # the loop just ends, as with `unregister`
            message = None
        if message is None:
            raise StopAsyncIteration
        return message

    def _interrupted(self, waiting: Promise[Message | None]) -> None:
        """Keep a message that was on its way to the cancelled task: the next iteration returns it."""
        self._consumer.pause()
        if not waiting.cancel() and not waiting.failed and (missed := waiting.result()) is not None:
            self._arrived.append(missed)

    def receive(self, message: Message) -> None:
        """The consumer's handler."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or not waiting.resume(message):
            self._arrived.append(message)

    def end(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.resume(None)


class _Done:
    """Awaited, it is done."""

    def __await__(self) -> Any:
        return iter(())


DONE: Final[Awaitable[None]] = _Done()


async def _finish(message: Message, coroutine: Awaitable[object]) -> None:
    """A handler's coroutine: its value is the reply, its error fails the request; the credit goes back at its end."""
    try:
        result = await coroutine
    except asyncio.CancelledError:
        # Contexts cancel their tasks when they close. The requester gets the reason instead of "CancelledError".
        text = f"the recipient at {message.address!r} was closed before it replied"
        _fail(message, ReplyError(FailureType.RECIPIENT_FAILURE, BUILT_IN_CODE, text))
        raise
    except BaseException as error:
        _fail(message, error)
        raise
    finally:
        _return_credit(message)
    if result is not None:
        _reply(message, result)


def _reply(message: Message, value: object) -> None:
    """Reply with the value that a handler returned. A promise or a future is no reply."""
    # Already answered: the handler called `reply` and returned a value as well, which is then not meant as one.
    reply = message._reply
    kind = type(value)
    if reply is not None and reply.is_waiting and (kind in IMMUTABLE or not hasattr(kind, "__await__")):
        try:
            message.reply(value)
        except BaseException as error:  # a codec is other people's code; the context reports it
            reply.fail(carrying_failed("the reply", error))
            raise


def _fail(message: Message, error: BaseException) -> None:
    """A request whose handler has raised fails at once: with the error itself if it is one of the bus."""
    if message._reply is None:
        return
    message._reply.fail(error if isinstance(error, ReplyError) else HandlerRaised(error))


def _return_credit(message: Message) -> None:
    """Return the message's credit to its producer, though somebody may keep the message."""
    # Plain messages have no slot to write to.
    if isinstance(message, FullMessage):
        message._credit = None


def _returned_value(result: object) -> object:
    return result
