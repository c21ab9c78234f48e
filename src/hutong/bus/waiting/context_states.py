"""The states of all contexts at one bus, made on first use.

Strategy: a context has its own state. Callers without a context share one for each event loop, and plain threads share
one on the loop of the bus. `by_key` is read without a lock, since `EventBus.request` looks into it for each message;
changes are made under one.

Knows no addresses.
"""

import asyncio
import threading
from asyncio import _get_running_loop
from typing import Any, Final

from hutong.bus.errors import BusClosed
from hutong.bus.waiting.callbacks import CallbackExecutor, LoopExecutor
from hutong.bus.waiting.context_state import BusPort, ContextState
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWaitTable, Numbers, Post
from hutong.runtime.contexts.contexts import Context, current_context
from hutong.runtime.loops.timers import LoopTimers

REPLIES_MAX: Final = 1_000_000
"""Replies (and other promises of the bus) that one context may await at a time."""


class ContextStates:
    """Made on the running loop of the bus, which keeps the timers. `numbers` finds a wait of any state."""

    def __init__(self, bus: BusPort, clock: Clock, post: Post) -> None:
        self.by_key: dict[object, ContextState] = {}  # by context, by event loop, or by None for plain threads
        self.numbers = Numbers()
        self._bus = bus
        self._clock = clock
        self._post = post
        self._loop = asyncio.get_running_loop()
        self._home = LoopExecutor(self._loop)
        self._wheel = TimerWheel(clock.monotonic_ms())
        self._timers = LoopTimers(self._loop, self._wheel, clock)
        self._lock = threading.Lock()
        self._closed: BusClosed | None = None

    def of_caller(self) -> ContextState:
        """The state of the caller: of its context, else of the loop it runs on, else the one for plain threads."""
        context = current_context()
        if context is not None:
            own = self.of(context, context)
            own.end_with(context)
            return own
        loop = _get_running_loop()
        state = self.by_key.get(loop)
        if state is not None:
            return state
        return self.of(loop, self._home if loop is None or loop is self._loop else LoopExecutor(loop))

    def of(self, key: object, executor: CallbackExecutor) -> ContextState:
        """The state under `key`, made with `executor` if there is none. Raises BusClosed."""
        state = self.by_key.get(key)
        if state is not None:
            return state
        with self._lock:
            if self._closed is not None:
                raise BusClosed(str(self._closed))
            state = self.by_key.get(key)
            if state is not None:
                return state  # another thread made it while this one waited for the lock
            waits: NumberedWaitTable[Any] = NumberedWaitTable(
                "replies_max", self._wheel, self._clock, REPLIES_MAX, self._post, self.numbers
            )
            state = self.by_key[key] = ContextState(self._bus, executor, waits, self._remove)
            # Loops end without notice, as asyncio.run's does: their states are found out here, when another is made.
            gone = [key for key in self.by_key if isinstance(key, asyncio.AbstractEventLoop) and key.is_closed()]
            lost = [self.by_key.pop(key) for key in gone]
        for other in lost:
            other.end(BusClosed("the event loop of the requester has been closed"))
        return state

    def forget_idle(self, context: Context) -> None:
        """Forget the state of a context that was made for one consumer, if nothing is lost with it."""
        with self._lock:
            state = self.by_key.get(context)
            if state is not None and state.is_idle:
                del self.by_key[context]

    def count_waits(self) -> int:
        """The number of waits in all states, without those whose tasks were cancelled."""
        states = list(self.by_key.values())
        for state in states:
            state.waits.forget_abandoned()
        return sum([len(state.waits) for state in states])

    async def close(self, error: BusClosed) -> None:
        """End every state. New ones are refused from now on."""
        with self._lock:
            self._closed = error
            states = list(self.by_key.values())
        for state in states:
            state.end(error)
        await asyncio.sleep(0)  # the tables have their timers stopped on this loop
        self._timers.close()

    def _remove(self, context: Context) -> None:
        with self._lock:
            self.by_key.pop(context, None)
