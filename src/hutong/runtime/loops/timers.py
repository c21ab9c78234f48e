"""Drives a timer wheel from an event loop: one `call_later` for all timers, armed only while something waits.

Knows no timer's meaning. The wheel decides what is due; the clock says when now is.
"""

import asyncio

from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel


class LoopTimers:
    """The tie between one wheel and one loop; `close` unties it and leaves the timers unfired."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wheel: TimerWheel, clock: Clock) -> None:
        self.wheel = wheel
        self._loop = loop
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None
        self._closed = False
        wheel.drive(self._arm)

    @property
    def is_armed(self) -> bool:
        return self._handle is not None

    def close(self) -> None:
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, at_ms: int) -> None:
        if self._closed:
            return
        if self._handle is not None:
            self._handle.cancel()
        delay_ms = max(0, at_ms - self._clock.monotonic_ms())
        self._handle = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.wheel.advance(self._clock.monotonic_ms())
