"""The queue of an executor: jobs that begin, wait, are refused, or have waited too long.

Strategy: jobs begin in the order of arrival, a bounded number at a time. Others wait in one queue with rising
deadlines, so that only its head is checked. A job that has waited longer than `wait_ms_max` leaves it unserved: its
requester has given up, and later ones still have time (RocketMQ's BrokerFastFailure).

Knows no threads and no clock: time arrives with each event.
"""

from collections import deque
from typing import Generic, TypeVar

J = TypeVar("J")


class JobQueue(Generic[J]):
    """At most `workers` jobs at a time, `queue_max` waiting; `wait_ms_max` None: they wait however long it takes."""

    def __init__(self, workers: int, queue_max: int, wait_ms_max: int | None) -> None:
        self.running = 0
        self.refused_total = 0
        self.aged_total = 0
        self._workers = workers
        self._queue_max = queue_max
        self._wait_ms_max = wait_ms_max
        self._waiting: deque[tuple[int, J]] = deque()  # with when each came, never decreasing

    def __len__(self) -> int:
        return len(self._waiting)

    def offered(self, job: J, now_ms: int) -> bool | None:
        """True: begin it now. None: it waits. False: there is no room."""
        if self.running < self._workers:
            self.running += 1
            return True
        if len(self._waiting) >= self._queue_max:
            self.refused_total += 1
            return False
        self._waiting.append((now_ms, job))
        return None

    def finished(self) -> J | None:
        """A job has ended; the one to begin now, if any waits."""
        if self._waiting:
            return self._waiting.popleft()[1]
        self.running -= 1
        return None

    def take_aged(self, now_ms: int) -> list[J]:
        """Those that have waited too long, oldest first; they have left the queue."""
        aged: list[J] = []
        while (due_ms := self.next_tick_ms()) is not None and due_ms <= now_ms:
            aged.append(self._waiting.popleft()[1])
        self.aged_total += len(aged)
        return aged

    def take_all(self) -> list[J]:
        """Everything that waits: the executor ends."""
        waiting = [job for _, job in self._waiting]
        self._waiting.clear()
        return waiting

    def next_tick_ms(self) -> int | None:
        """The time at which the oldest has waited too long, or None."""
        if self._wait_ms_max is None or not self._waiting:
            return None
        return self._waiting[0][0] + self._wait_ms_max

    def check_invariants(self) -> None:
        came_ms = [came for came, _ in self._waiting]
        assert came_ms == sorted(came_ms)
        assert len(came_ms) <= self._queue_max
        assert 0 <= self.running <= self._workers
        assert not came_ms or self.running == self._workers
