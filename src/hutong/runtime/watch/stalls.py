"""Stalls: the times during which the loop runs nothing new, which every client feels.

Strategy: a timer that is due every few milliseconds notes how late it is served. Lateness is what any event that came
at that moment would have waited, so its distribution is that of all waits, not only of the worst one. It costs two
hundred short callbacks a second at most; a stall shorter than the interval may pass between two of them, one that is
longer cannot. Next to it is the processor time of the loop's thread since the time before: on a machine that does other
work too, a loop is late without having done anything.

A loop that has done nothing for a while is looked at once a second only, until the next bytes of a connection arrive
(`wake_by`) or such a check finds work: two hundred wake-ups a second would keep an idle machine's processor from sleep.
The time at rest counts as intervals without a delay.

Knows nothing of what the loop does. The loop's timers count in milliseconds, so lateness below two is no stall.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock, thread_processor_us
from hutong.foundation.histograms import Histogram

INTERVAL_MS: Final = 5
REST_INTERVAL_MS: Final = 1_000
QUIET_LOOKS: Final = 20  # in a row, before the loop counts as idle
QUIET_SHARE: Final = 1 / 20  # of an interval; a check itself takes a few hundredths of that
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
        checked: Callable[[], None] = lambda: None,
    ) -> None:
        """`checked` is called after each check of a loop that works; what it does counts as the loop's work."""
        self.lateness_us = Histogram()
        self.work_us = Histogram()
        self.longest_us = 0
        self.idle_share = 1.0
        self._loop = loop
        self._clock = clock
        self._interval_ms = interval_ms
        self._processor_us = processor_us
        self._checked = checked
        self._due_us = 0
        self._worked_us = 0  # by the loop's thread, when it was last looked at
        self._quiet_looks = 0
        self._is_resting = False
        self._armed_at_us = 0
        self._wakers: list[Callable[[Callable[[], None]], None]] = []
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(self._interval_ms)

    def wake_by(self, waker: Callable[[Callable[[], None]], None]) -> None:
        """Add one of those that end a rest: it calls once, when work comes, what it is given before each rest."""
        self._wakers.append(waker)

    def stop(self) -> None:
        self._is_resting = False
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def forget(self) -> None:
        """Begin a new measurement."""
        self.lateness_us = Histogram()
        self.work_us = Histogram()
        self.longest_us = 0

    def _arm(self, interval_ms: int) -> None:
        self._worked_us = self._processor_us()
        self._armed_at_us = self._clock.monotonic_us()
        self._due_us = self._armed_at_us + interval_ms * 1_000
        self._handle = self._loop.call_later(interval_ms / 1_000, self._served)

    def _served(self) -> None:
        now_us = self._clock.monotonic_us()
        self._record(max(0, now_us - self._due_us), min(now_us, self._due_us) - self._armed_at_us)
        if self._quiet_looks < QUIET_LOOKS:
            self._is_resting = False
            self._arm(self._interval_ms)
            self._checked()
            return
        self._arm(REST_INTERVAL_MS)
        if not self._is_resting:
            self._is_resting = True
            for waker in self._wakers:
                waker(self._wake)

    def _record(self, late_us: int, waited_us: int) -> None:
        """One check that came so late after so long; a longer wait than an interval counts as several in time."""
        if late_us > self.longest_us:
            self.longest_us = late_us
        intervals = waited_us // (self._interval_ms * 1_000)
        worked_us = self._processor_us() - self._worked_us
        self.lateness_us.record(late_us)
        self.work_us.record(worked_us)
        if intervals > 1:
            self.lateness_us.record_many(0, intervals - 1)
            self.work_us.record_many(0, intervals - 1)
        passed_us = max(1, waited_us + late_us)
        share = worked_us / passed_us
        self._quiet_looks = self._quiet_looks + 1 if share < QUIET_SHARE else 0
        self.idle_share += (max(0.0, 1 - share) - self.idle_share) * min(1.0, passed_us / IDLE_MEMORY_US)

    def _wake(self) -> None:
        """Work has come while the loop was at rest."""
        if not self._is_resting or self._handle is None:
            return
        self._handle.cancel()
        self._record(0, self._clock.monotonic_us() - self._armed_at_us)
        self._is_resting = False
        self._quiet_looks = 0
        self._arm(self._interval_ms)
