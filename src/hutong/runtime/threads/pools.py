"""Threads for work that blocks: a pool that grows by demand, and pools that share a name.

Strategy: one bounded queue, read by a bounded number of threads; a thread is started only when there is more work than
threads, so a pool that nobody uses costs nothing. Each thread notes when what it does began, for the checker of blocked
threads. A shared pool is counted by its users, and the last of them closes it.

Knows nothing of what the work does. Work that must keep its order is the caller's to execute one by one.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import LimitExceeded

WORKER_THREADS: Final = 20  # of a pool without a size of its own
PENDING_WORK_MAX: Final = 10_000  # pieces that wait in one pool
Task = Callable[[], object]


class WorkerPool:
    """At most `size` threads named `name-0`, `name-1`... that live until `close`. Any thread may use it.

    begun_us: thread id -> when what that thread does now began (`clock`'s microseconds); empty without a clock. What
    does several things in one task sets its own mark before each.
    """

    def __init__(
        self, size: int, name: str, *, pending_max: int = PENDING_WORK_MAX, clock: Clock | None = None
    ) -> None:
        if size < 1:
            raise ValueError("a pool has at least one thread")
        self.name = name
        self.size = size
        self.begun_us: dict[int, int] = {}
        self._pending_max = pending_max
        self._clock = clock
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # over what follows
        self._threads: list[threading.Thread] = []
        self._unfinished = 0  # waiting and under way: never more than there are threads, while a thread may be added
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """True once it takes no more work."""
        return self._closed

    @property
    def threads(self) -> int:
        """The number of threads started so far."""
        return len(self._threads)

    @property
    def pending(self) -> int:
        """Pieces that wait for a thread."""
        return self._tasks.qsize()

    def execute(self, task: Task, *, is_bounded: bool = True) -> None:
        """Call `task` on a thread of the pool; it must not raise.

        Raises RuntimeError once closed, except for what the pool's own threads add to what they finish; LimitExceeded
        when `pending_max` pieces wait already, unless the caller bounds its own share (`is_bounded=False`), and when
        the pool has no thread and the operating system starts none.
        """
        if is_bounded and self._tasks.qsize() >= self._pending_max:
            raise LimitExceeded("pending_work_max", self._pending_max)
        with self._lock:
            # Work under way may still need the pool to finish: refusing it would lose what was accepted.
            if self._closed and threading.current_thread() not in self._threads:
                raise RuntimeError(f"the worker pool {self.name} is closed")
            if self._unfinished >= len(self._threads) < self.size:
                self._add_thread()
            self._unfinished += 1
            self._tasks.put(task)

    def begin_close(self) -> None:
        """Take no more work, and end each thread once all that was taken is done. Does not wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            # Idle threads wait at the queue; busy ones end the pool with their last task.
            if not self._unfinished:
                self._end_threads()

    def close(self, timeout_ms: int | None = None) -> bool:
        """`begin_close`, then wait for the threads. Blocks. False if some were still at work after `timeout_ms`."""
        self.begin_close()
        for thread in self._threads:
            thread.join(None if timeout_ms is None else timeout_ms / 1_000)
        return not any(thread.is_alive() for thread in self._threads)

    def _add_thread(self) -> None:
        # Daemon threads, so that a process whose owner failed to close still ends; `close` is what ends them in order.
        thread = threading.Thread(target=self._work, name=f"{self.name}-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # "can't start new thread": the machine's or the container's bound on threads
            if not self._threads:
                raise LimitExceeded("worker_threads", 0) from None
            return  # the threads that there are do this task, too; the next task tries again
        self._threads.append(thread)

    def _work(self) -> None:
        ident, clock, begun_us = threading.get_ident(), self._clock, self.begun_us
        while (task := self._tasks.get()) is not None:
            if clock is not None:
                begun_us[ident] = clock.monotonic_us()
            task()
            # Popped by default: the task itself may have set or removed its mark.
            begun_us.pop(ident, None)
            del task  # an idle worker holds no buffers of its last task
            with self._lock:
                self._unfinished -= 1
                if self._closed and not self._unfinished:
                    self._end_threads()

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._tasks.put(None)


class SharedPools:
    """Pools by name, counted by their users. Any thread may use it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pools: dict[str, tuple[WorkerPool, int]] = {}  # with how many use it, at least one

    def __iter__(self) -> Iterator[WorkerPool]:
        with self._lock:
            return iter([pool for pool, _ in self._pools.values()])

    def acquire(self, name: str, size: int) -> WorkerPool:
        """The pool of that name, made with `size` threads if this is its first user. Each user releases it once."""
        with self._lock:
            pool, users = self._pools.get(name) or (WorkerPool(size, name, clock=self._clock), 0)
            self._pools[name] = pool, users + 1
            return pool

    def release(self, pool: WorkerPool) -> bool:
        """One user less; True if it was the last, and the pool finishes what it has and ends."""
        with self._lock:
            _, users = self._pools[pool.name]
            if users > 1:
                self._pools[pool.name] = pool, users - 1
                return False
            del self._pools[pool.name]
        pool.begin_close()
        return True
