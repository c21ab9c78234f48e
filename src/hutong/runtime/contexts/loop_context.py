"""The context of an event loop: one `call_soon` for each loop iteration, for all queued calls.

Each delivery of the bus passes here.
"""

import threading
from asyncio import iscoroutine
from typing import ClassVar

from hutong.runtime.contexts.contexts import CURRENT, PASS_MAX, Context, ContextKind, ContextServices
from hutong.runtime.contexts.coroutines import Coroutines
from hutong.runtime.contexts.serial_context import SerialContext
from hutong.runtime.contexts.workers import OrderedWork
from hutong.runtime.loops.loops import EventLoop
from hutong.runtime.threads.pools import WorkerPool


class LoopContext(SerialContext):
    """Handlers run one at a time on the thread of `loop`."""

    __slots__ = ("_bound_pass", "_ordered", "_thread_id")

    kind: ClassVar[ContextKind] = ContextKind.EVENT_LOOP

    def __init__(self, name: str, home: EventLoop, pool: WorkerPool, services: ContextServices) -> None:
        super().__init__(name, home, pool, services)
        self._thread_id = home.thread_id
        self._bound_pass = self._run_pass
        self._coroutines = Coroutines(home.loop, self)
        self._ordered = OrderedWork(name, home, pool, services)

    @property
    def is_current(self) -> bool:
        return CURRENT.get() is self and threading.get_ident() == self._thread_id

    @property
    def ordered_work(self) -> Context:
        return self._ordered.context

    def schedule(self) -> None:
        self.is_scheduled = True
        if threading.get_ident() == self._thread_id:
            self.loop.call_soon(self._bound_pass, context=self._variables)
        else:
            self.loop.call_soon_threadsafe(self._bound_pass, context=self._variables)

    def run_queued(self) -> None:
        if self.is_scheduled:
            return
        if threading.get_ident() != self._thread_id:
            self.schedule()
            return
        self.is_scheduled = True
        try:
            self._variables.run(self._bound_pass)
        # They end the loop, which only its own callbacks can.
        except (KeyboardInterrupt, SystemExit) as error:
            self.loop.call_soon(_raise, error)

    def _run_pass(self) -> None:
        queue = self.queue
        popleft = queue.popleft
        left = PASS_MAX
        while left and (count := min(len(queue), left)):
            left -= count
            for _ in range(count):
                handler, argument = popleft()
                try:
                    result = handler(argument)
                except (KeyboardInterrupt, SystemExit):
                    self.schedule()
                    raise
                except BaseException as error:  # noqa: BLE001  # a supervisor: the other handlers still run
                    self.fail(error)
                    continue
                if result is not None and iscoroutine(result):
                    self._coroutines.start(result)
        self.is_scheduled = False
        if queue:
            self.schedule()


def _raise(error: BaseException) -> None:
    raise error
