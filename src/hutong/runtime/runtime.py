"""The runtime: makes contexts, owns the loops and threads they run on, and ends all of it.

Strategy: the loop it is made on is the first; contexts are dealt round robin over it and over `event_loops - 1` others,
which run in threads of their own. Blocking work and workers share one pool of threads, or one by name. Deployments
change on the first loop alone, so they need no lock.

Knows no messaging.
"""

import asyncio
import concurrent.futures
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.contexts.loop_context import LoopContext
from hutong.runtime.contexts.workers import MultiWorkerContext, WorkerContext
from hutong.runtime.loops.loops import EventLoop, ThreadedEventLoop
from hutong.runtime.threads.pools import WORKER_THREADS, SharedPools, WorkerPool
from hutong.runtime.verticles import (
    DEFAULT_OPTIONS,
    Deployment,
    DeploymentOptions,
    Deployments,
    HighAvailability,
    Verticle,
    check_deployable,
)
from hutong.runtime.watch.blocked import DEFAULT_BLOCKED_LIMITS, BlockedLimits, BlockedThreads

T = TypeVar("T")
EVENT_LOOPS_MAX: Final = 1_024
WORK_END_MS_MAX: Final = 10_000  # how long a closing runtime waits for work that blocks; then its threads are left
_POOL_NAME: Final = "hutong-worker"
_CONTEXTS: Final[dict[ContextKind, Callable[..., Context]]] = {
    ContextKind.EVENT_LOOP: LoopContext,
    ContextKind.WORKER: WorkerContext,
    ContextKind.MULTI_WORKER: MultiWorkerContext,
}
_log = logging.getLogger("hutong.runtime")


class RuntimeFigures(NamedTuple):
    """Sizes of a runtime. `queued` is work that waits in contexts: messages, calls and callbacks."""

    contexts: int
    queued: int
    queued_longest: int  # in one context
    worker_threads: int  # of the runtime's own pool, as the next one
    worker_tasks_pending: int


class Runtime:
    """Made on a running loop, which becomes its first; `close` it, or use it in `async with`.

    `exception_handler(context, error)` hears of what handlers raise and no context's own handler took; by default it is
    logged as an error with its traceback. `blocked_limits` are those of the checker of blocked threads; None switches
    it off. Raises ValueError for counts that make no sense.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        event_loops: int = 1,
        worker_threads: int = WORKER_THREADS,
        blocked_limits: BlockedLimits | None = DEFAULT_BLOCKED_LIMITS,
        exception_handler: Callable[[Context, BaseException], None] | None = None,
    ) -> None:
        if not 1 <= event_loops <= EVENT_LOOPS_MAX:
            raise ValueError(f"a runtime has 1 to {EVENT_LOOPS_MAX} event loops, not {event_loops}")
        self.clock = clock = clock or SystemClock()
        self.exception_handler = exception_handler or _log_failure
        self._first = EventLoop.running("loop-0", clock)
        self._pool = WorkerPool(worker_threads, _POOL_NAME, clock=clock)
        self._shared_pools = SharedPools(clock)
        self._others = [ThreadedEventLoop(f"loop-{number}", clock) for number in range(1, event_loops)]
        self.blocked_threads = self._watch(blocked_limits)
        self._loops = [self._first, *self._others]
        self._deal = itertools.cycle(self._loops)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # over what follows
        self._contexts: weakref.WeakKeyDictionary[Context, None] = weakref.WeakKeyDictionary()  # oldest first
        self._kept: set[Context] = set()  # those that must be closed: with hooks, or with a pool by name
        self._ending: list[WorkerPool] = []
        self._is_closed = False
        self._deployments = Deployments(self)
        self.availability: HighAvailability | None = None  # set by a node of a cluster that has it
        self._provided: dict[type, Any] = {}
        self._under_way: set[object] = set()  # changes that no waiter can stop
        self._end: asyncio.Task[None] | None = None

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """All that are starting, running or ending, in the order they began."""
        return self._deployments.all()

    @property
    def figures(self) -> "RuntimeFigures":
        """The sizes of this moment; from any thread."""
        with self._lock:
            queues = [len(context.queue) for context in self._contexts]
        pool = self._pool
        return RuntimeFigures(len(queues), sum(queues), max(queues, default=0), pool.threads, pool.pending)

    def provide(self, kind: type[T], value: T) -> None:
        """Let verticles find something by its type: those that another node has made get nothing else."""
        self._provided[kind] = value

    def provided(self, kind: type[T]) -> T:
        """The value that was provided as this type, as the bus of a node is (`EventBus`). Raises UsageError."""
        if kind not in self._provided:
            raise UsageError(f"this runtime provides no {kind.__name__}: runtime.provide(...) comes first.")
        found: T = self._provided[kind]
        return found

    @property
    def wheel(self) -> TimerWheel:
        """The timers of the first loop; only to be touched on its thread."""
        return self._first.wheel

    def context(
        self,
        kind: ContextKind = ContextKind.EVENT_LOOP,
        *,
        name: str = "",
        pool: str | None = None,
        pool_threads: int = WORKER_THREADS,
        loop: int | None = None,
    ) -> Context:
        """A new context; from any thread. `name` appears in logs and warnings.

        It is on the loop with the number `loop` (0 is the one the runtime was made on), by default the one whose turn
        it is.

        `pool` names a pool of threads that contexts with the same name share, instead of the runtime's own; the first
        of them says how many threads it has, and it ends when the last of them is closed. Raises RuntimeError once the
        runtime is closed, ValueError for a loop that there is not.
        """
        if loop is not None and not 0 <= loop < len(self._loops):
            raise ValueError(f"there is no event loop {loop}: the runtime has {len(self._loops)}, the first is 0")
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the runtime is closed: it makes no more contexts")
            # Under the lock with the closed check: a closing runtime sees this context or refuses it.
            number = next(self._numbers)
            home = next(self._deal) if loop is None else self._loops[loop]
            threads = self._pool if pool is None else self._shared_pools.acquire(pool, pool_threads)
            context = _CONTEXTS[kind](name or f"context-{number}", home, threads, self)
            self._contexts[context] = None
            # It must be closed, or the pool's count of users would never reach zero.
            if pool is not None:
                self._kept.add(context)
        return context

    async def deploy(self, make: Callable[[], Verticle], options: DeploymentOptions = DEFAULT_OPTIONS) -> Deployment:
        """Make the verticle (once for each instance) and start it; returns when all instances have started.

        Deployed from a handler of another verticle it becomes that one's child, and is undeployed before it. Raises
        what `start` raised; then everything that had started was stopped. Raises UsageError for an instance instead of
        what makes one. Who stops waiting does not stop it.

        With `ha` it belongs to the cluster, where there is one with high availability: see docs/availability.md.
        """
        # Checked on the caller's loop; the undeploy of all runs on the first, after this is set.
        if self._end is not None:
            raise RuntimeError("the runtime is closing: it deploys nothing more")
        check_deployable(make, options)
        # Without a cluster it is deployed as any other, so a program is the same on a node alone.
        if options.ha and self.availability is not None:
            return await self._on_first_loop(self.availability.deploy(make, options))
        context = current_context()
        parent = self._deployments.of_context(context)
        return await self._on_first_loop(self._deployments.deploy(make, options, parent))

    async def undeploy(self, deployment: Deployment) -> None:
        """Undeploy its children, stop its instances, run their close hooks. A second call does nothing.

        Raises the first thing that a `stop` raised, once all is ended. A handler may undeploy its own verticle: it is
        cancelled where it waits for that. One with `ha` is undeployed wherever it runs.
        """
        if self.availability is not None and self.availability.has(deployment):
            await self._on_first_loop(self.availability.undeploy(deployment))
        else:
            await self.undeploy_here(deployment)

    async def undeploy_here(self, deployment: Deployment) -> None:
        """For high availability: end this deployment, which does not end what it is one of."""
        await self._on_first_loop(self._deployments.undeploy(deployment))

    async def close(self) -> None:
        """Undeploy all, close all contexts, end all threads. A second call waits for the first."""
        await self._on_first_loop(self._close_once())

    async def __aenter__(self) -> "Runtime":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def failed(self, context: Context, error: BaseException) -> None:
        """For contexts: a handler raised, and nobody else wants to know."""
        self.exception_handler(context, error)

    def keep(self, context: Context) -> None:
        """For contexts: do not forget it before it is closed."""
        with self._lock:
            self._kept.add(context)

    def forget(self, context: Context) -> None:
        """For contexts: it has no hooks any more. One with a pool by name is kept all the same, as a user of it."""
        if context.pool is self._pool:
            with self._lock:
                self._kept.discard(context)

    async def closed(self, context: Context) -> None:
        """For contexts: it has ended; its pool goes with its last user."""
        with self._lock:
            self._kept.discard(context)
            self._contexts.pop(context, None)
        # Its threads may still run work, so they are joined when the runtime closes.
        if context.pool is not self._pool and self._shared_pools.release(context.pool):
            self._ending.append(context.pool)

    async def _on_first_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for it, without that the waiter's end is its end; then what it raises is logged."""
        first = self._first.loop
        waited: asyncio.Future[T]
        future: asyncio.Future[T] | concurrent.futures.Future[T]
        # From another loop the result crosses threads, by a concurrent future.
        if asyncio.get_running_loop() is first:
            waited = future = first.create_task(coroutine)
        else:
            future = asyncio.run_coroutine_threadsafe(coroutine, first)
            waited = asyncio.wrap_future(future)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        try:
            # A cancelled waiter must not leave a verticle half deployed.
            return await asyncio.shield(waited)
        except asyncio.CancelledError:
            future.add_done_callback(_log_unheard)
            waited.add_done_callback(_heard)
            raise

    async def _close_once(self) -> None:
        if self._end is None:
            self._end = self._first.loop.create_task(self._close())
        await asyncio.shield(self._end)

    async def _close(self) -> None:
        for error in await self._deployments.undeploy_all():
            _log.error("a verticle did not stop cleanly: %s", error, exc_info=error)
        with self._lock:
            self._is_closed = True
        # Asked anew each time: a close hook may close other contexts.
        while (context := self._open_context()) is not None:
            await context.close()
        await self._end_pools()
        if self.blocked_threads is not None:
            self.blocked_threads.stop()
        for loop in self._others:
            # Python cannot end a thread that blocks; the process may still exit.
            if not await loop.end(WORK_END_MS_MAX):
                _log.error("%s is blocked by a handler; it is left behind", loop.name)
        self._first.stop()

    def _watch(self, limits: BlockedLimits | None) -> BlockedThreads | None:
        if limits is None:
            return None
        checker = BlockedThreads(
            self.clock, [self._first, *self._others], lambda: (self._pool, *self._shared_pools), limits
        )
        checker.start()
        return checker

    def _open_context(self) -> Context | None:
        with self._lock:
            return next(iter(self._contexts), None)

    async def _end_pools(self) -> None:
        for pool in (*self._ending, self._pool):
            pool.begin_close()
            # Joining blocks, so it is done off the loop.
            if pool.threads and not await asyncio.to_thread(pool.close, WORK_END_MS_MAX):
                _log.error("work on %s has not ended within %d ms; it is left behind", pool.name, WORK_END_MS_MAX)


def _log_failure(context: Context, error: BaseException) -> None:
    _log.error("a handler of %s failed: %s", context.name, error, exc_info=error)


def _log_unheard(future: "asyncio.Future[Any] | concurrent.futures.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.error("the caller has gone, and what it asked for failed: %s", error, exc_info=error)


def _heard(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
