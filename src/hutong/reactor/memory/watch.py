"""Checks what all connections of a loop hold, when enough has passed, and carries out what the budget decides.

Strategy: each acceptor's figures say at which traffic to check next, which is one comparison for each read. A check
asks every connection (half a microsecond each) in a step of its own, so that nobody is closed in the middle of his
request. While memory is tight there is also a check every CHECK_INTERVAL_MS: no traffic shows that it gets better,
or that nothing changes for too long.

The same comparison reports to a listener that an idle loop has traffic again, at no cost to a read.

Knows nothing of frames or requests. Acceptors of one loop may share one.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer, TimerWheel
from hutong.reactor.connections.open_connections import OpenConnections
from hutong.reactor.connections.protocol import ConnectionProtocol
from hutong.reactor.figures import CloseReason, ReactorFigures
from hutong.reactor.memory.budget import Holding, MemoryBudget

CHECK_INTERVAL_MS: Final = 50


class MemoryWatch:
    """Of the connections of acceptors that were added. `budget` has the figures, as of the last check."""

    def __init__(self, bytes_max: int, loop: asyncio.AbstractEventLoop, clock: Clock, wheel: TimerWheel) -> None:
        self.budget: MemoryBudget[ConnectionProtocol] = MemoryBudget(bytes_max)
        self.checks_total = 0
        self._loop = loop
        self._clock = clock
        self._wheel = wheel
        self._watched: list[tuple[OpenConnections, ReactorFigures]] = []
        self._is_asked = False
        self._timer: Timer | None = None
        self._at_traffic: Callable[[], None] | None = None
        self._marks: list[int] = []  # of the figures, in order: the traffic at which to check

    def add(self, connections: OpenConnections, figures: ReactorFigures) -> None:
        """Watch these too, for good."""
        self._watched.append((connections, figures))
        self._set_marks()

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any of these connections reads."""
        self._at_traffic = callback
        self._show_marks()

    def mark_passed(self) -> None:
        """As much has passed as a connection's figures say."""
        if self._at_traffic is None:
            self.schedule_check()
            return
        callback, self._at_traffic = self._at_traffic, None
        self._show_marks()
        callback()

    def schedule_check(self) -> None:
        """Check in the next loop iteration."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._check)

    def measure(self) -> int:
        """The bytes held now. Decides nothing."""
        return sum(connection.memory_bytes for connection in self._connections())

    def _check(self) -> None:
        self._is_asked = False
        self.checks_total += 1
        verdict = self.budget.judge(
            (Holding(each, each.memory_bytes, each.unread_bytes, each.input_bytes) for each in self._connections()),
            self._clock.monotonic_ms(),
        )
        for connection in verdict.close:
            connection.abort(CloseReason.MEMORY)
        for connection in self.budget.held:  # those held before too: their answers may be sent by now
            connection.hold()
        for connection in verdict.resume:
            connection.resume()
        self._set_marks()
        if self.budget.is_tight and self._timer is None:
            self._timer = self._wheel.add(self._clock.monotonic_ms() + CHECK_INTERVAL_MS, self._timer_fired)

    def _connections(self) -> Iterator[ConnectionProtocol]:
        for connections, _ in self._watched:
            yield from connections

    def _timer_fired(self) -> None:
        self._timer = None
        self.schedule_check()

    def _set_marks(self) -> None:
        step = self.budget.step_bytes // len(self._watched)
        self._marks = [figures.traffic_bytes + step for _, figures in self._watched]
        self._show_marks()

    def _show_marks(self) -> None:
        for (_, figures), mark in zip(self._watched, self._marks, strict=True):
            figures.check_at_bytes = 0 if self._at_traffic else mark
