"""Worker contexts: order, one at a time, coroutines on threads, and what they may await."""

import asyncio
import threading
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import pytest

from hutong.foundation.clock import SystemClock
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


def on_a_pool_thread() -> bool:
    return threading.current_thread().name.startswith("hutong-worker-")


async def test_worker_handlers_run_on_pool_threads_one_at_a_time_in_order(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.WORKER)
    seen: list[int] = []
    under_way, most = 0, 0

    def handler(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        assert on_a_pool_thread()
        assert context.is_current
        assert current_context() is context
        seen.append(number)
        under_way -= 1

    for number in range(1_000):
        context.run(handler, number)
    assert not context.is_current
    await context.call(lambda: None)
    assert seen == list(range(1_000))
    assert most == 1


async def test_worker_calls_from_many_threads_are_never_two_at_once(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.WORKER)
    seen: list[tuple[int, int]] = []
    busy = threading.Lock()
    failures: list[BaseException] = []
    context.exception_handler = failures.append

    def handler(pair: tuple[int, int]) -> None:
        assert busy.acquire(blocking=False)
        seen.append(pair)
        busy.release()

    def flood(thread: int) -> None:
        for number in range(2_000):
            context.run(handler, (thread, number))

    await asyncio.gather(*(asyncio.to_thread(flood, index) for index in range(4)))
    await context.call(lambda: None)
    assert failures == []
    for index in range(4):
        assert [number for thread, number in seen if thread == index] == list(range(2_000))


async def test_an_idle_worker_context_holds_no_thread() -> None:
    async with Runtime(SystemClock(), worker_threads=1) as runtime:
        contexts = [runtime.context(ContextKind.WORKER) for _ in range(10)]
        assert await asyncio.gather(*(context.call(lambda: 7) for context in contexts)) == [7] * 10


async def test_multi_threaded_worker_handlers_run_side_by_side(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.MULTI_WORKER)
    meet = threading.Barrier(4, timeout=10)

    async def handler() -> bool:
        meet.wait()  # only four at once get through
        return context.is_current and current_context() is context and on_a_pool_thread()

    assert all(await asyncio.gather(*(context.call(handler) for _ in range(4))))


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.MULTI_WORKER])
async def test_coroutine_handlers_resume_on_the_pool(runtime: Runtime, kind: ContextKind) -> None:
    context = runtime.context(kind)
    on_loop: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def in_the_loop() -> int:
        return await on_loop

    async def handler() -> list[object]:
        seen: list[object] = []

        def note(result: object) -> None:
            seen.append(result if on_a_pool_thread() and context.is_current else threading.current_thread())

        note(await context.execute_blocking(lambda: "ordered"))
        note(await context.execute_blocking(lambda: "unordered", ordered=False))
        await asyncio.sleep(0.001)
        note("slept")
        note(await asyncio.gather(asyncio.sleep(0, 1), asyncio.to_thread(lambda: 2)))
        asyncio.get_running_loop().call_later(0.001, event.set)
        async with asyncio.timeout(10):
            await event.wait()
        note("waited")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        note("timed out")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, "grouped"))
        note(task.result())
        other.run(lambda _: on_loop.set_result(5), None)
        note(await other.call(in_the_loop))
        return seen

    event, other = asyncio.Event(), runtime.context()
    expected = ["ordered", "unordered", "slept", [1, 2], "waited", "timed out", "grouped", 5]
    assert await context.call(handler) == expected


async def test_steps_of_coroutines_are_never_two_at_once(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.WORKER)
    busy = threading.Lock()

    async def handler() -> None:
        for _ in range(50):
            assert busy.acquire(blocking=False)
            busy.release()
            await asyncio.sleep(0)

    await asyncio.gather(*(context.call(handler) for _ in range(20)))


@pytest.mark.parametrize("kind", [ContextKind.WORKER, ContextKind.MULTI_WORKER])
async def test_anyio_works_on_workers(runtime: Runtime, kind: ContextKind) -> None:
    async def handler() -> list[int]:
        seen: list[int] = []

        async def task(number: int) -> None:
            await anyio.sleep(0.001)
            seen.append(number)

        async with anyio.create_task_group() as group:
            group.start_soon(task, 1)
        with anyio.move_on_after(0.001):
            await anyio.sleep_forever()
        seen.append(await anyio.to_thread.run_sync(lambda: 2))
        return seen

    assert await runtime.context(kind).call(handler) == [1, 2]


async def test_what_belongs_to_an_event_loop_is_refused_with_a_sentence(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.WORKER, name="reports")
    foreign: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def connects() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    async def waits_for_foreign() -> None:
        await foreign

    with pytest.raises(RuntimeError, match=r"create_connection\(\) is not for <worker context reports>: sockets"):
        await context.call(connects)
    with pytest.raises(RuntimeError, match="attached to a different loop"):
        await context.call(waits_for_foreign)


async def test_plain_worker_handlers_may_run_a_loop_of_their_own(runtime: Runtime) -> None:
    context = runtime.context(ContextKind.WORKER)
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    context.run(lambda _: loop.call_soon_threadsafe(result.set_result, asyncio.run(asyncio.sleep(0, 7))), None)
    assert await result == 7


async def test_inline_failures_and_failures_after_an_await_are_told(runtime: Runtime) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Queue[tuple[Context, str]]()

    def tell(context: Context, error: BaseException) -> None:
        loop.call_soon_threadsafe(told.put_nowait, (context, str(error)))

    runtime.exception_handler = tell

    def plain(_: None) -> None:
        raise ValueError("plain")

    async def later(_: None) -> None:
        await asyncio.sleep(0)
        raise ValueError("later")

    for kind in (ContextKind.WORKER, ContextKind.MULTI_WORKER):
        context = runtime.context(kind)
        context.run(plain, None)
        assert await told.get() == (context, "plain")
        context.run(later, None)
        assert await told.get() == (context, "later")


async def test_close_ends_coroutines_on_workers() -> None:
    runtime = Runtime(SystemClock())
    loop, ended = asyncio.get_running_loop(), list[str]()

    async def waits(name: str, begun: asyncio.Event) -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    for kind in (ContextKind.WORKER, ContextKind.MULTI_WORKER):
        begun = asyncio.Event()
        runtime.context(kind).run(lambda name, begun=begun: waits(name, begun), kind.value)  # type: ignore[misc]
        await begun.wait()
    await runtime.close()
    assert sorted(ended) == ["multi-threaded worker", "worker"]
    assert not any(on for on in threading.enumerate() if on.name.startswith("hutong-worker-"))
