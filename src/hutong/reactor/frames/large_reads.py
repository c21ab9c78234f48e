"""A bound on the bytes of large frames that all connections read in one loop iteration.

Strategy: a read goes straight into its frame's buffer, and costs a copy and fresh pages: 1 ms for a MiB. libuv reads a
socket up to 32 times in an iteration, and does so for every socket that has data. So reads are counted; a connection
that reads past the bound is paused, and resumed in order in a later iteration.

Knows nothing of frames. One loop, one bound: not for several threads.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

ITERATION_BYTES_MAX: Final = 4 * 1024 * 1024
RESUMED_MAX: Final = 64
"""Connections resumed at once: each reads at least once before it can be paused."""


class Reader(Protocol):
    """A connection that can pause its reads."""

    def pause_large(self) -> None: ...

    def resume_large(self) -> None: ...


class LargeReads:
    """Counts the reads of all connections of one acceptor. Figure: `paused_total`."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.paused_total = 0
        self._call_soon = call_soon
        self._bytes = 0  # in this iteration
        self._is_armed = False
        self._paused: deque[Reader] = deque()

    def add(self, count: int, reader: Reader) -> None:
        """Count a read, after which its connection is perhaps paused."""
        self._bytes += count
        if not self._is_armed:
            self._is_armed = True
            self._call_soon(self._next_iteration)
        if self._bytes >= ITERATION_BYTES_MAX:
            self.paused_total += 1
            self._paused.append(reader)
            reader.pause_large()

    def _next_iteration(self) -> None:
        self._bytes, self._is_armed = 0, False
        for _ in range(min(RESUMED_MAX, len(self._paused))):
            self._paused.popleft().resume_large()
        if self._paused:
            self._is_armed = True
            self._call_soon(self._next_iteration)
