"""Timers of contexts, on a clock that the test moves."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from hutong.foundation.clock import ManualClock
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def runtime(clock: ManualClock) -> AsyncIterator[Runtime]:
    async with Runtime(clock, blocked_limits=None) as runtime:
        yield runtime


async def pass_time(runtime: Runtime, clock: ManualClock, context: Context, milliseconds: int) -> None:
    clock.advance(milliseconds)
    runtime.wheel.advance(clock.monotonic_ms())
    await context.call(lambda: None)


@pytest.mark.parametrize("kind", list(ContextKind)[:2])
async def test_a_timer_is_called_once_in_its_context(runtime: Runtime, clock: ManualClock, kind: ContextKind) -> None:
    context, seen = runtime.context(kind), list[Context | None]()
    timer = context.set_timer(0.05, lambda: seen.append(current_context()))
    await pass_time(runtime, clock, context, 40)
    assert seen == []
    assert timer.is_waiting
    await pass_time(runtime, clock, context, 10)
    assert seen == [context]
    assert not timer.is_waiting
    assert not timer.cancel()
    assert len(runtime.wheel) == 0


async def test_a_periodic_timer_keeps_its_beat_and_makes_up_for_nothing(runtime: Runtime, clock: ManualClock) -> None:
    context, seen = runtime.context(), list[int]()
    timer = context.set_periodic(0.1, lambda: seen.append(clock.monotonic_ms()))
    for _ in range(3):
        await pass_time(runtime, clock, context, 100)
    assert seen == [100, 200, 300]
    await pass_time(runtime, clock, context, 350)
    await pass_time(runtime, clock, context, 40)
    assert seen == [100, 200, 300, 650]
    await pass_time(runtime, clock, context, 10)
    assert seen == [100, 200, 300, 650, 700]
    assert timer.cancel()
    await pass_time(runtime, clock, context, 1_000)
    assert len(seen) == 5
    assert len(runtime.wheel) == 0


async def test_a_cancelled_timer_is_not_called_even_when_it_was_due(runtime: Runtime, clock: ManualClock) -> None:
    context, seen = runtime.context(), list[int]()
    timer = context.set_timer(0.01, lambda: seen.append(1))
    clock.advance(10)
    runtime.wheel.advance(clock.monotonic_ms())  # handed to the context, not called yet
    assert timer.cancel()
    await context.call(lambda: None)
    assert seen == []


async def test_timers_are_set_and_cancelled_from_any_thread(runtime: Runtime, clock: ManualClock) -> None:
    context, seen = runtime.context(), list[str]()
    kept = await asyncio.to_thread(context.set_timer, 0.01, lambda: seen.append("kept"))
    cancelled = await asyncio.to_thread(context.set_timer, 0.01, lambda: seen.append("cancelled"))
    assert await asyncio.to_thread(cancelled.cancel)
    await asyncio.sleep(0)
    await pass_time(runtime, clock, context, 10)
    assert seen == ["kept"]
    assert not kept.is_waiting
    assert len(runtime.wheel) == 0


async def test_a_coroutine_may_be_the_handler(runtime: Runtime, clock: ManualClock) -> None:
    context, done = runtime.context(), asyncio.Event()

    async def handler() -> None:
        await asyncio.sleep(0)
        done.set()

    context.set_timer(0.01, handler)
    await pass_time(runtime, clock, context, 10)
    await done.wait()


async def test_closing_a_context_cancels_its_timers(runtime: Runtime, clock: ManualClock) -> None:
    context = runtime.context()
    timer, beat = context.set_timer(0.01, threading.Event().set), context.set_periodic(0.01, threading.Event().set)
    await context.close()
    assert not timer.is_waiting
    assert not beat.is_waiting
    assert len(runtime.wheel) == 0


@pytest.mark.parametrize("delay", [0, -1.0, 0.0009, float("nan"), float("inf")])
async def test_a_timer_of_no_time_is_refused(runtime: Runtime, delay: float) -> None:
    with pytest.raises(ValueError, match=r"a timer waits from 0.001 seconds to ten years, not"):
        runtime.context().set_timer(delay, threading.Event().set)
