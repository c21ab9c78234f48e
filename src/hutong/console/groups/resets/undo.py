"""Offsets before resets, kept so that a reset can be undone in the session that made it.

Each session keeps its last few; sessions over the bound are forgotten, the one that reset longest ago first.

Knows no client.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hutong.console.groups.resets.plan import Place

RESETS_OF_SESSION_MAX: Final = 10
SESSIONS_WITH_RESETS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class DoneReset:
    """`before`: None for a partition in which the group had no offset, which cannot be undone."""

    number: int
    group: str
    before: Mapping[Place, int | None]
    after: Mapping[Place, int]

    @property
    def restored(self) -> dict[Place, int]:
        """The offsets that an undo commits."""
        return {place: offset for place, offset in self.before.items() if offset is not None}

    def moved(self, committed: Mapping[Place, int | None]) -> list[Place]:
        """Partitions whose offsets are not those of the reset any more: the group has gone on."""
        return [place for place, offset in self.after.items() if committed.get(place) != offset]


class ResetShelf:
    """The resets of all sessions, by a secret of each."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[int, DoneReset]] = OrderedDict()
        self._last = 0

    def keep(
        self, session: str, group: str, before: Mapping[Place, int | None], after: Mapping[Place, int]
    ) -> DoneReset:
        """Keep a reset that was done."""
        self._last += 1
        done = DoneReset(self._last, group, before, after)
        own = self._sessions.setdefault(session, OrderedDict())
        self._sessions.move_to_end(session)
        own[done.number] = done
        if len(own) > RESETS_OF_SESSION_MAX:
            own.popitem(last=False)
        if len(self._sessions) > SESSIONS_WITH_RESETS_MAX:
            self._sessions.popitem(last=False)
        return done

    def find(self, session: str, group: str, number: int) -> DoneReset | None:
        """The reset of this number, if this session made it."""
        done = self._sessions.get(session, OrderedDict()).get(number)
        return done if done is not None and done.group == group else None

    def of_group(self, session: str, group: str) -> list[DoneReset]:
        """The session's resets of a group, the latest first."""
        own = self._sessions.get(session, OrderedDict()).values()
        return [done for done in reversed(own) if done.group == group]

    def drop(self, session: str, number: int) -> None:
        """Forget a reset, once it is undone."""
        self._sessions.get(session, OrderedDict()).pop(number, None)
