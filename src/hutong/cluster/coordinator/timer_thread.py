"""Timers on a thread of their own, for a `MemoryEnsemble` whose nodes are on several loops.

Strategy: one thread waits for the earliest deadline, and calls back with no lock held. Those that are due at once are
called in the order in which they were added. Knows nothing of what it calls.
"""

import heapq
import threading
from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock

_THREAD_NAME: Final = "ensemble"


class TimerThread:
    """Runs until `close`; `call_later` may be called on any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._added = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=_THREAD_NAME, daemon=True)
        self._thread.start()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call it on the thread; never after a `close`."""
        with self._changed:
            self._added += 1
            heapq.heappush(self._timers, (self._clock.monotonic_ms() + delay_ms, self._added, callback))
            self._changed.notify()

    def close(self) -> None:
        """Forget all timers, and end the thread. Blocks."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (callback := self._next_due()) is not None:
            callback()

    def _next_due(self) -> Callable[[], None] | None:
        """Wait for what is due next; None after `close`."""
        with self._changed:
            while not self._is_closed:
                wait_ms = self._timers[0][0] - self._clock.monotonic_ms() if self._timers else None
                if wait_ms is not None and wait_ms <= 0:
                    return heapq.heappop(self._timers)[2]
                self._changed.wait(None if wait_ms is None else wait_ms / 1_000)
            return None
