"""Timers of a context: set and cancelled from any thread, kept by the wheel of the context's loop.

Strategy: the wheel says when, the context calls the handler as any other. A thread takes the handler out of its timer
in one step of the interpreter and owns it then. So a one-shot timer is either called or cancelled, with any threads.

Knows nothing of what a handler does.
"""

import contextvars
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer

if TYPE_CHECKING:
    from hutong.runtime.contexts.contexts import Context

DELAY_MIN: Final = 0.001  # seconds: the unit of the wheel is the millisecond
DELAY_MAX: Final = 10 * 365 * 86_400.0  # a longer delay is an error in its computation, as infinity and NaN are


class ContextTimer:
    """One deadline, or one every interval. `Context.set_timer` and `set_periodic` make it."""

    __slots__ = ("_clock", "_context", "_due_ms", "_handlers", "_interval_ms", "_is_periodic", "_timer")

    def __init__(
        self, context: "Context", clock: Clock, delay: float, handler: Callable[[], object], *, is_periodic: bool
    ) -> None:
        if not DELAY_MIN <= delay <= DELAY_MAX:
            raise ValueError(f"a timer waits from {DELAY_MIN} seconds to ten years, not {delay}")
        # Rounded up: a timer never fires early. Less a millionth, since 1.1 * 1000 is a little more than 1100.
        delay_ms = math.ceil(delay * 1000 - 1e-6)
        self._context = context
        self._clock = clock
        self._interval_ms = delay_ms
        self._is_periodic = is_periodic
        self._due_ms = clock.monotonic_ms() + delay_ms
        from hutong.runtime.contexts.contexts import carried_variables

        variables = carried_variables()
        if variables is not None:
            handler = partial(_enter, context, variables, handler)
        self._handlers = [handler]  # none once it was called for the last time or cancelled
        self._timer: Timer | None = None  # on the loop's thread
        context._timers[self] = None
        self._on_loop(self._arm)

    @property
    def is_waiting(self) -> bool:
        """True while a call of the handler is due."""
        return bool(self._handlers)

    def cancel(self) -> bool:
        """Do not call the handler (again); from any thread. True if it would have been called."""
        if self._take() is None:
            return False
        self._on_loop(self._disarm)
        return True

    def _take(self) -> Callable[[], object] | None:
        # `list.pop` is atomic: of a call and a cancel in two threads exactly one gets the handler.
        try:
            handler = self._handlers.pop()
        except IndexError:
            return None
        self._context._timers.pop(self, None)
        return handler

    def _on_loop(self, step: Callable[[], None]) -> None:
        home = self._context.home
        # The wheel is touched on its own thread only, without a lock.
        if threading.get_ident() == home.thread_id:
            step()
        elif not home.loop.is_closed():
            home.loop.call_soon_threadsafe(step)

    def _arm(self) -> None:
        # Cancelled before the step reached the loop.
        if self._handlers:
            self._timer = self._context.home.wheel.add(self._due_ms, self._due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._context.run(ContextTimer._call, self)

    def _call(self) -> object:
        """In the context."""
        if not self._is_periodic:
            handler = self._take()
            return None if handler is None else handler()
        handlers = self._handlers.copy()  # one, unless it was cancelled
        if not handlers:
            return None
        now_ms = self._clock.monotonic_ms()
        # Whole intervals are skipped, so that a blocked context is not flooded afterwards and the phase stays.
        missed = max(0, now_ms - self._due_ms) // self._interval_ms
        self._due_ms += (1 + missed) * self._interval_ms
        self._on_loop(self._arm)
        return handlers[0]()


def _enter(context: "Context", variables: contextvars.Context, handler: Callable[[], object]) -> None:
    """In the context: with the variables that the timer was set in."""
    context.enter(variables, lambda _: handler(), None)
