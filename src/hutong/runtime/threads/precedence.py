"""Blocking work that gives way to other blocking work on the same device: disk reads to flushes.

Strategy: a disk serves reads before writes, and a flush waits for all that it has in hand, so a few readers of a
backlog make every flush take ten times as long. What gives way begins in the gaps, while nothing that goes first is in
flight, and then one piece at a time; so a flush waits for one such piece at most. So that it is not starved by flushes
without a gap, one piece begins in any case when it has waited for `patience_ms` and none has begun meanwhile. Where
nothing went first for a while, pieces run side by side.

Work that gives way comes by queues, each with an offload of its own. A piece that takes longer than `STALLED_MS` delays
only its own queue, so files of which one has stalled do not hold up the others.

Knows nothing of what the work does. One loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.runtime.threads.offload import Offload
from hutong.runtime.threads.pools import PENDING_WORK_MAX

T = TypeVar("T")
PATIENCE_MS: Final = 10
QUIET_MS: Final = 200  # without work that goes first, after which pieces may run side by side
STALLED_MS: Final = 1_000  # a read of a mebibyte takes a hundredth of this on a slow disk


class Precedence:
    """Lets offloads made by `behind` give way to those made by `first`. Figures: waiting, impatient_total."""

    def __init__(self, clock: Clock, timers: TimerWheel, side_by_side_max: int, patience_ms: int = PATIENCE_MS) -> None:
        self.impatient_total = 0  # begun while something that goes first was in flight
        self.waiting = 0  # in all queues
        self._clock = clock
        self._timers = timers
        self._side_by_side_max = side_by_side_max
        self._patience_ms = patience_ms
        self._queues: list[_Behind] = []
        self._first_in_flight = 0
        self._first_at_ms = -QUIET_MS  # when some was last in flight
        self._begun_at_ms = 0
        self._timer: Timer | None = None  # while something waits

    @property
    def in_flight(self) -> int:
        return sum(len(queue.begun_at_ms) for queue in self._queues)

    @property
    def is_contended(self) -> bool:
        """True while work that goes first is in flight, and a moment longer."""
        return self._first_in_flight > 0 or self._clock.monotonic_ms() - self._first_at_ms < QUIET_MS

    def first(self, offload: Offload) -> Offload:
        """The same offload for work that goes first."""
        return _First(self, offload)

    def behind(self, offload: Offload) -> Offload:
        """The same offload for work that gives way: a queue of its own."""
        queue = _Behind(self, offload)
        self._queues.append(queue)
        return queue

    def _may_begin(self, queue: "_Behind", since_ms: int, now_ms: int) -> bool:
        # A stalled queue keeps its own bound, or it would use up the threads.
        if len(queue.begun_at_ms) >= self._side_by_side_max:
            return False
        in_flight = sum(queue.working(now_ms) for queue in self._queues)
        if self._first_in_flight:
            # From the last piece begun, too: else each impatient piece would let the next follow at once.
            waited_ms = now_ms - max(since_ms, self._begun_at_ms)
            is_impatient = not in_flight and waited_ms >= self._patience_ms
            self.impatient_total += is_impatient
            return is_impatient
        is_quiet = now_ms - self._first_at_ms >= QUIET_MS
        return in_flight < (self._side_by_side_max if is_quiet else 1)

    def _begin_waiting(self) -> None:
        """Begin the piece that has waited longest and may; a stalled queue is passed over."""
        now_ms = self._clock.monotonic_ms()
        while (queue := self._next(now_ms)) is not None:
            work, then, _ = queue.waiting.popleft()
            self.waiting -= 1
            try:
                queue.begin_work(work, then)
            except LimitExceeded as error:
                then(error)
        self._remind()

    def _next(self, now_ms: int) -> "_Behind | None":
        waiting = sorted((queue for queue in self._queues if queue.waiting), key=lambda queue: queue.waiting[0][2])
        return next((queue for queue in waiting if self._may_begin(queue, queue.waiting[0][2], now_ms)), None)

    def _remind(self) -> None:
        """Check again when patience is over; work that ends before then checks by itself."""
        if self._timer is None and self.waiting:
            self._timer = self._timers.add(self._clock.monotonic_ms() + self._patience_ms, self._reminded)

    def _reminded(self) -> None:
        self._timer = None
        self._begin_waiting()

    def _first_begun(self) -> None:
        self._first_in_flight += 1

    def _first_ended(self) -> None:
        self._first_in_flight -= 1
        self._first_at_ms = self._clock.monotonic_ms()
        if self.waiting:  # a flush without readers must not pay for a scan of all queues
            self._begin_waiting()


class _First:
    """An offload whose work goes first."""

    def __init__(self, precedence: Precedence, offload: Offload) -> None:
        self._precedence = precedence
        self._offload = offload

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        precedence = self._precedence

        def ended(outcome: T | BaseException) -> None:
            precedence._first_ended()  # before `then`, which may begin the next: between the two is the gap
            then(outcome)

        precedence._first_begun()
        try:
            self._offload.submit(work, ended)
        except BaseException:
            precedence._first_ended()
            raise


class _Behind:
    """An offload whose work gives way."""

    def __init__(self, precedence: Precedence, offload: Offload) -> None:
        self.waiting: deque[tuple[Callable[[], Any], Callable[[Any], None], int]] = deque()  # with since when, in ms
        self.begun_at_ms: dict[object, int] = {}  # of what is in flight, oldest first
        self._precedence = precedence
        self._offload = offload

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`."""
        if len(self.waiting) >= PENDING_WORK_MAX:
            raise LimitExceeded("pending_work_max", PENDING_WORK_MAX)
        precedence = self._precedence
        now_ms = precedence._clock.monotonic_ms()
        # With something waiting it must not overtake: it goes to the end of its queue.
        if not precedence.waiting and precedence._may_begin(self, now_ms, now_ms):
            self.begin_work(work, then)
        else:
            self.waiting.append((work, then, now_ms))
            precedence.waiting += 1
            precedence._begin_waiting()

    def working(self, now_ms: int) -> int:
        """The number of pieces in flight that have not stalled."""
        return sum(now_ms - begun_at_ms < STALLED_MS for begun_at_ms in self.begun_at_ms.values())

    def begin_work(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        precedence, piece = self._precedence, object()

        def ended(outcome: T | BaseException) -> None:
            del self.begun_at_ms[piece]
            try:
                then(outcome)
            finally:
                if precedence.waiting:
                    precedence._begin_waiting()

        begun_at_ms = self.begun_at_ms[piece] = precedence._clock.monotonic_ms()
        try:
            self._offload.submit(work, ended)
        except BaseException:
            del self.begun_at_ms[piece]
            raise
        precedence._begun_at_ms = begun_at_ms
