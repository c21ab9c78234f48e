"""Offloaded work: done on a worker, told on the loop, whatever it ends with."""

import asyncio
import gc
import threading
import weakref

import pytest

from hutong.foundation.errors import FlushFailed, LimitExceeded
from hutong.runtime.threads.offload import InlineOffload, ThreadOffload, run


async def test_work_runs_on_a_worker_and_its_result_arrives_on_the_loop() -> None:
    offload = ThreadOffload(asyncio.get_running_loop(), workers=1, name="disk")
    arrived: asyncio.Future[tuple[object, str]] = asyncio.get_running_loop().create_future()
    offload.submit(
        lambda: threading.current_thread().name,
        lambda result: arrived.set_result((result, threading.current_thread().name)),
    )
    assert await arrived == ("disk-0", threading.main_thread().name)
    offload.close()


async def test_what_the_work_raises_is_handed_over() -> None:
    offload = ThreadOffload(asyncio.get_running_loop(), workers=2, name="disk")

    def fail() -> None:
        raise FlushFailed("no space")

    with pytest.raises(FlushFailed, match="no space"):
        await run(offload, fail)
    assert await run(offload, lambda: 7) == 7  # the worker survives
    offload.close()


async def test_the_data_of_failed_work_are_freed_with_its_error() -> None:
    """The error's traceback holds the frames of the work, so nothing in them may hold the error."""

    class Data(bytearray):
        pass

    freed = threading.Event()

    def fail() -> None:
        data = Data(10)
        weakref.finalize(data, freed.set)
        raise FlushFailed("no disk")

    offload = ThreadOffload(asyncio.get_running_loop(), 1, "test")
    told = asyncio.Event()
    gc.disable()
    try:
        offload.submit(fail, lambda error: told.set())
        await told.wait()
        offload.close()  # its thread has left the frames
        await asyncio.sleep(0)
        assert freed.is_set()
    finally:
        gc.enable()


async def test_pending_work_is_bounded() -> None:
    offload = ThreadOffload(asyncio.get_running_loop(), workers=1, name="disk", pending_max=1)
    started, release = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        release.wait(10)

    offload.submit(block, lambda _: None)
    started.wait()
    offload.submit(lambda: None, lambda _: None)
    with pytest.raises(LimitExceeded, match="pending_work_max is 1"):
        offload.submit(lambda: None, lambda _: None)
    release.set()
    offload.close()


async def test_close_finishes_what_was_submitted_and_ends_the_threads() -> None:
    offload = ThreadOffload(asyncio.get_running_loop(), workers=2, name="closing")
    done: list[int] = []
    for number in range(20):
        offload.submit(lambda number=number: done.append(number), lambda _: None)  # type: ignore[misc]
    offload.close()
    offload.close()
    assert sorted(done) == list(range(20))
    assert not any(thread.name.startswith("closing-") for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="closed"):
        offload.submit(lambda: None, lambda _: None)


async def test_a_cancelled_waiter_is_not_told() -> None:
    offload = ThreadOffload(asyncio.get_running_loop(), workers=1, name="disk")
    release = threading.Event()
    waiting = asyncio.ensure_future(run(offload, release.wait))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await run(offload, lambda: "after") == "after"
    offload.close()


def test_inline_work_is_done_before_submit_returns() -> None:
    results: list[object] = []
    InlineOffload().submit(lambda: 1, results.append)
    InlineOffload().submit(lambda: [][0], results.append)
    assert results[0] == 1
    assert isinstance(results[1], IndexError)
