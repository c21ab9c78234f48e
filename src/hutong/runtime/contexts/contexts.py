"""Contexts: queues of handlers. The handlers of one context run in order, on its own threads.

Strategy: a context is a queue of (handler, argument) pairs and one scheduled pass, however much is queued; a pass takes
at most PASS_MAX of them, so that sockets and other contexts have theirs. Nothing is locked on the way in:
`deque.append` is atomic. A pass that ends first clears `is_scheduled` and then checks the queue once more. An append
before that check is found by it; an append after it finds the context unscheduled and schedules it.

`current_context` is a context variable, set once in the variables that a context's passes run in: what a handler
starts (tasks, `call_soon`, `call_later`) inherits it, and setting it costs nothing per handler. Other context variables
that a plain handler sets therefore stay set in its context; a coroutine handler has a copy of its own.

The variables of a caller are carried, as asyncio does it, by `call`, `execute_blocking`, timers and the bus: the
handler runs in a copy of its context's variables with the caller's over them (`enter`). A caller without variables of
its own costs one copy of them, and its handlers run as described above. `run` carries none: it is the way of internal
steps, whose caller is not the one on whose behalf they are made.

This module has what all contexts share. `loop_context` and `workers` have the three kinds, `runtime` makes them.
Knows no bus and no verticles.
"""

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import Enum
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, overload

from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded
from hutong.runtime.loops.loops import EventLoop
from hutong.runtime.threads.offload import perform, settle
from hutong.runtime.threads.pools import PENDING_WORK_MAX, WorkerPool

if TYPE_CHECKING:
    from hutong.runtime.contexts.context_timers import ContextTimer

T = TypeVar("T")
PASS_MAX: Final = 256  # handlers in one pass: some hundred microseconds when they are short
QUEUED_MAX: Final = 1_000_000  # handlers waiting in one context
ANSWER_MS_MAX: Final = 60_000  # how long a handler may hold up the close of its context: as long as a worker may take

Queued = tuple[Callable[[Any], object], Any]
Hook = Callable[[], object]  # what it returns is awaited, if it can be

CURRENT: Final[contextvars.ContextVar["Context | None"]] = contextvars.ContextVar("hutong_context", default=None)
current_context: Final[Callable[[], "Context | None"]] = CURRENT.get
"""The context that the caller belongs to, or None. Costs one variable's look-up.

It follows a handler into what the handler starts: tasks, timers, `execute_blocking`, `asyncio.to_thread`.
"""


def carried_variables() -> contextvars.Context | None:
    """A copy of the caller's context variables, for a handler that runs elsewhere; None if it has none but ours."""
    variables = contextvars.copy_context()
    return variables if len(variables) > (CURRENT.get() is not None) else None


class ContextKind(Enum):
    """The threads on which handlers run."""

    EVENT_LOOP = "event loop"  # on the thread of one loop, one at a time; they must not block
    WORKER = "worker"  # on threads of a pool, one at a time, in order; they may block
    MULTI_WORKER = "multi-threaded worker"  # on threads of a pool, any number at a time


class ContextServices(Protocol):
    """The services of the runtime that its contexts use."""

    clock: Clock

    def failed(self, context: "Context", error: BaseException) -> None:
        """A handler raised, and the context has no exception handler of its own, or that raised too."""

    def keep(self, context: "Context") -> None:
        """The context has something to end: it is not to be forgotten before it is closed."""

    def forget(self, context: "Context") -> None:
        """It has nothing to end any more."""

    async def closed(self, context: "Context") -> None:
        """The context has ended; what it used may go."""


class Context(ABC):
    """A queue of handlers and the threads they run on. Made by `Runtime.context`, never by hand.

    `loop` is the event loop that the context was dealt to: the one its handlers run on, or, for workers, the one that
    keeps its timers. `exception_handler` is called with what its handlers raise.

    `queue` and `is_scheduled` are public, for callers that count nanoseconds. `context.run(handler, argument)` equals

        context.queue.append((handler, argument))
        if not context.is_scheduled:
            context.schedule()

    except that the caller then keeps the bound QUEUED_MAX itself. Nobody but the context takes from the queue or
    sets `is_scheduled`. This holds for every kind of context and from any thread.
    """

    __slots__ = (
        "__weakref__",
        "_hooks",
        "_is_closed",
        "_services",
        "_timers",
        "_variables",
        "exception_handler",
        "home",
        "is_scheduled",
        "loop",
        "name",
        "pool",
        "queue",
    )

    kind: ClassVar[ContextKind]

    def __init__(self, name: str, home: EventLoop, pool: WorkerPool, services: ContextServices) -> None:
        self.name = name
        self.home = home
        self.loop = home.loop
        self.pool = pool  # threads for blocking work, and for a worker's handlers
        self.exception_handler: Callable[[BaseException], None] | None = None
        self.queue: deque[Queued] = deque()
        self.is_scheduled = False
        self._services = services
        self._hooks: list[Hook] = []
        self._timers: dict[ContextTimer, None] = {}  # those that wait
        self._is_closed = False
        self._variables = contextvars.copy_context()
        self._variables.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return f"<{self.kind.value} context {self.name}>"

    @property
    @abstractmethod
    def is_current(self) -> bool:
        """True when the caller belongs to this context and is on its thread."""

    def run(self, handler: Callable[[T], object], argument: T) -> None:
        """Call `handler(argument)` soon, in this context; from any thread, and never before this returns.

        Handlers begin in the order of the calls of each thread. A coroutine that the handler returns is driven by the
        context: it suspends and resumes there, and takes its first step behind the plain handlers of its pass. What is
        raised goes to `exception_handler`, else to the runtime's. Raises LimitExceeded when QUEUED_MAX are waiting,
        and RuntimeError when the threads or the loop of the context have ended.
        """
        if len(self.queue) >= QUEUED_MAX:
            raise LimitExceeded("queued_max", QUEUED_MAX)
        self.queue.append((handler, argument))
        # A race with the end of a pass schedules two, and the second finds an empty queue.
        if not self.is_scheduled:
            self.schedule()

    def run_queued(self) -> None:
        """Run what was appended to `queue`: now where the caller is on the thread of the loop, else soon.

        For callers that are no handlers.
        """
        if not self.is_scheduled:
            self.schedule()

    def enter(self, variables: contextvars.Context, handler: Callable[[T], object], argument: T) -> None:
        """Call `handler(argument)` now, with `variables` over the context's own; drive a coroutine that it returns.

        For handlers of this context.
        """
        self._variables_with(variables).run(self._call_and_drive, handler, argument)

    def _call_and_drive(self, handler: Callable[[T], object], argument: T) -> None:
        result = handler(argument)
        if result is not None and asyncio.iscoroutine(result):
            self.drive(result)

    @abstractmethod
    def drive(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine in this context, in a copy of the present variables. For handlers of this context."""

    def _variables_with(self, carried: contextvars.Context | None) -> contextvars.Context:
        variables = self._variables.copy()
        if carried is not None:
            variables.run(_set_all, carried)
        return variables

    @abstractmethod
    def schedule(self) -> None:
        """Schedule a pass, after an append to `queue` while not `is_scheduled`. Two at once do no harm.

        What comes to a worker context that is closed, when its pool is, is dropped.
        """

    @overload
    async def call(self, function: Callable[[], Awaitable[T]]) -> T: ...

    @overload
    async def call(self, function: Callable[[], T]) -> T: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run a function or a coroutine function in this context, and wait for its result where the caller runs.

        It has the caller's context variables. Raises what it raised, and RuntimeError once the context is closed. Who
        stops waiting does not stop it.
        """
        if self._is_closed:
            raise RuntimeError(f"{self.name} is closed")
        return await self._call(function)

    async def _call(self, function: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        async def perform(_: None) -> None:
            result: object
            try:
                result = function()
                if isawaitable(result):
                    result = await result
            except BaseException as error:  # noqa: BLE001  # whatever it is, the caller gets it
                result = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, future, result)

        variables = carried_variables()
        # Most callers have set no variables, and then no context has to be copied.
        if variables is None:
            self.run(perform, None)
        else:
            self.run(partial(self.enter, variables, perform), None)
        return await future

    async def execute_blocking(self, work: Callable[[], T], *, ordered: bool = True) -> T:
        """Run work that blocks on a thread of the context's pool, and wait for its result without blocking.

        Ordered work of one context is done one piece after the other, in the order of the calls; work that is not may
        go side by side. It has the caller's context variables. Raises what the work raised, LimitExceeded when
        PENDING_WORK_MAX pieces wait already. Who stops waiting stops work that has not begun.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        variables = self._variables_with(carried_variables())
        if ordered:
            context = self.ordered_work
            # Blocking work is slow, so fewer pieces of it may wait than handlers.
            if len(context.queue) >= PENDING_WORK_MAX:
                raise LimitExceeded("pending_work_max", PENDING_WORK_MAX)
            context.run(lambda _: variables.run(_block, self, work, future, loop), None)
        else:
            self.pool.execute(partial(variables.run, _block, self, work, future, loop))
        return await future

    @property
    @abstractmethod
    def ordered_work(self) -> "Context":
        """The context for ordered blocking work."""

    def set_timer(self, delay: float, handler: Callable[[], object]) -> "ContextTimer":
        """Call `handler()` in this context once, `delay` seconds from now or up to a tick (10 ms) later.

        Any thread may set it. It is cancelled when the context is closed. Raises ValueError for less than 0.001.
        """
        from hutong.runtime.contexts.context_timers import ContextTimer

        return ContextTimer(self, self._services.clock, delay, handler, is_periodic=False)

    def set_periodic(self, interval: float, handler: Callable[[], object]) -> "ContextTimer":
        """Call `handler()` in this context every `interval` seconds, first after one interval; else as `set_timer`.

        Calls that are due while the context is busy are not made up for.
        """
        from hutong.runtime.contexts.context_timers import ContextTimer

        return ContextTimer(self, self._services.clock, interval, handler, is_periodic=True)

    def add_close_hook(self, hook: Hook) -> None:
        """Call (and await) `hook()` in this context when it is closed, as it is when its verticle is undeployed.

        The last added runs first; the error of one that fails is reported, and the others run. None runs where a
        handler blocks the context for longer than ANSWER_MS_MAX, which is reported too.
        """
        if self._is_closed:
            raise RuntimeError(f"{self.name} is closed: it takes no more close hooks")
        self._hooks.append(hook)
        self._services.keep(self)

    def remove_close_hook(self, hook: Hook) -> None:
        """Forget a hook; no harm if it is not there, or runs."""
        with suppress(ValueError):
            self._hooks.remove(hook)
        # Without hooks it may be garbage-collected with its last reference.
        if not self._hooks:
            self._services.forget(self)

    async def close(self) -> None:
        """Run the close hooks, cancel timers and coroutines, and release the pool. A second call does nothing.

        Must not be awaited by a coroutine of the same context, which would be cancelled: `Runtime.undeploy` may.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for timer in list(self._timers):
            timer.cancel()
        # A handler that blocks would keep the close waiting for ever.
        if (self._hooks or self.is_busy) and not await self.answers():
            self.fail(RuntimeError(f"{self.name} is blocked by a handler: it is closed without its close hooks"))
        else:
            await self._run_hooks()
            await self.cancel_coroutines(is_last=True)
        await self._services.closed(self)

    async def answers(self) -> bool:
        """Wait until a handler runs here; False after ANSWER_MS_MAX without."""
        try:
            async with asyncio.timeout(ANSWER_MS_MAX / 1_000):
                await self._call(lambda: None)
        except TimeoutError:
            return False
        return True

    async def _run_hooks(self) -> None:
        while self._hooks:
            try:
                await self._call(self._hooks.pop())
            except Exception as error:  # noqa: BLE001  # a supervisor: the other hooks run
                self.fail(error)

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """True while handlers wait or coroutines are under way."""

    @abstractmethod
    async def cancel_coroutines(self, *, is_last: bool = False) -> None:
        """End the coroutines that are under way; returns when they have ended.

        After the last time, those that come later (of handlers that were waiting) are cancelled at their first wait.
        """

    def fail(self, error: BaseException) -> None:
        """Tell of what a handler raised: to `exception_handler`, else (or where that raises too) to the runtime."""
        if self.exception_handler is None:
            self._services.failed(self, error)
            return
        try:
            self.exception_handler(error)
        except Exception as second:  # noqa: BLE001  # a supervisor: `second` has the first as its context
            self._services.failed(self, second)


def _set_all(variables: contextvars.Context) -> None:
    for variable, value in variables.items():
        # The caller's own context must not become the callee's current one.
        if variable is not CURRENT:
            variable.set(value)


def _block(
    context: Context, work: Callable[[], T], future: "asyncio.Future[T]", loop: asyncio.AbstractEventLoop
) -> None:
    """On a thread of the pool: do the work, unless nobody waits for it any more. `context` is for readers of stacks."""
    if not future.cancelled():
        perform(work, partial(settle, future), loop)
