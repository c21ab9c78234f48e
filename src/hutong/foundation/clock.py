"""Time arrives by constructor: this is the only module that reads the machine's clocks.

Knows nothing of loops or timers.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that never goes back, one that people read."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never decreases."""
        ...

    def monotonic_us(self) -> int:
        """The same in microseconds, for measuring."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def thread_processor_us() -> int:
    """Processor time of the calling thread, in microseconds: what it worked, however long it waited to."""
    return time.thread_time_ns() // 1_000


class ManualClock:
    """A clock that a test or a simulator moves by hand."""

    def __init__(self, monotonic_ms: int = 0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def monotonic_us(self) -> int:
        return self._monotonic_ms * 1_000

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, milliseconds: int) -> None:
        if milliseconds < 0:
            raise ValueError("a clock is only advanced forward")
        self._monotonic_ms += milliseconds
        self._wall_ms += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock, ahead or back, as somebody sets a machine's."""
        self._wall_ms += milliseconds
