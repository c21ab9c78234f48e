"""Promises: parked waits that can be awaited, called back from and blocked on.

Strategy: a promise *is* its parked continuation (`foundation.waiting.numbered`). Each awaiting task leaves a future of
its own loop there, so any loop can await; asyncio's tasks handle any other awaitable at four times the cost (measured).
Any thread may end a promise. Threads that poll or block see the outcome at once; handlers are called in the promise's
context, never inline.

The ending thread sets the outcome first and then looks for waiters. A waiter registers first and then checks the
outcome. So one of them always sees the other, without a lock.

Knows no messages.
"""

import asyncio
import threading
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar, cast

from hutong.bus.waiting.callbacks import CallbackExecutor, carrying
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.numbered import NumberedWait

V = TypeVar("V")
OPEN: Final[Any] = object()
"""The outcome of a promise that is still open."""


class Promise(NumberedWait[V]):
    """A value that will come, or an error. Its maker parks it; it may be awaited and asked any number of times.

    `_waiter` is the first future that awaits it: there is seldom a second. `_waiters` has the others, threads that
    block, and handlers.
    """

    __slots__ = ("_executor", "_failed", "_outcome", "_waiter", "_waiters")

    _waiter: "asyncio.Future[None] | None"
    _waiters: "deque[asyncio.Future[None] | threading.Event | Callable[[Any], object]] | None"

    def __init__(self, executor: CallbackExecutor) -> None:
        self._executor = executor
        self._outcome: Any = OPEN
        self._failed = False
        self._waiter = None
        self._waiters = None

    @classmethod
    def resolved(cls, executor: CallbackExecutor, value: V) -> "Promise[V]":
        """Make a promise that has its value from the start and was never parked."""
        promise = cls(executor)
        promise._outcome = value
        return promise

    def end(self, outcome: V | HutongError) -> None:
        """Take the outcome and notify the waiters. The table calls this once, on any thread."""
        self._failed = isinstance(outcome, BaseException)
        self._outcome = outcome
        self._notify_waiters()

    def resume(self, value: V) -> bool:
        """End the promise like any wait, in fewer steps: every reply pays for them."""
        if self._generation.waiting.pop(self._number, None) is None:
            return False
        self._outcome = value
        future = self._waiter
        # Nearly always: one task awaits, on the loop that ends the promise. Nothing crosses a thread then.
        if future is not None and self._waiters is None and future.get_loop() is _get_running_loop():
            if not future.done():
                future.set_result(None)
        else:
            self._notify_waiters()
        return True

    def then(self, handler: Callable[[V | HutongError], object]) -> None:
        """Call `handler` once with the outcome: the value, or the error. In the promise's context, never inline.

        What the handler raises goes to the context's exception handler; a coroutine that it returns is driven there. It
        has the context variables of the caller of `then`.
        """
        self._add(carrying(self._executor, handler))
        if self._outcome is not OPEN:
            self._notify_waiters()

    def result(self, timeout: float | None = None) -> V:
        """The value, or raises the error. Blocks a thread that runs no event loop, for `timeout` seconds at most.

        Raises TimeoutError after that, and asyncio.InvalidStateError where blocking would stop an event loop.
        """
        if self._outcome is OPEN:
            self._block(timeout)
        if self._failed:
            raise self._outcome
        return cast("V", self._outcome)

    def __await__(self) -> Generator[Any, None, V]:
        if self._outcome is OPEN:
            loop = _get_running_loop()
            future: asyncio.Future[None] = loop.create_future()  # type: ignore[union-attr]  # somebody awaits
            if self._waiter is None:
                self._waiter = future
            else:
                self._add(future)
            # Asked again after the future was registered: another thread may have ended the promise in between.
            if self._outcome is OPEN:
                try:
                    yield from future
                except asyncio.CancelledError:
                    self._cancelled(future)
                    raise
        if self._failed:
            raise self._outcome
        return cast("V", self._outcome)

    def done(self) -> bool:
        return self._outcome is not OPEN

    @property
    def is_awaited(self) -> bool:
        """True while somebody awaits it, blocks on it or has left a handler."""
        return self._waiter is not None or bool(self._waiters)

    @property
    def failed(self) -> bool:
        """True once it ended with an error, or was cancelled."""
        return self._failed

    def cancel(self) -> bool:
        """Give up the wait: what comes is dropped, and tasks that still await it are cancelled.

        False if it is over already.
        """
        # Of a thread that ends it and one that cancels it, `abandon` lets exactly one take the table's entry.
        if self._outcome is not OPEN or not self.abandon():
            return False
        self._failed = True
        self._outcome = asyncio.CancelledError()
        self._notify_waiters()
        return True

    def __repr__(self) -> str:
        state = "open" if self._outcome is OPEN else "failed" if self._failed else "done"
        return f"<{type(self).__name__} {state}>"

    def _add(self, waiter: "asyncio.Future[None] | threading.Event | Callable[[Any], object]") -> None:
        if self._waiters is None:
            self._waiters = deque()
        self._waiters.append(waiter)

    def _notify_waiters(self) -> None:
        """Wake tasks, release threads and call handlers, each once, however many threads do this at a time."""
        if self._waiter is not None:
            _wake(self._waiter)
        waiters = self._waiters
        while waiters:
            try:
                waiter = waiters.popleft()
            except IndexError:  # another thread was here first
                return
            if isinstance(waiter, threading.Event):
                waiter.set()
            elif isinstance(waiter, asyncio.Future):
                _wake(waiter)
            else:
                self._executor.run(waiter, self._outcome)

    def _cancelled(self, future: "asyncio.Future[None]") -> None:
        """A task that waited has been cancelled. If it was the only one, so is the wait."""
        if self._waiter is future:
            self._waiter = None
        elif self._waiters and future in self._waiters:
            self._waiters.remove(future)
        if self._waiter is None and not self._waiters:
            self.cancel()

    def _check_blocking(self) -> None:
        if _get_running_loop() is not None:
            raise asyncio.InvalidStateError("the promise is still open: await it, since blocking would stop this loop")

    def _block(self, timeout: float | None) -> None:
        self._check_blocking()
        event = threading.Event()
        self._add(event)
        # Registered first, as in `__await__`: an outcome that came before the event sets none.
        if self._outcome is OPEN and not self._wait(event, timeout):
            raise TimeoutError(f"nothing came within {timeout} s")

    def _wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Block until the event. False if the time is over."""
        return event.wait(timeout)


def settle_all(promises: "list[Promise[None]]", error: HutongError | None) -> None:
    """End every promise of the list, with the error if there is one, and empty the list."""
    while promises:
        promise = promises.pop()
        _ = promise.resume(None) if error is None else promise.fail(error)


def _wake(future: "asyncio.Future[None]") -> None:
    loop = future.get_loop()
    if loop is _get_running_loop():
        _set(future)
    else:
        try:
            loop.call_soon_threadsafe(_set, future)
        except RuntimeError:
            if not loop.is_closed():
                raise  # else nobody waits any more


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
