"""Figures of actors: what each got from the disk, and what it waits for.

Strategy: clients choose the names of groups and topics. So at most NAMED_MAX actors have figures of their own, and
all others are counted together. A name keeps its place while it reads; one that was idle for long gives it to a
newcomer.

Pure: time is given.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from hutong.broker.fetch.actors import Actor

NAMED_MAX: Final = 50
IDLE_MS: Final = 10 * 60 * 1000
OTHERS: Final = Actor("", ("other",))


class ReadFigures:
    """Reads of one actor. `queued` are its reads that have not ended."""

    __slots__ = ("bytes_total", "expired_total", "queued", "used_at_ms", "used_us")

    def __init__(self) -> None:
        self.bytes_total = 0
        self.expired_total = 0
        self.queued = 0
        self.used_us = 0  # from the beginning of each read to its end, its time in the queue left out
        self.used_at_ms = 0


class ActorFigures:
    """The figures of all actors of a node."""

    __slots__ = ("_named", "_others")

    def __init__(self) -> None:
        self._named: OrderedDict[Actor, ReadFigures] = OrderedDict()  # the one that was idle longest comes first
        self._others = ReadFigures()

    def __iter__(self) -> Iterator[tuple[Actor, ReadFigures]]:
        """Each actor with figures of its own, and `OTHERS` for the rest."""
        yield from self._named.items()
        yield OTHERS, self._others

    def of(self, actor: Actor, now_ms: int) -> ReadFigures:
        """The figures that a read of this actor counts in, from its coming to its end."""
        found = self._named.get(actor)
        if found is None:
            if len(self._named) >= NAMED_MAX and not self._drop_idle(now_ms):
                return self._others
            found = self._named[actor] = ReadFigures()
        found.used_at_ms = now_ms
        self._named.move_to_end(actor)
        return found

    def _drop_idle(self, now_ms: int) -> bool:
        """Make room for a newcomer. False where every name is in use."""
        actor, figures = next(iter(self._named.items()))
        # A read that waits still counts in them.
        if figures.queued or now_ms - figures.used_at_ms < IDLE_MS:
            return False
        del self._named[actor]
        return True
