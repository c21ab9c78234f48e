"""The stall monitor: what holds the loop is seen, and only from start to stop."""

import asyncio

from hutong.foundation.clock import SystemClock, thread_processor_us
from hutong.runtime.stalls import StallMonitor

HELD_US = 30_000


async def test_a_turn_that_takes_long_is_seen() -> None:
    clock, loop = SystemClock(), asyncio.get_running_loop()
    monitor = StallMonitor(loop, clock, interval_ms=1)
    monitor.start()
    until_us, worked_until_us = clock.monotonic_us() + HELD_US, thread_processor_us() + HELD_US // 2
    while clock.monotonic_us() < until_us or thread_processor_us() < worked_until_us:
        pass  # the machine may hold it up as well: then it works for longer
    served = asyncio.Event()
    loop.call_later(0.002, served.set)
    await served.wait()
    monitor.stop()
    assert monitor.longest_us >= HELD_US - 2_000  # it was due an interval after the hold began
    assert monitor.lateness_us.quantile(1) >= monitor.longest_us
    assert monitor.work_us.quantile(1) >= HELD_US / 2
    monitor.forget()
    assert monitor.longest_us == monitor.lateness_us.count == monitor.work_us.count == 0


async def test_waiting_for_a_processor_is_no_work() -> None:
    loop, served = asyncio.get_running_loop(), asyncio.Event()
    worked_us = iter(range(0, 1_000_000, 100))  # as if another process had the processor for the rest
    monitor = StallMonitor(loop, SystemClock(), interval_ms=1, processor_us=lambda: next(worked_us))
    monitor.start()
    loop.call_later(0.01, served.set)
    await served.wait()
    monitor.stop()
    assert monitor.work_us.count
    assert monitor.work_us.quantile(1) < 1_000


async def test_nothing_is_recorded_after_stop() -> None:
    monitor = StallMonitor(asyncio.get_running_loop(), SystemClock(), interval_ms=1)
    monitor.start()
    monitor.stop()
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, done.set)
    await done.wait()
    assert monitor.lateness_us.count == 0
