"""Blocking work that gives way to other blocking work on the same device: cold reads to flushes.

Strategy: a disk serves reads before writes, and a flush waits for all that it has in hand, so a few readers of a
backlog make every flush take ten times as long. What gives way begins in the gaps, while nothing that goes first is in
flight, and then one piece at a time; so a flush waits for one such piece at most. So that it is not starved by flushes
without a gap, one piece begins in any case when it has waited for `patience_ms` and none has begun meanwhile. Where
nothing went first for a while, pieces run side by side.

Knows nothing of what the work does. One loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.runtime.offload import Offload
from hutong.runtime.pools import PENDING_WORK_MAX

T = TypeVar("T")
PATIENCE_MS: Final = 10
QUIET_MS: Final = 200  # without work that goes first, after which pieces may run side by side


class Precedence:
    """An offload that gives way to those made by `first`. Figures: in_flight, waiting, impatient_total."""

    def __init__(
        self, offload: Offload, clock: Clock, timers: TimerWheel, side_by_side_max: int, patience_ms: int = PATIENCE_MS
    ) -> None:
        self.in_flight = 0
        self.impatient_total = 0  # begun beside what goes first
        self._offload = offload
        self._clock = clock
        self._timers = timers
        self._side_by_side_max = side_by_side_max
        self._patience_ms = patience_ms
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None], int]] = deque()  # with since when, in ms
        self._first_in_flight = 0
        self._first_at_ms = -QUIET_MS  # when some was last in flight
        self._begun_at_ms = 0
        self._timer: Timer | None = None  # while something waits

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_contended(self) -> bool:
        """Whether something that goes first is in flight, or was a moment ago."""
        return self._first_in_flight > 0 or self._clock.monotonic_ms() - self._first_at_ms < QUIET_MS

    def first(self, offload: Offload) -> Offload:
        """The same offload for work that goes first."""
        return _First(self, offload)

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        """As `Offload.submit`."""
        if len(self._waiting) >= PENDING_WORK_MAX:
            raise LimitExceeded("pending_work_max", PENDING_WORK_MAX)
        now_ms = self._clock.monotonic_ms()
        if not self._waiting and self._may_begin(now_ms, now_ms):
            self._begin(work, then)
        else:
            self._waiting.append((work, then, now_ms))
            self._remind()

    def _may_begin(self, since_ms: int, now_ms: int) -> bool:
        if self._first_in_flight:
            waited_ms = now_ms - max(since_ms, self._begun_at_ms)
            is_impatient = not self.in_flight and waited_ms >= self._patience_ms
            self.impatient_total += is_impatient
            return is_impatient
        is_quiet = now_ms - self._first_at_ms >= QUIET_MS
        return self.in_flight < (self._side_by_side_max if is_quiet else 1)

    def _begin(self, work: Callable[[], T], then: Callable[[T | BaseException], None]) -> None:
        def ended(outcome: T | BaseException) -> None:
            self.in_flight -= 1
            try:
                then(outcome)
            finally:
                self._begin_waiting()

        self._offload.submit(work, ended)
        self.in_flight += 1
        self._begun_at_ms = self._clock.monotonic_ms()

    def _begin_waiting(self) -> None:
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._may_begin(self._waiting[0][2], now_ms):
            work, then, _ = self._waiting.popleft()
            try:
                self._begin(work, then)
            except LimitExceeded as error:
                then(error)
        self._remind()

    def _remind(self) -> None:
        """Look again when patience is over; what ends before then looks by itself."""
        if self._waiting and self._timer is None:
            self._timer = self._timers.add(self._clock.monotonic_ms() + self._patience_ms, self._reminded)

    def _reminded(self) -> None:
        self._timer = None
        self._begin_waiting()

    def _first_begun(self) -> None:
        self._first_in_flight += 1

    def _first_ended(self) -> None:
        self._first_in_flight -= 1
        self._first_at_ms = self._clock.monotonic_ms()
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
