"""Timers of a loop under the host of a machine: never early, and cancelled by its end."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from hutong.bus.durable.consume.call_later import CallLaterTimers
from hutong.foundation.clock import ManualClock
from hutong.foundation.machine import Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost


class Handle:
    def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The one method of a loop that its timers use."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Handle:
        self.handles.append(Handle(delay_s, callback))
        return self.handles[-1]


class Alarm:
    due_ms: int | None = None

    def handle(self, event: Tick) -> list[Tick]:
        self.due_ms = None
        return [event]

    def next_tick_ms(self) -> int | None:
        return self.due_ms


def test_a_tick_comes_by_the_loop_and_not_after_the_end() -> None:
    clock, loop, ticks = ManualClock(), Loop(), list[Tick]()
    timers = CallLaterTimers(cast(asyncio.AbstractEventLoop, loop), clock)
    host: MachineHost[MachineEntry[str, Alarm], Tick, Any] = MachineHost(
        clock, timers, None, lambda entry, tick: ticks.extend(host.handle(entry, tick))
    )
    entry = host.put(MachineEntry("alarm", Alarm()))
    now_ms = clock.monotonic_ms()
    entry.machine.due_ms = now_ms + 500
    host.arm(entry)
    assert loop.handles[0].delay_s == 0.501, "a clock in whole milliseconds may be almost one behind"
    clock.advance(501)
    loop.handles[0].callback()
    assert ticks == [Tick(now_ms + 501)]
    entry.machine.due_ms = now_ms
    host.arm(entry)
    assert loop.handles[1].delay_s == 0, "that is due already"
    host.close()
    assert loop.handles[1].is_cancelled
    host.arm(entry)
    assert len(loop.handles) == 2
