"""Ordered wait table: acknowledgements that wait until a position of a stream is passed.

Strategy: positions never decrease, so plain queues are enough: no keys, no tickets.

Knows nothing of what is awaited, nor of threads: a table belongs to one loop.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.table import NEVER, Continuation

V = TypeVar("V")

_Batch = tuple[int, int, Iterator[tuple[Continuation[V], V]]]
"""What was parked together: position, deadline, and what is left of it, oldest first."""


class _TimeoutQueue(Generic[V]):
    """The batches of one timeout, so positions and deadlines both rise. `timer` is set for the oldest, or earlier."""

    __slots__ = ("batches", "timeout_ms", "timer")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.batches: deque[_Batch[V]] = deque()
        self.timer: Timer | None = None


class OrderedWaitTable(Generic[V]):
    """Continuations parked at a rising position: acknowledgements that wait for a flush.

    Positions never decrease, so plain queues are enough: no keys, no tickets. Nor does a deadline cost anything while
    all goes well: what is parked with the same timeout stands in one queue, whose deadlines rise, so one timer for the
    oldest is enough, and that is looked at again only when it fires. Timeouts are rounded up, by an eighth at most, so
    that there are few queues whatever is asked for.

    Resumed is in the order of positions; at one position, those of one timeout in the order in which they came.
    Invariant: parked_total = resumed_total + expired_total + failed_total + len(table).
    """

    __slots__ = (
        "_capacity",
        "_foremost",
        "_last_position",
        "_queues",
        "_wheel",
        "expired_total",
        "failed_total",
        "name",
        "parked_total",
        "resumed_total",
    )

    def __init__(self, name: str, wheel: TimerWheel, capacity: int) -> None:
        self.name = name
        self.parked_total = 0
        self.resumed_total = 0
        self.expired_total = 0
        self.failed_total = 0
        self._wheel = wheel
        self._capacity = capacity
        self._last_position = 0
        self._queues: dict[int, _TimeoutQueue[V]] = {}
        self._foremost: _TimeoutQueue[V] | None = None  # its oldest batch has the least position; None: no waits

    @property
    def is_empty(self) -> bool:
        return self._foremost is None

    def __len__(self) -> int:
        return self.parked_total - self.resumed_total - self.expired_total - self.failed_total

    def park(
        self,
        position: int,
        waits: "Sequence[tuple[Continuation[V], V]]",
        *,
        timeout_ms: int = NEVER,
        now_ms: int = 0,
    ) -> None:
        """Call `then(value)` for each (then, value) once `position` is passed, or `then(Expired)` after `timeout_ms`.

        `now_ms` is monotonic time; it and the position never decrease. Raises LimitExceeded, with nothing parked, when
        there are too many, and ValueError if out of order.
        """
        if position < self._last_position:
            raise ValueError(f"position {position} is before {self._last_position}, where some were parked already")
        if len(self) + len(waits) > self._capacity:
            raise LimitExceeded(self.name, self._capacity)
        self._last_position = position
        if timeout_ms != NEVER:
            timeout_ms = _rounded_up(timeout_ms)
        queue = self._queues.get(timeout_ms)
        if queue is None:
            queue = self._queues[timeout_ms] = _TimeoutQueue(timeout_ms)
        queue.batches.append((position, 0 if timeout_ms == NEVER else now_ms + timeout_ms, iter(waits)))
        self.parked_total += len(waits)
        if self._foremost is None:
            self._foremost = queue
        if queue.timer is None and timeout_ms != NEVER:
            self._arm(queue)

    def resume_through(self, position: int) -> int:
        """Resume, in order, everything parked at or before `position`. Returns how many."""
        before = self.resumed_total
        while (queue := self._foremost) is not None and queue.batches[0][0] <= position:
            for then, value in queue.batches[0][2]:
                self.resumed_total += 1
                then(value)
            self._drop_ended(queue)
        return self.resumed_total - before

    def fail_all(self, error: HutongError) -> int:
        """Fail everything parked, in order. Returns how many."""
        before = self.failed_total
        while (queue := self._foremost) is not None:
            for then, _ in queue.batches[0][2]:
                self.failed_total += 1
                then(error)
            self._drop_ended(queue)
        return self.failed_total - before

    def stop_timers(self) -> None:
        """The owner ends: nothing expires any more. What is parked can still be resumed or failed."""
        for queue in self._queues.values():
            if queue.timer is not None:
                queue.timer.cancel()

    def check_invariants(self) -> None:
        for queue in self._queues.values():
            ordered = [(position, deadline_ms) for position, deadline_ms, _ in queue.batches]
            assert ordered == sorted(ordered)
            if ordered:
                assert self._foremost is not None
                assert self._foremost.batches[0][0] <= ordered[0][0]
            assert queue.timeout_ms == NEVER or queue.timer is not None
        assert len(self) == sum(length_hint(waits) for queue in self._queues.values() for _, _, waits in queue.batches)

    def _drop_ended(self, queue: "_TimeoutQueue[V]") -> None:
        """Drop the queue's oldest batch if nothing is left of it: a continuation may have ended more meanwhile."""
        batches = queue.batches
        if batches and not length_hint(batches[0][2]):
            batches.popleft()
        foremost = queue if batches else None
        if len(self._queues) > 1:
            waiting = [queue for queue in self._queues.values() if queue.batches]
            foremost = min(waiting, key=lambda queue: queue.batches[0][0], default=None)
        self._foremost = foremost

    def _arm(self, queue: "_TimeoutQueue[V]") -> None:
        queue.timer = self._wheel.add(queue.batches[0][1], lambda: self._expire(queue))

    def _expire(self, queue: "_TimeoutQueue[V]") -> None:
        """End what is overdue, and look again when the then oldest is due; a queue that nobody stands in goes."""
        error = Expired(f"nothing came in time ({self.name})")
        try:
            while queue.batches and queue.batches[0][1] <= self._wheel.now_ms:
                for then, _ in queue.batches[0][2]:
                    self.expired_total += 1
                    then(error)
                self._drop_ended(queue)
        finally:
            if queue.batches:
                self._arm(queue)
            else:
                del self._queues[queue.timeout_ms]


def _rounded_up(timeout_ms: int) -> int:
    """The next number with at most four binary digits before its zeros, so by less than an eighth."""
    timeout_ms = max(timeout_ms, 0)
    shift = max(0, timeout_ms.bit_length() - 4)
    return -(-timeout_ms >> shift) << shift
