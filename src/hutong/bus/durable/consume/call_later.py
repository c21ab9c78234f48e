"""Timers of an event loop as the timer port of a machine's host: a consumer may be on a loop without a timer wheel.

Knows no machines.
"""

import asyncio
from collections.abc import Callable

from hutong.foundation.clock import Clock


class CallLaterTimers:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def add(self, at_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        # One more: the clock is cut to whole milliseconds, and a tick that comes too early would need a second timer.
        delay_ms = max(0, at_ms - self._clock.monotonic_ms() + 1)
        return self._loop.call_later(delay_ms / 1_000, callback)
