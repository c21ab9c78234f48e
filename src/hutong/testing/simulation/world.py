"""Virtual time: a queue of events, a seed, and a trace of what happened.

Strategy: nothing waits. The earliest event is taken, the time becomes its time, and its callback runs. Events due at
the same microsecond run in an order that the seed draws. Each part of a simulation has a random stream of its own,
named, so that one more draw in one part does not change another.

Knows nothing of loops, networks or nodes. One world runs on one thread.
"""

import hashlib
import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

LINES_KEPT: Final = 200_000
"""Of the trace; the oldest go first."""


class WorldEvent:
    """A callback that is due. `cancel` it, or let it run once."""

    __slots__ = ("at_us", "callback")

    def __init__(self, at_us: int, callback: Callable[[], None]) -> None:
        self.at_us = at_us
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class World:
    """One simulation. Two worlds with the same seed and the same events have the same `trace_hash`."""

    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        """Only with `keeps_trace` are the lines of the trace kept; the hash is of all in any case."""
        self.seed = seed
        self.now_us = 0
        self.events_total = 0
        self._events: list[tuple[int, float, int, WorldEvent]] = []
        self._numbers = 0
        self._order = self.random("order of events")
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[tuple[int, str, str]] | None = deque(maxlen=LINES_KEPT) if keeps_trace else None

    def random(self, name: str) -> Random:
        """A stream of its own. Seeded by text, whose value does not depend on PYTHONHASHSEED."""
        return Random(f"{self.seed}/{name}")

    def at(self, at_us: int, callback: Callable[[], None]) -> WorldEvent:
        """Call it at that time, or now if it has passed."""
        # The number decides where two events drew the same order: events themselves do not compare.
        event = WorldEvent(max(at_us, self.now_us), callback)
        self._numbers += 1
        heapq.heappush(self._events, (event.at_us, self._order.random(), self._numbers, event))
        return event

    def after(self, delay_us: int, callback: Callable[[], None]) -> WorldEvent:
        return self.at(self.now_us + delay_us, callback)

    def run(self, until_us: int, is_done: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen that is due until then; stop early once `is_done`, asked after each event."""
        events = self._events
        while events and events[0][0] <= until_us:
            at_us, _, _, event = heapq.heappop(events)
            callback = event.callback
            if callback is None:
                continue
            self.now_us = at_us
            # It may be kept by those that cancel it later, and must not keep what it called.
            event.callback = None
            self.events_total += 1
            callback()
            if is_done():
                return
        self.now_us = max(self.now_us, until_us)

    def note(self, who: str, what: str) -> None:
        """A line of the trace: part of the hash, and shown to people where the trace is kept."""
        self._hash.update(b"%d %s %s\n" % (self.now_us, who.encode(), what.encode()))
        if self._lines is not None:
            self._lines.append((self.now_us, who, what))

    def comment(self, who: str, what: str) -> None:
        """A line for people that is no part of the hash: log messages name numbers that differ between runs."""
        if self._lines is not None:
            self._lines.append((self.now_us, who, what))

    def digest(self, who: str, number: int) -> None:
        """Add a number to the hash alone: of things too frequent to be read."""
        self._hash.update(b"%d %s %d\n" % (self.now_us, who.encode(), number))

    @property
    def keeps_trace(self) -> bool:
        """False where comments would be lost: then nobody need make them."""
        return self._lines is not None

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()

    @property
    def lines(self) -> list[tuple[int, str, str]]:
        """(time in microseconds, process or part, sentence), oldest first."""
        return list(self._lines or ())
