"""The stall monitor: what holds the loop is seen, and only from start to stop."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from hutong.foundation.clock import ManualClock, SystemClock, thread_processor_us
from hutong.runtime.watch.stalls import QUIET_LOOKS, REST_INTERVAL_MS, StallMonitor

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


class Scene:
    """A loop of which only timers are asked, and a clock and a processor that stand still unless told."""

    def __init__(self) -> None:
        self.clock, self.worked_us = ManualClock(), 0
        self.due: tuple[float, Callable[[], None]] | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.looks = 0
        loop = cast(asyncio.AbstractEventLoop, self)
        self.checked: list[float] = []  # the delay of the timer that was set before each call
        self.monitor = StallMonitor(
            loop, self.clock, processor_us=lambda: self.worked_us, checked=lambda: self.checked.append(self.delay_s)
        )
        self.monitor.wake_by(self.callbacks.append)
        self.monitor.start()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Any:
        self.due = delay_s, callback
        self.delay_s = delay_s
        return self

    def cancel(self) -> None:
        self.due = None

    def pass_ms(self, milliseconds: float, working_us: int = 0) -> None:
        """Serve each timer in its time; `working_us` of work come before each."""
        while self.due is not None and self.due[0] * 1_000 <= milliseconds:
            delay_s, callback = self.due
            milliseconds -= delay_s * 1_000
            self.clock.advance(round(delay_s * 1_000))
            self.worked_us += working_us
            self.looks += 1
            callback()
        self.clock.advance(round(milliseconds))


def test_an_idle_loop_is_looked_at_once_a_second() -> None:
    scene = Scene()
    scene.pass_ms(QUIET_LOOKS * 5)
    assert (scene.looks, len(scene.callbacks)) == (QUIET_LOOKS, 1)
    scene.pass_ms(20 * REST_INTERVAL_MS)
    assert scene.looks == QUIET_LOOKS + 20
    assert len(scene.callbacks) == 1, "it is woken once, and is not asked again"
    assert scene.monitor.lateness_us.count == scene.monitor.work_us.count == QUIET_LOOKS + 20 * 200, "time counts alike"


def test_a_loop_with_work_is_looked_at_at_every_interval() -> None:
    scene = Scene()
    scene.pass_ms(1_000, working_us=300)
    assert (scene.looks, scene.callbacks) == (200, [])
    assert scene.checked == [0.005] * 200, "and what follows a check counts in the next interval"


def test_nothing_follows_a_check_of_an_idle_loop() -> None:
    scene = Scene()
    scene.pass_ms(20 * REST_INTERVAL_MS)
    assert len(scene.checked) < QUIET_LOOKS


def test_traffic_ends_the_rest_so_that_what_it_holds_up_is_seen() -> None:
    scene = Scene()
    scene.pass_ms(QUIET_LOOKS * 5 + 400)
    (wake,) = scene.callbacks
    wake()
    counted = scene.monitor.lateness_us.count
    assert counted == QUIET_LOOKS + 80
    scene.clock.advance(90)  # the loop is held
    assert scene.due is not None
    scene.due[1]()
    assert scene.monitor.longest_us == 85_000
    wake()
    assert scene.monitor.lateness_us.count == counted + 1, "a second call means nothing"


def test_a_look_that_finds_work_ends_the_rest() -> None:
    scene = Scene()
    scene.pass_ms(QUIET_LOOKS * 5)
    scene.pass_ms(REST_INTERVAL_MS, working_us=REST_INTERVAL_MS * 100)
    scene.pass_ms(10)
    assert scene.looks == QUIET_LOOKS + 1 + 2


def test_nothing_wakes_a_monitor_that_was_stopped() -> None:
    scene = Scene()
    scene.pass_ms(QUIET_LOOKS * 5)
    scene.monitor.stop()
    scene.callbacks[0]()
    assert scene.due is None
