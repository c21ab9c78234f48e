"""A real disk whose flushes of chosen partition groups can be held, and let go, while a node runs on it.

Strategy: a fault plan whose only fault is time, and whose time is over when the test says so. Flushes run on workers,
so the counts are kept under a lock; who waits for them polls from the loop.
"""

import asyncio
import threading

from hutong.journal.files.disk import RealDisk
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk

HOLD_DEADLINE_S = 60.0


class HeldDisk(FaultyDisk):
    """Flushes pass until `hold`. `in_flight` counts those that wait just now."""

    def __init__(self) -> None:
        super().__init__(RealDisk(), FaultPlan(sleep=self._wait))
        self.in_flight = 0
        self.flushes_total = 0  # of the groups that are held, since `hold`
        self._changed = threading.Condition()
        self._is_open = threading.Event()
        self._is_open.set()

    def hold(self, *groups: str) -> None:
        """From now on flushes of these partition groups do not return."""
        self.flushes_total = 0
        self._is_open.clear()
        for group in groups:
            self.plan.add("flush", pattern=f"*/groups/{group}/*", latency_ms=1)

    def release(self) -> None:
        """Let go of those that wait, and hold no more; they are counted on."""
        self._is_open.set()

    async def held(self, count: int) -> None:
        """Returns once so many flushes wait together."""
        await asyncio.to_thread(self._wait_for, count)

    def _wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.in_flight >= count, HOLD_DEADLINE_S)

    def _wait(self, _seconds: float) -> None:
        with self._changed:
            self.in_flight += 1
            self.flushes_total += 1
            self._changed.notify_all()
        self._is_open.wait(HOLD_DEADLINE_S)
        with self._changed:
            self.in_flight -= 1
