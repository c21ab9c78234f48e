"""The only door to threads: blocking work goes out, its result comes back on the loop.

Strategy: a fixed set of threads reads one bounded queue. Neither futures nor executors: a submission costs one queue
entry and one `call_soon_threadsafe`, which counts when every group commit passes here.

Knows nothing of what the work does. Work that must keep its order is the caller's to submit one by one.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from hutong.foundation.errors import LimitExceeded

T = TypeVar("T")
PENDING_WORK_MAX = 10_000

Job = tuple[Callable[[], object], Callable[[object], None]]


class Offload(Protocol):
    """Where blocking work is done."""

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """Run `work` on a worker, then `then` on the loop with its result or with what it raised.

        Raises LimitExceeded when too much work is pending already, RuntimeError once closed.
        """
        ...


class ThreadOffload:
    """Worker threads named `name-0`, `name-1`... that live until `close`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, workers: int, name: str, pending_max: int = PENDING_WORK_MAX
    ) -> None:
        self._loop = loop
        self._pending_max = pending_max
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = False
        # Daemon threads, so that a process whose owner failed to close still ends; `close` is what ends them in order.
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        if self._closed:
            raise RuntimeError("the offload is closed")
        if self._jobs.qsize() >= self._pending_max:
            raise LimitExceeded("pending_work_max", self._pending_max)
        self._jobs.put((work, then))  # type: ignore[arg-type]  # one queue for results of every type

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocks; results still reach the loop if it runs on."""
        if self._closed:
            return
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, then = job
            result: object
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  # a supervisor: whatever it is, the submitter is told
                result = error
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(then, result)
            del job, work, then, result  # an idle worker holds no buffers of its last job


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

    def settle(result: T | BaseException) -> None:
        if future.done():
            return  # the waiter was cancelled; the work itself cannot be
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    offload.submit(work, settle)
    return await future
