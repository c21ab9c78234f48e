"""An event loop on a thread of its own, which takes work from other threads and closes with everything on it.

Strategy: the thread runs one loop until `close`; work arrives as coroutines and leaves as futures that any thread may
wait for. Closing cancels what is left, so that nothing of it outlives the thread.

Knows nothing of what runs there.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from hutong.runtime.loops.loops import new_event_loop

T = TypeVar("T")


class LoopThread:
    """Begun by `__init__`, ended by `close`. A daemon, so that a process whose owner forgot it still ends."""

    def __init__(self, name: str) -> None:
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._loop = self._started.result()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin the coroutine on the loop. Raises RuntimeError once closed."""
        if not self.is_running:
            work.close()
            raise RuntimeError("the loop's thread has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, or what it raises. An interrupted wait cancels it.

        Raises RuntimeError on the loop's own thread, which would wait for itself.
        """
        if self._is_here:
            work.close()
            raise RuntimeError(
                "this runs on the node's own thread (a handler of its bus does), which would wait for itself: "
                "write `await node.aio...`"
            )
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        """The result of a function called on the loop, from any thread."""
        if self._is_here:
            return work()

        async def called() -> T:
            return work()

        return self.run(called())

    def close(self) -> None:
        """Cancel what runs, end the loop and the thread. Safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._stay())

    async def _stay(self) -> None:
        self._stopping = asyncio.Event()
        self._started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
