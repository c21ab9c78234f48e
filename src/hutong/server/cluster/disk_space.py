"""Reports of the space on this node's disk, as a part of its registration: placement goes by it.

Strategy: a look now and then. A registration is written again only where much has changed, or where the space has
become too little for new replicas, or is enough again: all nodes read it each time.

Decides nothing.
"""

from collections.abc import Callable
from typing import Final

from hutong.cluster.nodes import DiskSpace
from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel

LOOK_MS: Final = 10_000
REPORTED_SHARE: Final = 16  # of the disk: a change of less than one in 16 is not reported


class DiskReports:
    """Looks from `start` to `close`; `space` is what was reported last."""

    def __init__(
        self,
        volume_bytes: Callable[[], tuple[int, int]],
        free_bytes_min: int,
        clock: Clock,
        timers: TimerWheel,
    ) -> None:
        self._volume_bytes = volume_bytes
        self._free_bytes_min = free_bytes_min
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._report: Callable[[DiskSpace], None] = lambda _space: None
        self.space = self._measure()

    def start(self, report: Callable[[DiskSpace], None]) -> None:
        self._report = report
        self._look_later()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = self._timers.add(self._clock.monotonic_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        self._look_later()
        found, known = self._measure(), self.space
        is_news = abs(found.free_bytes - known.free_bytes) * REPORTED_SHARE >= found.total_bytes
        if is_news or found.is_short != known.is_short:
            self.space = found
            self._report(found)

    def _measure(self) -> DiskSpace:
        total_bytes, free_bytes = self._volume_bytes()
        return DiskSpace(total_bytes, free_bytes, free_bytes < self._free_bytes_min)
