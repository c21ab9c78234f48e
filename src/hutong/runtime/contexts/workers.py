"""Contexts whose handlers run on the threads of a pool, where they may block.

Strategy: a worker context is one task in its pool while something is queued, none while idle, so any number of contexts
share a few threads; after PASS_US_MAX a pass ends and the context goes to the end of the pool's queue. A multi-threaded
worker context is a task in the pool for each handler. A coroutine needs its steps one at a time, so there each has a
worker context of its own behind it.

Ordered blocking work (`Context.execute_blocking`) is such a context as well: one of its own for an event loop's
context, and for a worker context that context itself.

What a coroutine may await here: see `worker_loop`.
"""

import threading
from asyncio import iscoroutine
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, ClassVar, Final, TypeVar

from hutong.foundation.errors import LimitExceeded
from hutong.runtime.contexts.contexts import CURRENT, PASS_MAX, Context, ContextKind, ContextServices
from hutong.runtime.contexts.coroutines import Coroutines
from hutong.runtime.contexts.serial_context import SerialContext
from hutong.runtime.contexts.worker_loop import WorkerLoop
from hutong.runtime.loops.loops import EventLoop
from hutong.runtime.threads.pools import WorkerPool

T = TypeVar("T")
PASS_US_MAX: Final = 10_000  # after which a pass begins no further handler


class WorkerContext(SerialContext):
    """Handlers run one at a time, in order, each on some thread of the pool."""

    __slots__ = ("_clock", "_lock", "_threads", "_worker_loop")

    kind: ClassVar[ContextKind] = ContextKind.WORKER

    def __init__(self, name: str, home: EventLoop, pool: WorkerPool, services: ContextServices) -> None:
        super().__init__(name, home, pool, services)
        self._clock = services.clock
        self._lock = threading.Lock()  # over the step from idle to scheduled: two at once would break the order
        self._threads: set[int] = set()  # where handlers of this context run now: at most one
        self._worker_loop = WorkerLoop(self)  # type: ignore[abstract]  # what it lacks is refused with a sentence
        self._coroutines = Coroutines(self._worker_loop, self)

    @property
    def is_current(self) -> bool:
        return CURRENT.get() is self and threading.get_ident() in self._threads

    @property
    def ordered_work(self) -> Context:
        return self

    def run(self, handler: Callable[[T], object], argument: T) -> None:
        if self.pool.is_closed and not self.is_scheduled:
            raise RuntimeError(f"the worker pool {self.pool.name} is closed")
        super().run(handler, argument)

    def schedule(self) -> None:
        with self._lock:
            if self.is_scheduled:
                return
            self.is_scheduled = True
        try:
            self.pool.execute(self._run_pass, is_bounded=False)  # one task at a time: QUEUED_MAX bounds what it does
        except (RuntimeError, LimitExceeded):  # closed, or without any thread: the caller is refused
            self.queue.clear()
            self.is_scheduled = False
            if not self._is_closed:
                raise

    def _run_pass(self) -> None:
        self._variables.run(self._run_handlers)
        self.is_scheduled = False  # not before the variables are left: the next pass enters them
        if self.queue:
            with suppress(RuntimeError):  # the pool was closed meanwhile
                self.schedule()

    def _run_handlers(self) -> None:
        thread_id, popleft = threading.get_ident(), self.queue.popleft
        self._threads.add(thread_id)
        try:
            left, end_us = PASS_MAX, self._clock.monotonic_us() + PASS_US_MAX
            while self.queue and left:
                begun_us = self.pool.begun_us[thread_id] = self._clock.monotonic_us()
                if begun_us >= end_us:
                    return
                left -= 1
                handler, argument = popleft()
                try:
                    result = handler(argument)
                except BaseException as error:  # noqa: BLE001  # a supervisor: the other handlers still run
                    self.fail(error)
                    continue
                if result is not None and iscoroutine(result):
                    self._coroutines.start(result)
                del handler, argument, result  # an idle context holds nothing of its last handler
        finally:
            self._threads.discard(thread_id)


class OrderedWork:
    """The context for ordered blocking work of a context whose handlers run elsewhere, made on first use."""

    __slots__ = ("_context", "_lock", "_making")

    def __init__(self, name: str, home: EventLoop, pool: WorkerPool, services: ContextServices) -> None:
        self._making = (name, home, pool, services)
        self._lock = threading.Lock()
        self._context: WorkerContext | None = None

    @property
    def context(self) -> WorkerContext:
        with self._lock:
            if self._context is None:
                self._context = WorkerContext(*self._making)
            return self._context


class MultiWorkerContext(Context):
    """Handlers run on threads of the pool, any number at a time; one handler's coroutine takes one step at a time."""

    __slots__ = ("_is_last", "_making", "_ordered", "_strands", "_threads")

    kind: ClassVar[ContextKind] = ContextKind.MULTI_WORKER

    def __init__(self, name: str, home: EventLoop, pool: WorkerPool, services: ContextServices) -> None:
        super().__init__(name, home, pool, services)
        self._making = (name, home, pool, services)
        self._ordered = OrderedWork(name, home, pool, services)
        self._strands: set[_Strand] = set()
        self._is_last = False  # coroutines that begin now are cancelled at their first wait
        self._threads: set[int] = set()

    @property
    def is_current(self) -> bool:
        return CURRENT.get() is self and threading.get_ident() in self._threads

    @property
    def ordered_work(self) -> Context:
        return self._ordered.context

    def run(self, handler: Callable[[T], object], argument: T) -> None:
        if self.pool.is_closed:
            raise RuntimeError(f"the worker pool {self.pool.name} is closed")
        super().run(handler, argument)

    def drive(self, coroutine: Coroutine[Any, Any, object]) -> None:
        strand = _Strand(self)
        self._strands.add(strand)  # before it begins, for it may end at once, on another thread
        strand.queue.append((strand.begin_coroutine, coroutine))
        strand.schedule()  # not `run`: a pool that is closing still finishes what it has

    def schedule(self) -> None:
        try:
            self.pool.execute(self._run_pass, is_bounded=False)  # `is_scheduled` stays false: one task a handler
        except (RuntimeError, LimitExceeded):  # as for one at a time
            self.queue.clear()
            if not self._is_closed:
                raise

    @property
    def is_busy(self) -> bool:
        return len(self.queue) > 0 or len(self._strands) > 0

    async def cancel_coroutines(self, *, is_last: bool = False) -> None:
        self._is_last = is_last
        for strand in list(self._strands):
            await strand.cancel_coroutines(is_last=is_last)

    def _run_pass(self) -> None:
        self._variables.copy().run(self._run_handler)

    def _run_handler(self) -> None:
        thread_id = threading.get_ident()
        self._threads.add(thread_id)
        try:
            handler, argument = self.queue.popleft()
            result = handler(argument)
            if result is not None and iscoroutine(result):
                self.drive(result)
        except BaseException as error:  # noqa: BLE001  # a supervisor: whatever it is, the other handlers still run
            self.fail(error)
        finally:
            self._threads.discard(thread_id)


class _Strand(WorkerContext):
    """The driver of one coroutine of a multi-threaded worker context, in a copy of the variables of its handler."""

    __slots__ = ("_owner",)

    def __init__(self, owner: MultiWorkerContext) -> None:
        super().__init__(*owner._making)
        self._owner = owner
        self._threads = owner._threads
        self._variables = copy_context()
        if owner._is_last:
            self._coroutines.close()

    async def begin_coroutine(self, coroutine: Coroutine[Any, Any, object]) -> None:
        try:
            await coroutine
        finally:
            self._owner._strands.discard(self)

    def fail(self, error: BaseException) -> None:
        self._owner.fail(error)
