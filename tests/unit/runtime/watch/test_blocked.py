"""The checker of blocked threads, on a clock that the test moves."""

import asyncio
import sys
import threading
import traceback
from collections.abc import AsyncIterator

import pytest
from tests.support.waiting import until

from hutong.foundation.clock import ManualClock, SystemClock
from hutong.runtime.contexts.contexts import Context, ContextKind
from hutong.runtime.loops.loops import ThreadedEventLoop
from hutong.runtime.runtime import Runtime
from hutong.runtime.threads.pools import WorkerPool
from hutong.runtime.watch.blocked import BlockedLimits, BlockedThreads
from hutong.runtime.watch.stacks import doing

PAUSE = threading.Event()  # never set


class Bench:
    """A runtime whose second loop, or a worker, is held up by a handler until `release`."""

    def __init__(self, clock: ManualClock, runtime: Runtime) -> None:
        self.clock = clock
        self.runtime = runtime
        self.told: list[str] = []
        pools: list[WorkerPool] = [runtime._pool]
        self.checker = BlockedThreads(clock, runtime._others, lambda: pools, BlockedLimits(), self.told.append)
        self._release = threading.Event()

    def holds_up(self, _: object = None) -> None:
        self._release.wait(30)

    async def holds_up_in_a_coroutine(self, _: object = None) -> None:
        await asyncio.sleep(0)
        self.holds_up()

    def second(self, kind: ContextKind = ContextKind.EVENT_LOOP, name: str = "orders") -> Context:
        self.runtime.context()
        return self.runtime.context(kind, name=name)

    async def begun(self) -> None:
        """Look once the handler has begun, and stands where it is held up."""
        await asyncio.to_thread(until, lambda: PAUSE.wait(0.001) or _somebody_stands_in("self._release.wait(30)"))
        self.checker.check()

    def passes(self, seconds: float) -> list[str]:
        self.clock.advance(int(seconds * 1_000))
        self.checker.check()
        told, self.told[:] = self.told.copy(), []
        return told

    async def release(self, context: Context) -> None:
        self._release.set()
        await context.call(lambda: None)


def _somebody_stands_in(line: str) -> bool:
    """True if a thread is at this line, which is the whole of it: the call of this function has the same text, too."""
    others = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
    return any(line == each.line for frame in others for each in traceback.extract_stack(frame))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock = ManualClock()
    async with Runtime(clock, event_loops=2, blocked_limits=None) as runtime:
        bench = Bench(clock, runtime)
        yield bench
        bench._release.set()


async def test_block_check_default(bench: Bench) -> None:
    context = bench.second()
    context.run(bench.holds_up, None)
    await bench.begun()
    assert bench.passes(1.9) == []
    [warning] = bench.passes(0.1)
    assert warning.startswith("loop-1 has been blocked for 2.0 s by Bench.holds_up (")
    assert warning.endswith(") of <event loop context orders>.")
    assert "test_blocked.py:" in warning
    assert bench.passes(2.9) == []
    [warning] = bench.passes(0.1)
    assert warning.startswith("loop-1 has been blocked for 5.0 s by ")
    assert "self._release.wait(30)" in warning
    assert bench.passes(59.9) == []
    assert len(bench.passes(0.1)) == 1
    await bench.release(context)
    assert bench.passes(1) == ["loop-1 turns again."]
    assert bench.checker.warnings_total == 3


async def test_a_coroutine_that_blocks_is_named(bench: Bench) -> None:
    context = bench.second()
    context.run(bench.holds_up_in_a_coroutine, None)
    await bench.begun()
    [warning] = bench.passes(2)
    assert "by Bench.holds_up_in_a_coroutine (" in warning
    assert warning.endswith(") of <event loop context orders>.")
    await bench.release(context)


async def test_a_handler_without_lines_of_its_own_is_named(bench: Bench) -> None:
    context, lock = bench.second(), threading.Lock()
    lock.acquire()

    def in_one_turn(_: None) -> None:
        context.run(lock.acquire, True)

    context.run(in_one_turn, None)
    thread = bench.runtime._others[0].thread_id

    def is_held() -> bool:
        return "lock.acquire" in (doing(sys._current_frames()[thread]) or "")

    await asyncio.to_thread(until, lambda: PAUSE.wait(0.001) or is_held())
    bench.checker.check()
    told = bench.passes(2)
    lock.release()
    assert told == ["loop-1 has been blocked for 2.0 s by lock.acquire of <event loop context orders>."]
    await bench.release(context)


async def test_a_callback_of_no_context_is_named(bench: Bench) -> None:
    context = bench.second()
    context.loop.call_soon_threadsafe(bench.holds_up)
    await bench.begun()
    [warning] = bench.passes(2)
    assert "blocked for 2.0 s by Bench.holds_up (" in warning
    await bench.release(context)


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.MULTI_WORKER])
async def test_a_worker_may_take_a_minute(bench: Bench, kind: ContextKind) -> None:
    context = bench.second(kind, "reports")
    context.run(bench.holds_up, None)
    await bench.begun()
    assert bench.passes(59.9) == []
    [warning] = bench.passes(0.1)
    assert warning.startswith("a thread of hutong-worker has been blocked for 60.0 s by Bench.holds_up (")
    assert f") of <{kind.value} context reports>.\n" in warning
    await bench.release(context)


@pytest.mark.parametrize("ordered", [True, False])
async def test_blocking_work_is_named_too(bench: Bench, ordered: bool) -> None:
    context = bench.second()
    working = asyncio.get_running_loop().create_task(context.execute_blocking(bench.holds_up, ordered=ordered))
    await bench.begun()
    [warning] = bench.passes(60)
    assert "by Bench.holds_up (" in warning
    assert ") of <event loop context orders>.\n" in warning
    await bench.release(context)
    await working


async def test_many_short_handlers_of_a_worker_are_no_long_one(bench: Bench) -> None:
    context = bench.second(ContextKind.WORKER)
    for _ in range(200):
        context.run(lambda _: bench.clock.advance(1_000), None)
    context.run(bench.holds_up, None)
    await bench.begun()
    at_work = bench.runtime._pool.begun_us  # a thread that has handed on its turn may not have come home yet
    await asyncio.to_thread(until, lambda: PAUSE.wait(0.001) or len(at_work) == 1)
    assert bench.passes(59) == []
    await bench.release(context)


async def test_the_checker_looks_by_itself_and_ends() -> None:
    async def turns() -> None:
        context.run(release.wait, 10)
        assert await asyncio.to_thread(told.acquire, timeout=10)

    before = set(threading.enumerate())
    told, release, clock = threading.Semaphore(0), threading.Event(), SystemClock()
    async with Runtime(clock, event_loops=2, blocked_limits=None) as runtime:
        runtime.context()
        context = runtime.context()
        limits = BlockedLimits(loop_ms=1, interval_ms=1)
        checker = BlockedThreads(clock, runtime._others, list, limits, lambda _: told.release())
        checker.start()
        await turns()
        checker.stop()
        release.set()
    checkers = [thread for thread in threading.enumerate() if thread.name == "hutong-blocked-checker"]
    assert before.issuperset(checkers)


async def test_a_loop_that_was_closed_is_left_alone() -> None:
    clock = ManualClock()
    loop, told = ThreadedEventLoop("gone", clock), list[str]()
    await loop.end()
    loop.thread_id = threading.get_ident()  # as another thread may have it by now
    checker = BlockedThreads(clock, [loop], list, BlockedLimits(), told.append)
    checker.check()
    clock.advance(10_000)
    checker.check()
    assert told == []
