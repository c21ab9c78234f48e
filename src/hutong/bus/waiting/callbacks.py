"""Executors of callbacks: a context of the runtime or, for callers without one, their own event loop.

Code outside of every context (a test, a script, a task of another framework) sends and waits as well. What it is called
back with, it is called back with on the loop it runs on; a plain thread, on the loop of the bus.

Knows no messages.
"""

import asyncio
import contextvars
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from hutong.runtime.contexts.contexts import carried_variables

T = TypeVar("T")


class CallbackExecutor(Protocol):
    """The services of a context that promises use."""

    def run(self, handler: Callable[[T], object], argument: T) -> None:
        """Call `handler(argument)` soon, from any thread; drive the coroutine that it may return."""

    def enter(self, variables: contextvars.Context, handler: Callable[[T], object], argument: T) -> None:
        """Call `handler(argument)` now, in the context variables; drive the coroutine that it may return."""


def carrying(executor: CallbackExecutor, handler: Callable[[T], object]) -> Callable[[T], object]:
    """The handler as one that has the caller's context variables when the executor calls it."""
    variables = carried_variables()
    return handler if variables is None else partial(executor.enter, variables, handler)


class LoopExecutor:
    """The executor of callers without a context on one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._variables = contextvars.Context()
        self._driven: set[asyncio.Task[object]] = set()  # a loop holds its tasks only weakly

    def run(self, handler: Callable[[T], object], argument: T) -> None:
        # In variables of its own: those of the handler that ended the promise are not the caller's.
        if _get_running_loop() is self.loop:  # which need not be woken then: that is a system call
            self.loop.call_soon(self._call, handler, argument, context=self._variables)
        elif not self.loop.is_closed():  # else nobody waits any more
            self.loop.call_soon_threadsafe(self._call, handler, argument, context=self._variables)

    def enter(self, variables: contextvars.Context, handler: Callable[[T], object], argument: T) -> None:
        variables.run(self._call, handler, argument)

    def end(self) -> None:
        """Cancel the coroutines that are under way. On the executor's loop."""
        for task in list(self._driven):
            task.cancel()

    def _call(self, handler: Callable[[T], object], argument: T) -> None:
        result = handler(argument)  # what it raises, the loop's exception handler hears of
        if asyncio.iscoroutine(result):
            self._drive(result)

    def _drive(self, coroutine: Coroutine[Any, Any, object]) -> None:
        task = self.loop.create_task(coroutine)
        self._driven.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._driven.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a callback of the event bus failed", "exception": error, "task": task}
            self.loop.call_exception_handler(context)
