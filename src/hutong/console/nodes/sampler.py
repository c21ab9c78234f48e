"""Takes samples of the node that serves the console, for all browsers together.

Strategy: nobody's own timer: a sample is taken when a page asks and the newest is no longer fresh, so none is taken
while nobody looks. A page is made in steps on the loop and read on another thread; the larger it is, the longer its
sample is fresh, so that looking costs the loop at most one percent.

Decides nothing about figures.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hutong.console.nodes.families import KEPT
from hutong.console.nodes.history import History
from hutong.console.nodes.samples import SampleReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.console.desk import ConsoleDesk
    from hutong.console.node_facts import NodeFacts

INTERVAL_MS: Final = 2_000
INTERVAL_MS_MAX: Final = 30_000
LINES_PER_MS: Final = 10
"""For 10,000 lines, which take the loop 10 ms, a sample is fresh for a second."""
FULL_MS: Final = 10_000
"""After a page that needs all details, so long all samples have them."""


class NodeSampler:
    """`node` is the one that serves the console. Call `look` for each round of a page that is open."""

    def __init__(self, desk: ConsoleDesk, node: NodeFacts) -> None:
        self.history = History()
        self.observers: list[Callable[[History], None]] = []
        """Are called with each new sample."""
        self._desk = desk
        self._node = node
        self._reader = SampleReader(KEPT)
        self._lock = asyncio.Lock()  # who asks meanwhile gets the same sample
        self._full_until_ms = 0

    async def look(self, *, is_full: bool = False) -> History:
        """The history, with a sample that is fresh. `is_full`: with all bounds of histograms."""
        if is_full:
            self._full_until_ms = self._desk.clock.monotonic_ms() + FULL_MS
        async with self._lock:
            if not self._is_fresh(is_full=is_full):
                await self._take()
        return self.history

    def _is_fresh(self, *, is_full: bool) -> bool:
        newest = self.history.newest
        if newest is None or (is_full and not newest.is_full):
            return False
        age_ms = self._desk.clock.monotonic_ms() - newest.at_ms
        # A page's pause may end a little early, and would get the same sample twice.
        return age_ms < min(max(INTERVAL_MS, newest.lines // LINES_PER_MS), INTERVAL_MS_MAX) - INTERVAL_MS // 10

    async def _take(self) -> None:
        clock = self._desk.clock
        is_full = clock.monotonic_ms() < self._full_until_ms
        page = await self._node.metrics(is_full=is_full)
        at_ms, wall_ms = clock.monotonic_ms(), clock.wall_ms()
        sample = await self._desk.blocking(lambda: self._reader.read(page, at_ms, wall_ms, is_full=is_full))
        self.history.add(sample)
        for observe in self.observers:
            observe(self.history)
