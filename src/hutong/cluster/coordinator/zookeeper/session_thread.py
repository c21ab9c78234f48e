"""The worker thread of a connection with ZooKeeper, and the ways between it and the loop.

Strategy: one thread, so all that is submitted happens in one order; a result comes back on the loop.

Knows nothing of ZooKeeper.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import settle_future
from hutong.runtime.threads.offload import ThreadOffload

_THREAD_NAME: Final = "zookeeper"

T = TypeVar("T")


class SessionThread:
    """Made on the running loop, and closed there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._offload = ThreadOffload(self._loop, 1, _THREAD_NAME)
        self._is_closing = False

    def submit(self, work: Callable[[], T], then: "Callable[[T | BaseException], None] | None" = None) -> None:
        """Do the work on the thread, then `then` on the loop with its outcome; from any thread."""
        self._offload.submit(work, _raise if then is None else then)

    def submit_later(self, delay_ms: int, work: Callable[[], None]) -> None:
        """Submit the work after a while, unless this is closing by then. On the worker thread."""

        def submit() -> None:
            if not self._is_closing:
                self.submit(work)

        self.post(partial(self._loop.call_later, delay_ms / 1_000, submit))

    def post(self, callback: Callable[[], object]) -> None:
        """Call back on the loop, in the order of these calls. On the worker thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    async def done(self, work: Callable[[], T]) -> T:
        """Do the work on the thread, and wait for its outcome."""
        future: asyncio.Future[T] = self._loop.create_future()
        self.submit(work, partial(_settle, future))
        return await future

    async def close(self, last: Callable[[], None]) -> None:
        """Do `last` behind all that was submitted, and end the thread."""
        self._is_closing = True
        await self.done(last)
        self._offload.close()


def _settle(future: "asyncio.Future[T]", outcome: T | BaseException) -> None:
    if isinstance(outcome, BaseException) and not isinstance(outcome, HutongError):
        if not future.done():
            future.set_exception(outcome)
    else:
        settle_future(future, outcome)


def _raise(outcome: object) -> None:
    """Let an error of ours reach the loop's handler."""
    if isinstance(outcome, BaseException):
        raise outcome
