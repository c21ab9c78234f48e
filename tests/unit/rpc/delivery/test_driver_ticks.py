"""The memory of calls in its host: a store that failed is tried again by the clock, and not after the end."""

from collections.abc import Callable
from typing import Any

from tests.unit.rpc.delivery.stage import MemoryTable

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import StorageError
from hutong.foundation.timers import TimerWheel
from hutong.rpc.call import IncomingCall, Outcome
from hutong.rpc.delivery.driver import CallMemory
from hutong.rpc.delivery.machine import TICK_MS
from hutong.rpc.delivery_port import ACKED_BELOW, REQUEST_ID

SESSION_MS = 1_700_000_000_000


class Call(IncomingCall):
    def raw_arguments(self) -> Any:
        return {"item": "apple"}


def call(deadline_ms: int | None = None) -> Call:
    headers = ((REQUEST_ID, f"{SESSION_MS:012x}7{1:019x}/0"), (ACKED_BELOW, "0"))
    return Call("orders", "place", headers, deadline_ms=deadline_ms)


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock(wall_ms=SESSION_MS)
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.table = MemoryTable(is_held=True)
        self.memory = CallMemory(self.table, self.clock, self.wheel)
        self.outcomes: list[Outcome] = []
        self.running: list[Callable[[Outcome], object]] = []

    def ask(self, deadline_ms: int | None = None) -> None:
        self.memory.begin_call(call(deadline_ms), self.running.append, self.outcomes.append)

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


async def test_an_outcome_that_was_not_stored_is_stored_at_the_next_tick_and_answered_then() -> None:
    scene = Scene()
    await scene.memory.open()
    scene.ask()
    scene.table.settle()
    scene.running.pop()(Outcome("done"))
    scene.table.settle(StorageError("no"))
    assert scene.outcomes == []
    scene.clock.jump(-3_600_000)
    scene.pass_time(TICK_MS + 10)
    scene.table.settle()
    assert scene.outcomes == [Outcome("done")]
    await scene.memory.close()
    scene.pass_time(10 * TICK_MS)
    assert len(scene.table.writes) == 0


async def test_a_repeat_gives_up_at_its_deadline_and_the_first_request_waits_for_the_outcome() -> None:
    scene = Scene()
    await scene.memory.open()
    scene.ask(deadline_ms=100)
    scene.ask(deadline_ms=100)
    assert (scene.memory.waiting, scene.memory.waited_total) == (2, 1)
    scene.pass_time(200)
    assert [outcome.failure is not None for outcome in scene.outcomes] == [True], "nobody waits for the repeat"
    scene.table.settle()
    scene.running.pop()(Outcome("done"))
    scene.table.settle()
    assert scene.outcomes[1:] == [Outcome("done")]
    assert scene.memory.waiting == 0
    await scene.memory.close()


async def test_a_table_that_is_lost_ends_all_waits_and_the_ticks() -> None:
    scene = Scene()
    await scene.memory.open()
    scene.ask()
    scene.table.settle()
    scene.running.pop()(Outcome("done"))
    scene.table.failure = StorageError("another owner")
    scene.table.settle(scene.table.failure)
    (unknown,) = scene.outcomes
    assert unknown.failure is not None
    assert "another owner" in unknown.failure.message
    scene.pass_time(10 * TICK_MS)
    assert len(scene.table.writes) == 0
    await scene.memory.close()
