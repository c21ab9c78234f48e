"""Offloads: blocking work goes to a thread, and its result comes back on the loop.

Strategy: a pool of threads reads one bounded queue (`pools`). Neither futures nor executors: a submission costs one
queue entry and one `call_soon_threadsafe`, which counts when every group commit passes here.

Knows nothing of what the work does. Work that must keep its order is the caller's to submit one by one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from hutong.runtime.threads.pools import PENDING_WORK_MAX, WorkerPool

T = TypeVar("T")


class Offload(Protocol):
    """Workers for blocking work."""

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Run `work` on a worker, then `then` on the loop with its result or with what it raised.

        Raises LimitExceeded when too much work is pending already, RuntimeError once closed.
        """
        ...


class ClosableOffload(Offload, Protocol):
    """Workers that one owner closes."""

    def close(self) -> None:
        """Finish what was submitted, then end the workers. Blocks."""
        ...


class ThreadOffload:
    """Worker threads named `name-0`, `name-1`..., each started when it is first needed, that live until `close`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, workers: int, name: str, pending_max: int = PENDING_WORK_MAX
    ) -> None:
        self._loop = loop
        self._pool = WorkerPool(workers, name, pending_max=pending_max)

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        self._pool.execute(partial(perform, work, then, self._loop))

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocks; results still reach the loop if it runs on."""
        self._pool.close()


def perform(work: Callable[[], T], then: Callable[[T | BaseException], None], loop: asyncio.AbstractEventLoop) -> None:
    """Do the work on this thread, and call `then` on the loop with its result or with what it raised."""
    result: T | BaseException
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # a supervisor: whatever it is, the submitter gets it
        result = error
    if not loop.is_closed():
        loop.call_soon_threadsafe(then, result)
    del result  # an error's traceback holds this frame: a cycle that would keep the frames of the work, with their data


class InlineOffload:
    """Does the work at once on the caller's thread: for tests and simulators."""

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # the same contract as a worker thread
            result = error
        then(result)


async def run(offload: Offload, work: Callable[[], T]) -> T:
    """Await blocking work from a coroutine; raises what the work raised."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    offload.submit(work, partial(settle, future))
    return await future


def settle(future: asyncio.Future[T], result: T | BaseException) -> None:
    """Give a future its outcome, unless its waiter was cancelled: the work itself cannot be."""
    if future.done():
        return
    if isinstance(result, asyncio.CancelledError):
        future.cancel()
    elif isinstance(result, StopIteration):  # no future takes it
        future.set_exception(RuntimeError(f"the work raised {result!r}"))
    elif isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
