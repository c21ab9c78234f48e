"""The stall monitor: what holds the loop is seen, and only from start to stop."""

import asyncio

from hutong.foundation.clock import SystemClock
from hutong.runtime.stalls import StallMonitor

HELD_US = 30_000


async def test_a_turn_that_takes_long_is_seen() -> None:
    clock, loop = SystemClock(), asyncio.get_running_loop()
    monitor = StallMonitor(loop, clock, interval_ms=1)
    monitor.start()
    until_us = clock.monotonic_us() + HELD_US
    while clock.monotonic_us() < until_us:
        pass
    served = asyncio.Event()
    loop.call_later(0.002, served.set)
    await served.wait()
    monitor.stop()
    assert monitor.longest_us >= HELD_US - 2_000  # it was due an interval after the hold began
    assert monitor.lateness_us.quantile(1) >= monitor.longest_us
    monitor.forget()
    assert monitor.longest_us == monitor.lateness_us.count == 0


async def test_nothing_is_recorded_after_stop() -> None:
    monitor = StallMonitor(asyncio.get_running_loop(), SystemClock(), interval_ms=1)
    monitor.start()
    monitor.stop()
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, done.set)
    await done.wait()
    assert monitor.lateness_us.count == 0
