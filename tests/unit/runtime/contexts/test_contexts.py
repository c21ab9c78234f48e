"""Contexts of an event loop: order, affinity, coroutines, failures."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts import contexts
from hutong.runtime.contexts.contexts import PASS_MAX, Context, ContextKind, current_context
from hutong.runtime.contexts.coroutines import Coroutines
from hutong.runtime.runtime import Runtime


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


async def ran(context: Context) -> None:
    """Everything given to the context before has begun."""
    done = asyncio.Event()
    context.run(lambda _: done.set(), None)
    await done.wait()


async def test_handlers_run_soon_in_order_and_never_inline(runtime: Runtime) -> None:
    context = runtime.context()
    seen: list[int] = []

    def handler(number: int) -> None:
        if number == 0:
            context.run(seen.append, 3)
        seen.append(number)

    for number in range(3):
        context.run(handler, number)
    assert seen == []
    await ran(context)
    await ran(context)
    assert seen == [0, 1, 2, 3]


async def test_a_turn_is_bounded_so_that_others_have_theirs(runtime: Runtime) -> None:
    context = runtime.context()
    seen: list[int] = []
    for number in range(2 * PASS_MAX):
        context.run(seen.append, number)
    await asyncio.sleep(0)
    assert seen == list(range(PASS_MAX))
    await asyncio.sleep(0)
    assert seen == list(range(2 * PASS_MAX))


async def test_current_context_in_handlers_coroutines_and_what_they_start(runtime: Runtime) -> None:
    first, second = runtime.context(name="first"), runtime.context(name="second")
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    seen: list[Context | None] = []

    def note(_: object = None) -> None:
        seen.append(current_context())

    async def suspends(_: object) -> None:
        note()
        await asyncio.sleep(0)
        note()
        await asyncio.to_thread(note)
        loop.call_later(0, note)
        loop.call_later(0, done.set)

    first.run(note, None)
    second.run(note, None)
    first.run(suspends, None)
    await done.wait()
    assert seen == [first, second, first, first, first, first]
    assert current_context() is None


async def test_is_current_asks_for_the_thread_as_well(runtime: Runtime) -> None:
    context, done = runtime.context(), asyncio.Event()
    seen: list[bool] = []

    async def handler(_: object) -> None:
        seen.append(context.is_current)
        seen.append(await asyncio.to_thread(lambda: context.is_current))
        done.set()

    context.run(handler, None)
    await done.wait()
    assert seen == [True, False]
    assert not context.is_current


async def test_calls_from_other_threads_keep_their_order(runtime: Runtime) -> None:
    context = runtime.context()
    seen: list[tuple[int, int, bool]] = []
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def note(pair: tuple[int, int]) -> None:
        seen.append((*pair, context.is_current))
        if len(seen) == 20_000:
            loop.call_soon(done.set)

    def flood(thread: int) -> None:
        for number in range(5_000):
            context.run(note, (thread, number))

    threads = [threading.Thread(target=flood, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    await done.wait()
    for thread in threads:
        thread.join()
    for index in range(4):
        assert [number for thread, number, _ in seen if thread == index] == list(range(5_000))
    assert all(is_current for _, _, is_current in seen)


async def test_what_a_handler_raises_is_told_and_the_others_run() -> None:
    told: list[tuple[Context, str]] = []
    all_told = asyncio.Event()

    def tell(context: Context, error: BaseException) -> None:
        told.append((context, str(error)))
        if len(told) == 2:
            all_told.set()

    async with Runtime(SystemClock(), exception_handler=tell) as runtime:
        context, seen = runtime.context(), list[int]()

        def raises(text: str) -> None:
            raise ValueError(text)

        async def raises_later(text: str) -> None:
            await asyncio.sleep(0)
            raise ValueError(text)

        context.run(raises, "plain")
        context.run(raises_later, "coroutine")
        context.run(seen.append, 1)
        await all_told.wait()
        assert told == [(context, "plain"), (context, "coroutine")]
        assert seen == [1]
        own: list[str] = []
        context.exception_handler = lambda error: own.append(str(error))
        context.run(raises, "mine")
        await ran(context)
        assert own == ["mine"]
        assert len(told) == 2


async def test_failures_are_logged_where_nobody_asked_for_them(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    context = runtime.context(name="orders")
    context.run(lambda text: int(text), "seven")
    await ran(context)
    [record] = caplog.records
    assert record.getMessage().startswith("a handler of orders failed: invalid literal for int()")
    assert record.exc_info


async def test_exception_handler_failing(runtime: Runtime) -> None:
    context, told = runtime.context(), list[BaseException]()
    runtime.exception_handler = lambda context, error: told.append(error)

    def failing(error: BaseException) -> None:
        raise RuntimeError("the handler of exceptions is at fault too")

    context.exception_handler = failing
    context.run(lambda text: int(text), "seven")
    await ran(context)
    [second] = told
    assert isinstance(second, RuntimeError)
    assert isinstance(second.__context__, ValueError)


async def test_what_waits_is_bounded(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "QUEUED_MAX", 2)
    context, seen = runtime.context(), list[int]()
    context.run(seen.append, 1)
    context.run(seen.append, 2)
    with pytest.raises(LimitExceeded, match="queued_max is 2"):
        context.run(seen.append, 3)
    await asyncio.sleep(0)
    assert seen == [1, 2]


async def test_close_ends_coroutines_that_are_under_way() -> None:
    ended: list[str] = []
    runtime = Runtime(SystemClock())
    context, begun = runtime.context(), asyncio.Event()

    async def waits_forever(_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    context.run(waits_forever, None)
    await begun.wait()
    await runtime.close()
    assert ended == ["cancelled"]


async def test_a_runtime_closes_its_contexts_in_the_order_of_their_making() -> None:
    runtime, closed = Runtime(SystemClock()), list[int]()
    others: list[object] = []
    contexts: list[Context] = []
    for number in range(50):
        others += [object() for _ in range(number)]  # between them in memory
        contexts.append(runtime.context())
        contexts[-1].add_close_hook(partial(closed.append, number))
    await runtime.close()
    assert closed == list(range(50))


async def test_a_coroutine_that_is_closed_without_its_loop_has_not_failed() -> None:
    class Owner:
        def fail(self, error: BaseException) -> None:
            raise AssertionError(f"no handler failed by {error!r}")

    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    coroutines, handler = Coroutines(asyncio.get_running_loop(), Owner()), waits()
    coroutines._tasks[handler] = None  # type: ignore[assignment]  # driven by hand
    driven = coroutines.drive(handler)
    driven.send(None)
    driven.close()
    assert len(coroutines) == 0


async def test_what_is_queued_runs_at_once_for_a_caller_on_the_loop(runtime: Runtime) -> None:
    context, seen = runtime.context(), list[object]()
    for number in range(PASS_MAX + 1):
        context.queue.append((seen.append, number))
    context.run_queued()
    # A pass has its bound here, too: the rest has another one.
    assert seen == list(range(PASS_MAX))
    context.queue.append((lambda _: seen.append(current_context()), None))
    context.run_queued()
    await ran(context)
    assert seen == [*range(PASS_MAX + 1), context]


async def test_what_is_queued_is_left_to_the_thread_of_the_loop(runtime: Runtime) -> None:
    context, seen = runtime.context(), list[int]()
    loops_thread, done = threading.get_ident(), asyncio.Event()

    def handler(_: object) -> None:
        seen.append(threading.get_ident())
        done.set()

    def elsewhere() -> None:
        context.queue.append((handler, None))
        context.run_queued()

    await asyncio.to_thread(elsewhere)
    await done.wait()
    assert seen == [loops_thread]


async def test_queued_work_of_a_worker_goes_to_its_threads(runtime: Runtime) -> None:
    context, done = runtime.context(ContextKind.WORKER), threading.Event()
    context.queue.append((lambda _: done.set(), None))
    context.run_queued()
    assert await asyncio.to_thread(done.wait, 30)


def test_an_exit_of_a_handler_that_ran_at_once_ends_the_loop() -> None:
    async def main() -> None:
        async with Runtime(SystemClock()) as runtime:
            context = runtime.context()

            def leave(_: object) -> None:
                raise SystemExit(7)

            context.queue.append((leave, None))
            context.run_queued()
            await asyncio.Event().wait()

    with pytest.raises(SystemExit, match="7"):
        asyncio.run(main())
