"""Loop timers: armed only while something waits, and always for the earliest."""

import asyncio

from hutong.foundation.clock import SystemClock
from hutong.foundation.timers import TimerWheel
from hutong.runtime.loops.timers import LoopTimers


def make_timers() -> tuple[LoopTimers, SystemClock]:
    clock = SystemClock()
    wheel = TimerWheel(clock.monotonic_ms(), tick_ms=1)
    return LoopTimers(asyncio.get_running_loop(), wheel, clock), clock


async def test_timers_fire_on_the_loop_in_order_of_their_deadlines() -> None:
    timers, clock = make_timers()
    done = asyncio.Event()
    fired: list[str] = []
    now_ms = clock.monotonic_ms()

    def last() -> None:
        fired.append("late")
        done.set()

    timers.wheel.add(now_ms + 6, last)
    timers.wheel.add(now_ms + 2, lambda: fired.append("early"))
    await done.wait()
    assert clock.monotonic_ms() >= now_ms + 6
    assert fired == ["early", "late"]
    assert not timers.is_armed


async def test_nothing_is_armed_while_nothing_waits_or_once_closed() -> None:
    timers, clock = make_timers()
    assert not timers.is_armed
    timers.wheel.add(clock.monotonic_ms() + 60_000, lambda: None)
    assert timers.is_armed
    timers.close()
    assert not timers.is_armed
    timers.wheel.add(clock.monotonic_ms() + 1, lambda: None)
    assert not timers.is_armed
