"""Runs work on shared entries on the bus's loop, for callers in any context.

Knows no counters, locks and maps.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from hutong.bus.shared.figures import SharedFigures
from hutong.bus.shared.port import EntryStore
from hutong.bus.waiting.context_state import ContextState
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import HutongError

T = TypeVar("T")
Work: TypeAlias = Callable[[EntryStore], Coroutine[Any, Any, T]]


class SharingBus(Protocol):
    """The services of a bus for what its nodes share."""

    def callers_state(self) -> ContextState:
        """The state of the caller's context."""

    def on_home_loop(self, work: Callable[[], None]) -> None:
        """Do it soon on the loop of the bus."""


class SharedWork:
    """Made once for a bus. `run` may be called from any thread."""

    def __init__(self, bus: SharingBus, store: EntryStore) -> None:
        self.store = store  # replaced when the bus joins a cluster
        self._bus = bus
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself keeps only weak references
        # By path, for as long as somebody has or awaits it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._operations_total = 0
        self._failed_total = 0
        self.locks_held = 0
        self.locks_lost_total = 0

    @property
    def figures(self) -> SharedFigures:
        """The figures of this moment. On the loop."""
        under_way = len(self._tasks)
        return SharedFigures(
            self._operations_total, self._failed_total, under_way, self.locks_held, self.locks_lost_total
        )

    def promise(self) -> Promise[Any]:
        """A promise of the caller's context."""
        return self._bus.callers_state().promise()

    def run(self, work: Work[T], unwanted: Callable[[T], object] | None = None) -> Promise[T]:
        """Begin the work, and promise its outcome. `unwanted` gets one that nobody waits for any more."""
        # Of the caller's context, wherever that runs; only the work itself is on the bus's loop.
        promise: Promise[T] = self.promise()
        self._bus.on_home_loop(partial(self._begin, work, promise, unwanted))
        return promise

    def turn(self, path: str) -> asyncio.Lock:
        """The turn of those in this process that change the entry. On the loop."""
        turn = self._turns.get(path)
        if turn is None:
            turn = self._turns[path] = asyncio.Lock()
        return turn

    def on_loop(self, work: Callable[[], None]) -> None:
        """Do it soon on the loop of the store."""
        self._bus.on_home_loop(work)

    async def close(self) -> None:
        """End what is under way; who waits for it hears of a failure."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Work[T], promise: Promise[T], unwanted: Callable[[T], object] | None) -> None:
        self._operations_total += 1
        task = asyncio.get_running_loop().create_task(work(self.store))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, promise, unwanted))

    def _ended(self, promise: Promise[T], unwanted: Callable[[T], object] | None, task: "asyncio.Task[T]") -> None:
        self._tasks.discard(task)
        # The bus has been closed.
        if task.cancelled():
            promise.cancel()
            return
        error = task.exception()
        if error is None:
            # Nobody waits any more: a lock, say, must then be given back.
            if not promise.resume(task.result()) and unwanted is not None:
                unwanted(task.result())
            return
        self._failed_total += 1
        # A fault of ours too: otherwise the caller would wait for ever.
        if not promise.fail(error) and not isinstance(error, HutongError):  # type: ignore[arg-type]
            raise error
