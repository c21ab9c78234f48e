"""How long the loop does not turn: what every client feels, whatever it asked for.

Strategy: a timer that is due every few milliseconds notes how late it is served. Lateness is what any event that came
at that moment would have waited, so its distribution is that of the waits, not only of the worst turn. It costs two
hundred short callbacks a second at most; a stall shorter than the interval may pass between two of them, one that is
longer cannot. Beside it stands the processor time of the loop's thread since the time before: on a machine that does
other work too, a loop is late without having done anything.

Knows nothing of what the loop does. The loop's timers count in milliseconds, so lateness below two is no stall.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock, thread_processor_us
from hutong.foundation.histograms import Histogram

INTERVAL_MS: Final = 5
IDLE_MEMORY_US: Final = 60_000_000


class StallMonitor:
    """Watches one loop from `start` to `stop`.

    Figures: lateness_us and work_us (histograms; `work_us` is an interval's work and what held the loop up), longest_us
    (since `start` or the last `forget`), idle_share (of the last minute or so, from 0 to 1).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        interval_ms: int = INTERVAL_MS,
        processor_us: Callable[[], int] = thread_processor_us,
    ) -> None:
        self.lateness_us = Histogram()
        self.work_us = Histogram()
        self.longest_us = 0
        self.idle_share = 1.0
        self._loop = loop
        self._clock = clock
        self._interval_ms = interval_ms
        self._processor_us = processor_us
        self._due_us = 0
        self._worked_us = 0  # by the loop's thread, when it was last looked at
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def forget(self) -> None:
        """Begin a new measurement."""
        self.lateness_us = Histogram()
        self.work_us = Histogram()
        self.longest_us = 0

    def _arm(self) -> None:
        self._worked_us = self._processor_us()
        self._due_us = self._clock.monotonic_us() + self._interval_ms * 1_000
        self._handle = self._loop.call_later(self._interval_ms / 1_000, self._served)

    def _served(self) -> None:
        late_us = max(0, self._clock.monotonic_us() - self._due_us)
        if late_us > self.longest_us:
            self.longest_us = late_us
        self.lateness_us.record(late_us)
        worked_us = self._processor_us() - self._worked_us
        self.work_us.record(worked_us)
        passed_us = self._interval_ms * 1_000 + late_us
        idle = max(0.0, 1 - worked_us / passed_us)
        self.idle_share += (idle - self.idle_share) * min(1.0, passed_us / IDLE_MEMORY_US)
        self._arm()
