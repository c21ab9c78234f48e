"""Blocking work of contexts: in order or side by side, bounded, on shared pools."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts import contexts
from hutong.runtime.contexts.contexts import ContextKind, current_context
from hutong.runtime.runtime import Runtime
from hutong.runtime.threads.pools import WorkerPool
from hutong.runtime.verticles import DeploymentOptions, Verticle

KINDS = list(ContextKind)


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


async def test_execute_blocking_parallel(runtime: Runtime) -> None:
    context, meet = runtime.context(), threading.Barrier(10, timeout=10)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(context.execute_blocking(meet.wait, ordered=False) for _ in range(10)))

    assert sorted(await context.call(all_at_once)) == list(range(10))


@pytest.mark.parametrize("kind", KINDS)
async def test_ordered_work_is_done_one_after_the_other(runtime: Runtime, kind: ContextKind) -> None:
    context, busy, seen = runtime.context(kind), threading.Lock(), list[int]()

    def work(number: int) -> int:
        assert busy.acquire(blocking=False)
        seen.append(number)
        busy.release()
        return number

    pieces = (context.execute_blocking(lambda number=number: work(number)) for number in range(100))  # type: ignore[misc]
    assert await asyncio.gather(*pieces) == list(range(100))
    assert seen == list(range(100))


async def test_ordered_executor_per_verticle(runtime: Runtime) -> None:
    """Ordered work of one verticle waits for its own, not for another's."""
    release, seen = threading.Event(), list[str]()

    class Blocks(Verticle):
        pass

    options = DeploymentOptions(instances=2)
    first, second = (verticle.context for verticle in (await runtime.deploy(Blocks, options)).verticles)
    held = asyncio.gather(
        first.execute_blocking(lambda: release.wait(10)), first.execute_blocking(lambda: seen.append("first"))
    )
    await second.execute_blocking(lambda: seen.append("second"))
    release.set()
    await held
    assert seen == ["second", "first"]


async def test_what_work_raises_comes_back_and_the_next_is_done(runtime: Runtime) -> None:
    context = runtime.context()
    for ordered in (True, False):
        with pytest.raises(ValueError, match="seven"):
            await context.execute_blocking(lambda: int("seven"), ordered=ordered)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await context.execute_blocking(lambda: next(iter(())), ordered=ordered)
        assert await context.execute_blocking(lambda: 7, ordered=ordered) == 7


async def test_work_belongs_to_its_context_and_is_on_no_loop(runtime: Runtime) -> None:
    context = runtime.context()
    for ordered in (True, False):
        assert await context.execute_blocking(current_context, ordered=ordered) is context
        assert not await context.execute_blocking(lambda: context.is_current, ordered=ordered)
        assert await context.execute_blocking(lambda: asyncio.run(asyncio.sleep(0, 7)), ordered=ordered) == 7


async def test_work_whose_waiter_has_gone_is_not_begun(runtime: Runtime) -> None:
    context, release, seen = runtime.context(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()
    first = loop.create_task(context.execute_blocking(lambda: release.wait(10)))
    second = loop.create_task(context.execute_blocking(lambda: seen.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    release.set()
    await first
    await context.execute_blocking(lambda: seen.append("third"))
    assert seen == ["third"]


async def test_pending_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "PENDING_WORK_MAX", 1)
    release, loop = threading.Event(), asyncio.get_running_loop()
    async with Runtime(SystemClock(), worker_threads=1) as runtime:
        context, begun = runtime.context(), asyncio.Event()

        def holds() -> None:
            loop.call_soon_threadsafe(begun.set)
            release.wait(10)

        held = loop.create_task(context.execute_blocking(holds))
        await begun.wait()
        waits = loop.create_task(context.execute_blocking(lambda: 7))
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded, match="pending_work_max is 1"):
            await context.execute_blocking(lambda: 8)
        release.set()
        await held
        assert await waits == 7


async def test_a_pool_grows_by_demand_and_no_further() -> None:
    pool, meet, done = WorkerPool(3, "grows"), threading.Barrier(4, timeout=10), threading.Semaphore(0)
    assert pool.threads == 0
    for _ in range(3):
        pool.execute(meet.wait)
    pool.execute(done.release)
    assert pool.threads == 3
    assert not done.acquire(blocking=False)
    meet.wait()
    assert done.acquire(timeout=10)
    assert pool.close()
    assert pool.pending == 0
    with pytest.raises(RuntimeError, match="the worker pool grows is closed"):
        pool.execute(done.release)


async def test_work_is_refused_while_the_system_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, done = WorkerPool(2, "short"), threading.Semaphore(0)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(LimitExceeded, match="worker_threads is 0"):
        pool.execute(done.release)
    assert (pool.threads, pool.pending) == (0, 0)
    monkeypatch.setattr(threading.Thread, "start", start)
    pool.execute(done.release)
    assert done.acquire(timeout=10)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    gate = threading.Event()
    pool.execute(lambda: gate.wait(10))
    pool.execute(done.release)  # would have a thread of its own, and waits for the one there is
    gate.set()
    assert done.acquire(timeout=10)
    assert pool.threads == 1
    assert pool.close()


async def test_a_worker_context_refuses_a_handler_without_a_thread(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = runtime.context(ContextKind.WORKER, pool="short")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(LimitExceeded, match="worker_threads"):
            context.run(print, "never")
    assert await context.call(lambda: 7) == 7
    await context.close()


async def test_a_closing_pool_does_not_wait_for_ever() -> None:
    pool, release = WorkerPool(1, "stuck"), threading.Event()
    pool.execute(lambda: release.wait(10))
    assert not pool.close(timeout_ms=1)
    release.set()
    assert pool.close()


async def test_shared_worker_pool_is_reference_counted(runtime: Runtime) -> None:
    def use(kind: ContextKind) -> DeploymentOptions:
        return DeploymentOptions(kind=kind, pool="reports", pool_threads=1)

    first = await runtime.deploy(Verticle, use(ContextKind.WORKER))
    second = await runtime.deploy(Verticle, use(ContextKind.EVENT_LOOP))
    one, two = first.verticles[0].context, second.verticles[0].context
    assert one.pool is two.pool
    assert await one.call(lambda: threading.current_thread().name) == "reports-0"
    assert await two.execute_blocking(lambda: threading.current_thread().name) == "reports-0"
    await runtime.undeploy(first)
    assert await two.execute_blocking(lambda: 7) == 7
    await runtime.undeploy(second)
    with pytest.raises(RuntimeError, match="the worker pool reports is closed"):
        one.run(print, None)
    third = await runtime.deploy(Verticle, use(ContextKind.WORKER))
    assert third.verticles[0].context.pool is not one.pool
    await runtime.undeploy(third)
    assert one.pool.close()
    assert third.verticles[0].context.pool.close()
    assert not any(thread.name.startswith("reports-") for thread in threading.enumerate())
