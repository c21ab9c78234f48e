"""Python's cyclic collector, kept from stopping the loop.

Strategy: nearly everything is freed by its last reference; the collector is there for the rare cycle. So what start-up
made is frozen (moved where no collection looks), a collection begins only after enough new objects to be worth a
millisecond, and what has survived two is frozen as well. So the oldest generation is always empty, and no collection
ever costs more than the few objects made since the last. With the interpreter's own thresholds a thousand busy
partitions spend a tenth of the processor here, in pauses of up to 50 ms (`bench stalls`).

The interpreter begins a collection when there are most new objects: in a busy node those of the requests that wait for
a flush, ten thousand at a time, all alive. A moment later they are answered and gone. So `check`, which the monitor of
stalls calls every few milliseconds, collects as soon as it finds just enough new objects to be worth it; the longer it
finds more, the more it allows. The interpreter's threshold is left for growth that comes faster.

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

WORTH_OBJECTS: Final = 2_000  # more objects than were freed: a collection takes half a millisecond
PATIENCE_OBJECTS: Final = 25  # allowed more with each check in vain: three times as many after a second
YOUNG_OBJECTS: Final = 15_000  # the interpreter collects by itself; about seven milliseconds
YOUNG_LOOKS: Final = 4  # a second look, at what survived four first ones
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
        self._begun_young = 0
        self._is_sweeping = False
        self._allowed = WORTH_OBJECTS  # new objects that `check` collects
        self._looks = 0
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

    def check(self) -> None:
        """Collect new objects if there are few of them for the moment, and enough to be worth it."""
        # A node inside a program never starts this, and leaves the program's collector alone.
        if self._timer is None:
            return
        young = gc.get_count()[0]
        if young < WORTH_OBJECTS:
            return
        # Most of them are in use at the moment, and looking at them is of no use: they may be gone at the next check.
        if young > self._allowed:
            self._allowed += PATIENCE_OBJECTS
            return
        self._allowed = WORTH_OBJECTS
        self._looks += 1
        gc.collect(1 if self._looks % YOUNG_LOOKS == 0 else 0)

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
            self._begun_young = gc.get_count()[0]
            return
        # After a long one as well: most of what it found is in use, and a second look would take as long.
        if info["generation"] > 0 or self._begun_young > YOUNG_OBJECTS // 2:
            gc.freeze()
        took_us = self._clock.monotonic_us() - self._begun_us
        self.collected_objects_total += info["collected"]
        self.collecting_us.record(took_us)
        self.longest_us = max(self.longest_us, took_us)
