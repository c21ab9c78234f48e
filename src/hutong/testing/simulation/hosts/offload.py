"""Workers without threads: jobs run at moments that the seed draws.

Strategy: a job waits for a free worker, takes effect somewhere in its time, and its result reaches the loop at the end
of that time. So a crash may come before the effect, or between effect and result. What a crash breaks off is known to
the process, so that its disk can carry out a part of it. Jobs of one pool with several workers overtake each other.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from hutong.foundation.errors import LimitExceeded
from hutong.runtime.threads.pools import PENDING_WORK_MAX
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.hosts.loop import SimLoop

T = TypeVar("T")
JOB_US: Final = 30  # at least
JOB_SPREAD_US: Final = 2_000
_Job = tuple[Callable[[], Any], Callable[[Any], None]]


class SimOffload:
    """As `ThreadOffload`, in one process's virtual time."""

    def __init__(
        self, process: SimProcess, workers: int, name: str, pending_max: int, delay_us: Callable[[], int]
    ) -> None:
        """`delay_us` draws what the device adds to each job."""
        self._process = process
        self._workers = workers
        self._name = name
        self._pending_max = pending_max
        self._delay_us = delay_us
        self._random = Random(process.host.random.getrandbits(64))
        self._waiting: deque[_Job] = deque()
        self._busy = 0
        self._is_closed = False

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        if self._is_closed:
            raise RuntimeError(f"the worker pool {self._name} is closed")
        if len(self._waiting) >= self._pending_max:
            raise LimitExceeded("pending_work_max", self._pending_max)
        self._waiting.append((work, then))
        self._begin()

    def close(self) -> None:
        """Finish what was submitted: blocking takes no virtual time."""
        # Jobs that have begun end by themselves, as their events are arranged.
        self._is_closed = True
        while self._waiting:
            work, then = self._waiting.popleft()
            self._process.loop.has_arrived(_WorkerResult(then, _outcome_of(work)))

    def _begin(self) -> None:
        while self._busy < self._workers and self._waiting:
            self._busy += 1
            self._begin_job(*self._waiting.popleft())

    def _begin_job(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        took_us = JOB_US + int(JOB_SPREAD_US * self._random.random() ** 6) + self._delay_us()
        effect_us = int(took_us * self._random.random())
        self._process.job_begins(work, effect_us)
        self._process.world.after(effect_us, lambda: self._perform(work, then, took_us - effect_us))

    def _perform(self, work: Callable[[], Any], then: Callable[[Any], None], rest_us: int) -> None:
        # The crash came before the effect: nothing was written.
        if not self._process.is_alive:
            return
        self._process.jobs_under_way.remove(work)
        outcome = _outcome_of(work)
        self._process.world.after(rest_us, lambda: self._finished(then, outcome))

    def _finished(self, then: Callable[[Any], None], outcome: Any) -> None:
        self._busy -= 1
        if self._process.is_alive:
            self._process.loop.has_arrived(_WorkerResult(then, outcome))
            self._begin()


class _WorkerResult:
    """A result on its way from a worker to the loop."""

    __slots__ = ("_outcome", "_then")

    def __init__(self, then: Callable[[Any], None], outcome: Any) -> None:
        self._then = then
        self._outcome = outcome

    def arrived(self) -> None:
        self._then(self._outcome)


def _outcome_of(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  # the same contract as a worker thread
        return error


def make_offloads(process: SimProcess, delay_us: Callable[[str], int]) -> Any:
    """Return the maker of workers for one process; `delay_us` draws the delay of a job by the name of its pool."""

    def make(loop: SimLoop, workers: int, name: str, pending_max: int = PENDING_WORK_MAX) -> SimOffload:
        return SimOffload(process, workers, name, pending_max, lambda: delay_us(name))

    return make
