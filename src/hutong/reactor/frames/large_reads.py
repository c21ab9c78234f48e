"""A bound on the time that large reads of all connections take in one loop iteration.

Strategy: libuv reads a socket up to 32 times in an iteration while each read fills its buffer, and does so for every
socket that has data. One producer that sends all it can brings 8 MiB that way, and nothing else runs for 10 ms. So the
time of large reads is added up, with the handling of what they brought. A connection that reads past the bound is
paused, and resumed in order in a later iteration. Small reads do not fill a buffer, so libuv makes one of them.

Knows nothing of frames. One loop, one bound: not for several threads.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

COUNTED_FROM_BYTES: Final = 16 * 1024
"""A read of fewer bytes is not counted. A full record of TLS has as many, and is a read of its own."""
ITERATION_US_MAX: Final = 1_500
RESUMED_MAX: Final = 4
"""Connections resumed at once: each reads at least once, perhaps for a millisecond, before it can be paused."""


class Reader(Protocol):
    """A connection that can pause its reads."""

    def pause_large(self) -> None: ...

    def resume_large(self) -> None: ...


class LargeReads:
    """Adds up the reads of all connections of one acceptor. Figure: `paused_total`."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.paused_total = 0
        self._call_soon = call_soon
        self._used_us = 0  # in this iteration
        self._is_armed = False
        self._paused: deque[Reader] = deque()

    def add(self, used_us: int, reader: Reader) -> None:
        """Count a read that took so long, after which its connection is perhaps paused."""
        self._used_us += used_us
        if not self._is_armed:
            self._is_armed = True
            self._call_soon(self._next_iteration)
        if self._used_us >= ITERATION_US_MAX:
            self.paused_total += 1
            self._paused.append(reader)
            reader.pause_large()

    def _next_iteration(self) -> None:
        self._used_us, self._is_armed = 0, False
        for _ in range(min(RESUMED_MAX, len(self._paused))):
            self._paused.popleft().resume_large()
        if self._paused:
            self._is_armed = True
            self._call_soon(self._next_iteration)
