"""Executors: processors on worker threads or in a context, behind a bounded queue whose jobs grow old.

Strategy: the queue and everything about it belongs to the loop; a job goes out when a worker is free, by `Offload` or
`Context.run`, and its result comes back on the loop. So nothing is locked, and a job that waits can be answered for
without asking a thread. One timer, set for the oldest that waits, however many there are.

Queue ageing as RocketMQ's (`[TIMEOUT_CLEAN_QUEUE]`), with two differences that its users have asked for: it is set for
each executor (None switches it off), and it minds whether workers make progress: while the loop itself was late, by
LATE_MS or more since the timer was due, nobody is sent away, for the wait was ours and not the queue's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.remoting.channels.answers import SYSTEM_BUSY, refusal
from hutong.remoting.work.machine import JobQueue
from hutong.runtime.contexts.contexts import Context
from hutong.runtime.threads.offload import Offload

QUEUE_MAX: Final = 10_000
LATE_MS: Final = 50
Work = Callable[[], Any]
Then = Callable[[object], None]


class Place(Protocol):
    """Somewhere else: does the work there, and calls `then` on the loop with its result or with what it raised."""

    def submit(self, work: Work, then: Then) -> None: ...


class ContextPlace:
    """A context as a place for work: plain functions and coroutine functions, in its own thread and order."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    def submit(self, work: Work, then: Then) -> None:
        self._context.run(self._perform, (work, then))

    def _perform(self, job: tuple[Work, Then]) -> Awaitable[None] | None:
        work, then = job
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # a supervisor: the request is answered with it
            result = error
        if isawaitable(result):
            return self._await(result, then)
        self._return_result(then, result)
        return None

    async def _await(self, result: Awaitable[object], then: Then) -> None:
        outcome: object
        try:
            outcome = await result
        except Exception as error:  # noqa: BLE001  # a supervisor: the request is answered with it
            outcome = error
        self._return_result(then, outcome)

    def _return_result(self, then: Then, result: object) -> None:
        # Work may outlive the loop at the end of a process; nobody waits for its result then.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(then, result)


class Executor:
    """`workers` jobs at a time, `queue_max` waiting for at most `wait_ms_max`; all methods on the loop's thread."""

    def __init__(
        self,
        name: str,
        place: Offload | Place,
        *,
        clock: Clock,
        wheel: TimerWheel,
        workers: int = 1,
        queue_max: int = QUEUE_MAX,
        wait_ms_max: int | None = None,
    ) -> None:
        """A refusal names it by `name`. `workers` should not exceed the number of threads it runs on."""
        self.name = name
        self.queue: JobQueue[tuple[Work, Then]] = JobQueue(workers, queue_max, wait_ms_max)
        self._place = place
        self._clock = clock
        self._wheel = wheel
        self._timer: Timer | None = None

    def submit(self, work: Work, then: Then) -> bool:
        """Do the work, now or later, and call `then` with its result, with what it raised, or with a refusal for age.

        False, with nothing done and nobody called, where there is no room.
        """
        job = (work, then)
        verdict = self.queue.offered(job, self._clock.monotonic_ms())
        if verdict:
            # The queue has counted a worker for it, which the next job gets.
            if not self._begin(job):
                self._go_on()
                return False
        elif verdict is None and self._timer is None:
            self._arm()
        return verdict is not False

    def close(self) -> None:
        """Answer for all that waits; what has begun ends by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, then in self.queue.take_all():
            then(refusal(SYSTEM_BUSY, f"[OVERLOAD]{self.name} is closing"))

    def _begin(self, job: tuple[Work, Then]) -> bool:
        """False where the place takes nothing: it is closed, or has no room of its own."""
        work, then = job
        try:
            self._place.submit(work, lambda result: self._ended(then, result))
        # A full pool, a closed one, or a closed context.
        except (LimitExceeded, RuntimeError):
            return False
        return True

    def _ended(self, then: Then, result: object) -> None:
        self._go_on()
        then(result)

    def _go_on(self) -> None:
        """A worker is free: the next job begins."""
        following = self.queue.finished()
        # A place that takes nothing now is asked once for each waiting job, and all are answered.
        while following is not None and not self._begin(following):
            following[1](refusal(SYSTEM_BUSY, f"[OVERLOAD]{self.name} takes nothing now"))
            following = self.queue.finished()

    def _arm(self) -> None:
        due_ms = self.queue.next_tick_ms()
        self._timer = None if due_ms is None else self._wheel.add(due_ms, self._check_age)

    def _check_age(self) -> None:
        now_ms, due_ms = self._clock.monotonic_ms(), self.queue.next_tick_ms()
        self._timer = None
        if due_ms is not None and now_ms - due_ms < LATE_MS:
            self._refuse_aged()
        elif due_ms is not None:
            # The loop was late: those whose time is over are refused only if they still wait then.
            self._timer = self._wheel.add(now_ms + LATE_MS, self._refuse_aged)

    def _refuse_aged(self) -> None:
        self._timer = None
        for _, then in self.queue.take_aged(self._clock.monotonic_ms()):
            text = f"[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while: {len(self.queue)} wait here"
            then(refusal(SYSTEM_BUSY, text))
        self._arm()
