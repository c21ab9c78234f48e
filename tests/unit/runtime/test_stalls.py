"""The stall monitor: what holds the loop is seen, and only from start to stop."""

import asyncio

from hutong.foundation.clock import SystemClock
from hutong.runtime.stalls import StallMonitor

HELD_US = 30_000


class Watched:
    """A monitor on the running loop, and all that it records."""

    def __init__(self) -> None:
        self.recorded_us: list[int] = []
        self._more = asyncio.Event()
        self.clock = SystemClock()
        self.monitor = StallMonitor(asyncio.get_running_loop(), self.clock, self._record, interval_ms=1)

    def _record(self, late_us: int) -> None:
        self.recorded_us.append(late_us)
        self._more.set()

    async def next_record(self) -> None:
        self._more.clear()
        await self._more.wait()

    def hold_the_loop(self) -> None:
        until_us = self.clock.monotonic_us() + HELD_US
        while self.clock.monotonic_us() < until_us:
            pass


async def test_a_turn_that_takes_long_is_seen() -> None:
    watched = Watched()
    watched.monitor.start()
    await watched.next_record()
    watched.hold_the_loop()
    await watched.next_record()
    watched.monitor.stop()
    assert watched.monitor.longest_us >= HELD_US - 2_000  # it was due up to its interval after the hold began
    assert watched.monitor.longest_us == max(watched.recorded_us)
    watched.monitor.forget()
    assert watched.monitor.longest_us == 0


async def test_nothing_is_recorded_after_stop() -> None:
    watched = Watched()
    watched.monitor.start()
    await watched.next_record()
    watched.monitor.stop()
    count = len(watched.recorded_us)
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, done.set)
    await done.wait()
    assert len(watched.recorded_us) == count
