"""Python's cyclic collector, kept from stopping the loop.

Strategy: nearly everything is freed by its last reference; the collector is there for the rare cycle. So what start-up
made is frozen (moved where no collection looks), a collection begins only after enough new objects to be worth a
millisecond, and what has survived two is frozen as well. So the oldest generation is always empty, and no collection
ever costs more than the few objects made since the last. With the interpreter's own thresholds a thousand busy
partitions spend a tenth of the processor here, in pauses of up to 50 ms (`bench stalls`).

A cycle that was frozen alive is not found after its death. Hence a sweep through everything, which takes as long as the
heap is large: when it is due and nobody works, or at last when it is long overdue.

Knows nothing of what the objects are. One per process, since the interpreter has one collector: `stop` undoes all.
"""

import gc
from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.histograms import Histogram
from hutong.foundation.timers import Timer, TimerWheel

YOUNG_OBJECTS: Final = 10_000  # more objects than were freed: a collection takes about a millisecond
YOUNG_LOOKS: Final = 4  # a second look, at what survived so many first ones, takes four at the worst
_OLD_LOOKS: Final = 1_000  # never reached: a second look empties what would be counted
CHECK_INTERVAL_MS: Final = 1_000
SWEEP_DUE_MS: Final = 10 * 60_000
SWEEP_OVERDUE_MS: Final = 60 * 60_000


class Collector:
    """From `start` to `stop` the collector's master. `work_count` grows whenever somebody has work done.

    Figures: collecting_us (a histogram of collections, without the sweeps), longest_us, collected_objects_total,
    sweeps_total.
    """

    def __init__(
        self,
        clock: Clock,
        wheel: TimerWheel,
        work_count: Callable[[], int],
    ) -> None:
        self.collecting_us = Histogram()
        self.collected_objects_total = 0
        self.longest_us = 0
        self.sweeps_total = 0
        self._clock = clock
        self._wheel = wheel
        self._work_count = work_count
        self._thresholds = gc.get_threshold()
        self._begun_us = 0
        self._is_sweeping = False
        self._swept_at_ms = 0
        self._last_work_count = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Freeze what there is: it lives as long as the node."""
        self.sweep()
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_LOOKS, _OLD_LOOKS)
        gc.callbacks.append(self._collecting)
        self._arm()

    def stop(self) -> None:
        """Leave the collector as it was found."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()

    def sweep(self) -> None:
        """Collect everything, also what is frozen, and freeze what is alive."""
        self._is_sweeping = True
        gc.unfreeze()
        self.collected_objects_total += gc.collect()
        gc.freeze()
        self._is_sweeping = False
        self.sweeps_total += 1
        self._swept_at_ms = self._clock.monotonic_ms()

    def _arm(self) -> None:
        """Check an interval before a sweep is due, to compare with, and at each interval from then on."""
        due_ms = self._swept_at_ms + SWEEP_DUE_MS - CHECK_INTERVAL_MS
        self._timer = self._wheel.add(max(due_ms, self._clock.monotonic_ms() + CHECK_INTERVAL_MS), self._check)

    def _check(self) -> None:
        work_count, last = self._work_count(), self._last_work_count
        self._last_work_count = work_count
        since_ms = self._clock.monotonic_ms() - self._swept_at_ms
        if since_ms >= SWEEP_OVERDUE_MS or (since_ms >= SWEEP_DUE_MS and work_count == last):
            self.sweep()
        self._arm()

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if self._is_sweeping:
            return
        if phase == "start":
            self._begun_us = self._clock.monotonic_us()
            return
        if info["generation"] > 0:
            gc.freeze()
        took_us = self._clock.monotonic_us() - self._begun_us
        self.collected_objects_total += info["collected"]
        self.collecting_us.record(took_us)
        self.longest_us = max(self.longest_us, took_us)
