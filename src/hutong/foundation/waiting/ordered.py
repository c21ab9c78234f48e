"""Ordered wait table: acknowledgements that wait until a position of a stream is passed.

Strategy: positions never decrease, so plain queues are enough: no keys, no tickets. Deadlines are free while all goes
well: batches of the same timeout share one queue, whose deadlines rise, so one timer for the oldest is enough. It is
checked again only when it fires. Timeouts are rounded up, by an eighth at most, which keeps the queues few.

Batches are resumed in the order of positions; at one position, those of one timeout in the order of their arrival.

Knows nothing of what is awaited, nor of threads: a table belongs to one loop.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Generic, TypeVar

from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import NEVER

V = TypeVar("V")

_Batch = tuple[int, int, Iterator[tuple[Continuation[V], V]]]
"""Waits parked together: position, deadline, and an iterator over those not yet ended, oldest first."""


class _TimeoutQueue(Generic[V]):
    """The batches of one timeout; positions and deadlines rise. `timer` is set for the oldest batch, or earlier."""

    __slots__ = ("batches", "timeout_ms", "timer")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.batches: deque[_Batch[V]] = deque()
        self.timer: Timer | None = None


class OrderedWaitTable(Generic[V]):
    """Continuations parked at rising positions, at most `capacity` at a time.

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
        there are too many, and ValueError for a position before the last one.
        """
        # Plain queues need rising positions: an earlier one would wait behind a later one.
        if position < self._last_position:
            raise ValueError(f"position {position} is before {self._last_position}, where some were parked already")
        # All or nothing, so that a caller need not find out which waits of its batch are parked.
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
        # Positions never decrease: what is parked later never becomes the foremost while another waits.
        if self._foremost is None:
            self._foremost = queue
        if queue.timer is None and timeout_ms != NEVER:
            self._arm(queue)  # else its timer fires for an older batch first, and is then set for this one

    def resume_through(self, position: int) -> int:
        """Resume, in order, everything parked at or before `position`. Returns the number resumed."""
        before = self.resumed_total
        while (queue := self._foremost) is not None and queue.batches[0][0] <= position:
            # The iterator itself records progress: should `then` raise or resume more, none is called twice.
            for then, value in queue.batches[0][2]:
                self.resumed_total += 1
                then(value)
            self._drop_ended(queue)
        return self.resumed_total - before

    def fail_all(self, error: HutongError) -> int:
        """Fail everything parked, in order. Returns the number failed."""
        before = self.failed_total
        while (queue := self._foremost) is not None:
            for then, _ in queue.batches[0][2]:
                self.failed_total += 1
                then(error)
            self._drop_ended(queue)
        return self.failed_total - before

    def stop_timers(self) -> None:
        """Cancel the timers, so that nothing expires any more. Parked waits can still be resumed or failed."""
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
        """Drop the queue's oldest batch if all of it has ended. A continuation may have ended more meanwhile."""
        batches = queue.batches
        if batches and not length_hint(batches[0][2]):
            batches.popleft()
        foremost = queue if batches else None
        if len(self._queues) > 1:  # producers mostly use one timeout, so comparing queues is the exception
            waiting = [queue for queue in self._queues.values() if queue.batches]
            foremost = min(waiting, key=lambda queue: queue.batches[0][0], default=None)
        self._foremost = foremost

    def _arm(self, queue: "_TimeoutQueue[V]") -> None:
        queue.timer = self._wheel.add(queue.batches[0][1], lambda: self._expire(queue))

    def _expire(self, queue: "_TimeoutQueue[V]") -> None:
        """Expire overdue batches, and set the timer for the oldest one left. An empty queue is dropped."""
        error = Expired(f"nothing came in time ({self.name})")
        try:
            while queue.batches and queue.batches[0][1] <= self._wheel.now_ms:
                for then, _ in queue.batches[0][2]:
                    self.expired_total += 1
                    then(error)
                self._drop_ended(queue)
        finally:  # also after a continuation that raised: the waits behind it must still expire
            if queue.batches:
                # An empty queue would cost each `_drop_ended` a comparison, and its timer would fire for nothing.
                self._arm(queue)
            else:
                del self._queues[queue.timeout_ms]


def _rounded_up(timeout_ms: int) -> int:
    """Round up to a number with at most four binary digits before its zeros: by less than an eighth."""
    timeout_ms = max(timeout_ms, 0)
    shift = max(0, timeout_ms.bit_length() - 4)
    return -(-timeout_ms >> shift) << shift
