"""Replies awaited: the promise of a message. Local replies find it without an address; the address is text on demand.

Translates failures of waiting into ReplyError; knows nothing of routes.
"""

import asyncio
import threading
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from hutong.bus.envelope.message import REPLY_PREFIX, Message
from hutong.bus.errors import BUILT_IN_CODE, FailureType, ReplyError
from hutong.bus.options import DeliveryOptions
from hutong.bus.waiting.callbacks import CallbackExecutor, carrying
from hutong.bus.waiting.promise import OPEN, Promise
from hutong.foundation.errors import Expired, HutongError


class ReplyRoute(Protocol):
    """The services of a bus that a message uses when it is answered. Every reply has one, as `bus`."""

    is_plain: bool

    def answer(self, reply: "Reply", body: Any, options: DeliveryOptions) -> None:
        """Deliver the body as the reply."""

    def answer_and_request(self, reply: "Reply", body: Any, options: DeliveryOptions) -> "Reply":
        """Deliver the body as the reply, and await a reply to it."""

    def request_expired(self, requested: str) -> None:
        """A request to the address got no reply in time."""


class Reply(Promise[Message]):
    """The reply to a request: `await` it, or `.then(handler)`, or `.result()` in a plain thread.

    Gives a Message or raises ReplyError. It is delivered in the requester's context, never inline. A failure that
    nobody asks for is dropped.
    """

    __slots__ = ("_arrived", "_requested", "bus")

    is_remote: ClassVar[bool] = False  # awaited in another process

    _arrived: "deque[Callable[[], object]]"

    def __init__(self, executor: CallbackExecutor, bus: ReplyRoute, requested: str) -> None:
        super().__init__(executor)
        self.bus = bus
        self._requested = requested  # the address that was asked
        self._arrived = deque()  # work of inbound interceptors, done in the context before the reply ends

    def arrive(self, work: Callable[[], object]) -> None:
        """Do the work in the requester's context: by its thread, if that blocks for this reply, which it may."""
        self._arrived.append(work)
        for waiter in list(self._waiters or ()):
            if isinstance(waiter, threading.Event):
                waiter.set()
        # Also where a thread blocks: whichever comes first takes the work, and the other finds none.
        self._executor.run(Reply._take_arrived, self)

    def _take_arrived(self) -> None:
        while self._arrived:
            with suppress(IndexError):  # another thread was here first
                work = self._arrived.popleft()
                work()

    def _wait(self, event: threading.Event, timeout: float | None) -> bool:
        self._take_arrived()  # what arrived before the event was there could set none
        while self._outcome is OPEN:
            if not super()._wait(event, timeout):
                return False
            event.clear()
            self._take_arrived()
        return True

    @property
    def address(self) -> str:
        """The reply address, by which `bus.send` replies too, as long as the reply is awaited."""
        return f"{REPLY_PREFIX}{self._number}"

    def watch(self, ended: Callable[["BaseException | None"], object]) -> None:
        """Call `ended(error)` once when it is over, error or None, on any thread."""
        self.then(lambda outcome: ended(outcome if isinstance(outcome, BaseException) else None))

    def fail_without_handlers(self) -> None:
        """Fail, since the requested address has no handler."""
        text = f"no handlers for address {self._requested!r}"
        self.fail(ReplyError(FailureType.NO_HANDLERS, BUILT_IN_CODE, text))

    def resume_on(self, loop: asyncio.AbstractEventLoop, value: Message) -> bool:
        """End the wait like `resume`, on the loop that runs here."""
        return self.resume(value)

    def end(self, outcome: Message | HutongError) -> None:
        if isinstance(outcome, HutongError) and not isinstance(outcome, ReplyError):
            outcome = self._as_failure(outcome)
        super().end(outcome)

    def _as_failure(self, error: HutongError) -> ReplyError:
        if isinstance(error, Expired):
            self.bus.request_expired(self._requested)
            text = f"no reply from {self._requested!r} came in time"
            return ReplyError(FailureType.TIMEOUT, BUILT_IN_CODE, text)
        return ReplyError(FailureType.ERROR, BUILT_IN_CODE, f"no reply from {self._requested!r}: {error}")


class LoopReply(Reply):
    """A reply that is awaited on the event loop it was asked for from: nearly all of them.

    It has its future from the start, and `__await__` is a slot that holds the future's own: so awaiting a reply takes
    no step in Python. `EventBus.request` fills the slots, which costs half as much as an `__init__`. Handlers are not
    left to the future, which would take another loop iteration to call them. Both are touched on that loop alone.

    A task that is cancelled cancels the future without a callback here; the table drops such waits by and by.
    """

    __slots__ = ("__await__", "_future", "_handlers")

    __await__: "Callable[[], Generator[Any, None, Message]]"
    _future: "asyncio.Future[Message]"
    _handlers: "list[Callable[[Message | HutongError], object]] | None"
    __init__ = object.__init__

    @classmethod
    def on(
        cls, loop: asyncio.AbstractEventLoop, executor: CallbackExecutor, bus: ReplyRoute, requested: str
    ) -> "LoopReply":
        """Make a reply, as `EventBus.request` does in place for most of them."""
        reply: LoopReply = cls()
        reply._future = loop.create_future()
        reply.__await__ = reply._future.__await__
        reply._executor = executor
        reply.bus = bus
        reply._handlers = None
        reply._requested = requested
        return reply

    @property
    def is_abandoned(self) -> bool:
        return self._future.cancelled()

    @property
    def failed(self) -> bool:
        future = self._future
        return future.cancelled() or (future.done() and future.exception() is not None)

    def resume(self, value: Message) -> bool:
        return self.resume_on(_get_running_loop(), value)

    def resume_on(self, loop: asyncio.AbstractEventLoop | None, value: Message) -> bool:
        # The look-up of the running loop is a system call in Python 3.11.
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        future = self._future
        # asyncio's futures may be touched on their own loop alone.
        if future.get_loop() is not loop:
            _soon(future, self._complete, value)
        # Handlers run in their context, and a handler may exist without a task that awaits.
        elif self._handlers is not None:
            self._complete(value)
        elif not future.done():
            future.set_result(value)
        else:
            return False  # its task was cancelled in this loop iteration, and nobody gets the value
        return True

    def end(self, outcome: Message | HutongError) -> None:
        if isinstance(outcome, HutongError) and not isinstance(outcome, ReplyError):
            outcome = self._as_failure(outcome)
        _soon(self._future, self._complete, outcome)

    def then(self, handler: Callable[[Message | HutongError], object]) -> None:
        self._then(carrying(self._executor, handler))

    def _then(self, handler: Callable[[Message | HutongError], object]) -> None:
        future = self._future
        if future.get_loop() is not _get_running_loop():
            _soon(future, self._then, handler)
        elif not future.done():
            self._handlers = [*(self._handlers or ()), handler]
        elif not future.cancelled():
            self._executor.run(handler, future.exception() or future.result())  # type: ignore[arg-type]

    def watch(self, ended: Callable[["BaseException | None"], object]) -> None:
        self._future.add_done_callback(lambda future: ended(_error_of(future)))

    def arrive(self, work: Callable[[], object]) -> None:
        self._executor.run(_do, work)

    def _complete(self, outcome: Message | HutongError) -> None:
        """End the future, and call the handlers in the context. On the future's loop."""
        handlers, self._handlers = self._handlers, None
        future = self._future
        if future.cancelled():
            return
        if isinstance(outcome, Message):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
            future.exception()  # a failure that nobody asks for is no news for asyncio's log
        for handler in handlers or ():
            self._executor.run(handler, outcome)

    def result(self, timeout: float | None = None) -> Message:
        if not self._future.done():
            self._check_blocking()
            event = threading.Event()
            _soon(self._future, self._future.add_done_callback, lambda _: event.set())
            if not event.wait(timeout):
                raise TimeoutError(f"nothing came within {timeout} s")
        return self._future.result()

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> bool:
        is_first = self.abandon()
        if is_first:
            _soon(self._future, self._future.cancel)
        return is_first


def reply_to(bus: ReplyRoute, executor: CallbackExecutor, requested: str) -> Reply:
    """Make a reply for the caller, on an event loop or on a plain thread."""
    loop = _get_running_loop()
    return Reply(executor, bus, requested) if loop is None else LoopReply.on(loop, executor, bus, requested)


def _error_of(future: "asyncio.Future[Message]") -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()


def _do(work: Callable[[], object]) -> object:
    return work()


def _soon(future: "asyncio.Future[Message]", function: Callable[..., object], *arguments: Any) -> None:
    """Call the function on the future's loop: now if that is the running one."""
    loop = future.get_loop()
    if loop is _get_running_loop():
        function(*arguments)
    elif not loop.is_closed():  # else nobody waits any more
        loop.call_soon_threadsafe(function, *arguments)
