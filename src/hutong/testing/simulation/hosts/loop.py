"""An asyncio event loop in virtual time: one for each simulated process.

Strategy: the world calls `iterate` when something is due. An iteration runs what was ready, then what arrived and the
timers that are due, these in an order that the seed draws: a real loop's depends on the kernel. Callbacks of
`call_soon` keep their order, because asyncio documents it and code may rely on it.

Timers have whole milliseconds, rounded up, as uvloop's do. A loop whose process was killed ignores everything: what a
dying coroutine still asks for has no effect, as after SIGKILL.

Knows nothing of the network: `SimNetwork` opens connections.
"""

import asyncio
import contextlib
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
_MILLISECOND_US: Final = 1_000
_EXECUTOR_S_MAX: Final = 0.005


class ArrivalSource(Protocol):
    """Something that bytes or results arrive at: a connection, a listening socket, a worker."""

    def arrived(self) -> None:
        """Handle what has arrived, on the loop."""
        ...


class LoopHome(Protocol):
    """The process of a loop."""

    @property
    def local_us(self) -> int:
        """The time of this process's monotonic clock."""
        ...

    def wants_to_run(self) -> None:
        """The loop has something to do now."""
        ...

    def failed(self, message: str, error: BaseException | None) -> None:
        """Code on the loop raised what nobody handled."""
        ...

    def open_connection(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> "asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]]": ...

    def resolve(self, host: str | None, port: int) -> list[tuple[Any, Any, int, str, tuple[str, int]]]: ...


class SimLoop(asyncio.AbstractEventLoop):
    """Only what a node and its clients use of a loop; the rest raises NotImplementedError."""

    def __init__(self, home: LoopHome, random: Random) -> None:
        self._home = home
        self._random = random
        self._ready: deque[asyncio.Handle] = deque()
        self._arrived: list[ArrivalSource] = []
        self._timers: list[tuple[int, float, int, asyncio.TimerHandle]] = []
        self._timers_total = 0
        self._tasks: dict[int, asyncio.Task[Any]] = {}  # in the order they were made
        self._is_closed = False

    # -- the world's side

    @property
    def has_work(self) -> bool:
        """True while the next iteration has something to run, timers aside."""
        return bool(self._ready or self._arrived)

    def next_timer_us(self) -> int | None:
        """The time of the earliest timer, by the process's own clock."""
        while self._timers and self._timers[0][3].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def has_arrived(self, source: ArrivalSource) -> None:
        """Let the source handle what arrived, in the next iteration."""
        # Segments and results may still be on their way to a process that was killed.
        if not self._is_closed:
            self._arrived.append(source)
            self._home.wants_to_run()

    def iterate(self) -> int:
        """Run what is due; returns how many callbacks that were."""
        now_us = self._home.local_us
        # Taken first: what these callbacks make ready waits for the next iteration, as in asyncio.
        handles, self._ready = self._ready, deque()
        arrived, self._arrived = self._arrived, []
        late: list[Callable[[], None]] = [source.arrived for source in arrived]
        timers = self._timers
        while timers and timers[0][0] <= now_us:
            late.append(partial(_run_unless_cancelled, heapq.heappop(timers)[3]))
        if len(late) > 1:
            self._random.shuffle(late)
        asyncio._set_running_loop(self)
        try:
            for handle in handles:
                _run_unless_cancelled(handle)
            for callback in late:
                # As asyncio guards each callback: one that fails is a failure of its process, and others go on.
                try:
                    callback()
                except Exception as error:  # noqa: BLE001
                    self.call_exception_handler({"message": "a result or bytes were not handled", "exception": error})
        finally:
            asyncio._set_running_loop(None)
        return len(handles) + len(late)

    def kill(self) -> None:
        """The process is gone: no callback runs any more, and what its coroutines still do has no effect."""
        self._is_closed = True
        self._ready.clear()
        self._arrived.clear()
        self._timers.clear()
        # Until none is left: the last words of one may begin others.
        while self._tasks:
            task = self._tasks.pop(next(iter(self._tasks)))
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            # Closed here, in order: the garbage collector would do it at some other moment in each run.
            if coroutine is not None:
                with contextlib.suppress(BaseException):
                    coroutine.close()

    # -- asyncio's side

    def time(self) -> float:
        return self._home.local_us / 1_000_000

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._ready.append(handle)
            self._home.wants_to_run()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed:
            # Rounded up: a timer that fires early would make code wait again, for nothing.
            due_us = -(-round(when * 1_000_000) // _MILLISECOND_US) * _MILLISECOND_US
            self._timers_total += 1
            heapq.heappush(self._timers, (due_us, self._random.random(), self._timers_total, timer))
            self._home.wants_to_run()
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's timers call this; a cancelled one is passed over when it is due."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        key = id(task)
        self._tasks[key] = task
        # Kept until it is done, as nobody else may keep it; a kill closes what is left.
        task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_closed:
            self._home.failed(str(context.get("message")), context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        """Do the work after a drawn time, on the loop: other parts have workers of their own (`offload.py`)."""
        future = self.create_future()
        self.call_later(_EXECUTOR_S_MAX * self._random.random(), _perform, future, partial(func, *args))
        return future

    # -- connections

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """`fd` is a listening socket of `SimNetwork`."""
        fd.watch(lambda: callback(*args))

    def remove_reader(self, fd: Any) -> bool:
        return bool(fd.watch(None))

    async def getaddrinfo(  # type: ignore[override]
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[tuple[Any, Any, int, str, tuple[str, int]]]:
        return self._home.resolve(host, port)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: Any, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        made: tuple[asyncio.Transport, asyncio.BaseProtocol] = await sock.attach(self, protocol_factory())
        return made

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._home.open_connection(protocol_factory, host, port)


def _perform(future: "asyncio.Future[Any]", work: Callable[[], Any]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001  # the contract of an executor: who waits gets it
        future.set_exception(error)


def _run_unless_cancelled(handle: asyncio.Handle) -> None:
    # One that ran before it in the same iteration may have cancelled it.
    if not handle.cancelled():
        handle._run()
