"""The event loop that coroutines of a worker context see: its callbacks are that context's handlers.

Strategy: asyncio's own tasks, futures, locks, queues and time-outs ask nothing of their loop but `call_soon`,
`call_later` and `create_future`. So a loop that queues callbacks in the context, and lets a real loop tell the time,
makes them right on threads: each step of a coroutine is one handler of the context, on one thread of its pool, after
the one before and never at the same time.

A coroutine in a worker context may therefore await: replies of the bus, `execute_blocking`, `Context.call`,
`asyncio.sleep`, `timeout`, `wait_for`, `gather`, `TaskGroup`, `to_thread`; and events, locks, queues, tasks and futures
made in the same context. It may not open sockets, processes or signal handlers, which are an event loop's: that raises
RuntimeError and says so. A future or lock of another loop raises asyncio's own RuntimeError ("attached to a different
loop"); `await context.call(...)` on a context of that loop is the way to it.

Knows nothing of pools and threads: the context does.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from hutong.runtime.contexts.contexts import Context

T = TypeVar("T")
Callback = Callable[..., object]


class WorkerLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as one worker context is. Any thread may use it."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._step = self._take_step
        self._timed: dict[int, asyncio.TimerHandle] = {}  # id of our handle -> the real loop's; on that loop's thread

    def call_soon(  # type: ignore[override]  # arguments as every loop takes them
        self, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._queue(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        # Real time is the loop's: timers of asyncio are for its own thread alone.
        self._context.loop.call_soon_threadsafe(self._arm, handle)
        return handle

    def time(self) -> float:
        return self._context.loop.time()

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(  # type: ignore[override]  # awaitable, as that of every loop
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        work = partial(func, *args)
        # A given executor has threads of its own; the default one is the context's pool.
        if executor is not None:
            return asyncio.wrap_future(executor.submit(work), loop=self)
        return self.create_task(self._context.execute_blocking(work, ordered=False))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._context.fail(context.get("exception") or RuntimeError(context["message"]))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        """None of its own; anyio asks."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _queue(self, handle: asyncio.Handle) -> None:
        context = self._context
        context.queue.append((self._step, handle))
        if not context.is_scheduled:
            with suppress(RuntimeError):  # the pool has been closed, and what still waits ends with it
                context.schedule()

    def _take_step(self, handle: asyncio.Handle) -> None:
        """On a thread of the pool. Only a coroutine's steps see this loop: a plain handler is free to run one."""
        # It was queued before it was cancelled.
        if handle.cancelled():
            return
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def _arm(self, handle: asyncio.TimerHandle) -> None:
        # A short timer may be cancelled before the loop has seen it.
        if not handle.cancelled():
            self._timed[id(handle)] = self._context.loop.call_at(handle.when(), self._due, handle)

    def _due(self, handle: asyncio.TimerHandle) -> None:
        del self._timed[id(handle)]
        self._queue(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio's handle."""
        self._context.loop.call_soon_threadsafe(self._disarm, handle)

    def _disarm(self, handle: asyncio.TimerHandle) -> None:
        timed = self._timed.pop(id(handle), None)
        if timed is not None:
            timed.cancel()


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: WorkerLoop, *args: object, **options: object) -> NoReturn:
        raise RuntimeError(
            f"{name}() is not for {self._context!r}: sockets, processes, signals and a loop's own life belong to an "
            "event loop; do it in a context of one, and wait here with `await that_context.call(...)`"
        )

    refuse.__name__ = name
    return refuse


for _name in vars(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(WorkerLoop):
        setattr(WorkerLoop, _name, _refusal(_name))
