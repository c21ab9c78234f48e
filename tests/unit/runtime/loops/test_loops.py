"""Several event loops under one runtime."""

import asyncio
import threading

import pytest

from hutong.foundation.clock import SystemClock
from hutong.runtime.contexts.contexts import Context, ContextKind
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions, Verticle


async def test_contexts_are_dealt_over_the_loops() -> None:
    async with Runtime(SystemClock(), event_loops=3) as runtime:
        contexts = [runtime.context() for _ in range(6)]
        threads = [await context.call(lambda: threading.current_thread().name) for context in contexts]
        assert threads == [threading.current_thread().name, "loop-1", "loop-2"] * 2
        assert contexts[0].loop is asyncio.get_running_loop()
    assert not any(thread.name.startswith("loop-") for thread in threading.enumerate())


async def test_instances_are_spread_and_started_and_stopped_on_their_loops() -> None:
    seen: list[str] = []

    class Noting(Verticle):
        async def start(self) -> None:
            assert self.context.is_current
            await asyncio.sleep(0)
            seen.append(threading.current_thread().name)
            await self.runtime.deploy(Verticle)  # deployed from another loop than the first

        async def stop(self) -> None:
            seen.append(threading.current_thread().name)

    async with Runtime(SystemClock(), event_loops=2) as runtime:
        deployment = await runtime.deploy(Noting, DeploymentOptions(instances=2))
        assert len(deployment.children) == 2
        await runtime.undeploy(deployment)
    assert sorted(seen) == sorted([threading.current_thread().name, "loop-1"] * 2)


async def test_handlers_pass_between_loops_in_order() -> None:
    async with Runtime(SystemClock(), event_loops=2) as runtime:
        here, there = runtime.context(), runtime.context()
        seen: list[int] = []
        done = asyncio.Event()

        def back(number: int) -> None:
            seen.append(number)
            if number == 999:
                done.set()

        def forth(number: int) -> None:
            assert there.is_current
            here.run(back, number)

        for number in range(1_000):
            there.run(forth, number)
        await done.wait()
        assert seen == list(range(1_000))


async def test_timers_and_blocking_work_come_back_to_the_loop_of_their_context() -> None:
    async with Runtime(SystemClock(), event_loops=2) as runtime:
        runtime.context()
        there: Context = runtime.context()
        loop, fired = asyncio.get_running_loop(), asyncio.Queue[bool]()
        there.set_timer(0.001, lambda: loop.call_soon_threadsafe(fired.put_nowait, there.is_current))
        assert await fired.get()

        async def works() -> tuple[str, bool]:
            name = await there.execute_blocking(lambda: threading.current_thread().name)
            return name, there.is_current

        assert await there.call(works) == ("hutong-worker-0", True)


@pytest.mark.parametrize("kind", list(ContextKind))
async def test_the_runtime_may_be_closed_from_any_of_its_contexts(kind: ContextKind) -> None:
    runtime = Runtime(SystemClock(), event_loops=2)
    runtime.context()
    context = runtime.context(kind)
    ended = threading.Event()

    async def closes(_: None) -> None:
        try:
            await runtime.close()
        finally:
            ended.set()

    context.run(closes, None)
    assert await asyncio.to_thread(ended.wait, 10)
    await runtime.close()
    assert not any(thread.name.startswith(("loop-", "hutong-worker")) for thread in threading.enumerate())


async def test_a_context_may_ask_for_its_loop() -> None:
    async with Runtime(SystemClock(), event_loops=2) as runtime:
        deployment = await runtime.deploy(Verticle, DeploymentOptions(loop=1, instances=2))
        assert {verticle.context.home.name for verticle in deployment.verticles} == {"loop-1"}
        with pytest.raises(ValueError, match="no event loop 2: the runtime has 2, the first is 0"):
            runtime.context(loop=2)


async def test_counts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 1024 event loops, not 0"):
        Runtime(SystemClock(), event_loops=0)
    with pytest.raises(ValueError, match="at least one thread"):
        Runtime(SystemClock(), worker_threads=0)
