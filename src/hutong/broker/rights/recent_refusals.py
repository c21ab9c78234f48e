"""Refusals of late, for people who look for what a client may not do: the same one is a line with a count.

Strategy: at most REFUSALS_KEPT_MAX lines, the one that was longest quiet goes first. A client that asks for names
without end pushes other lines out, and takes no more memory than they did.

Knows no clock and no request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from hutong.security.acls import Operation, ResourceType

REFUSALS_KEPT_MAX: Final = 200
NAME_CHARACTERS_KEPT_MAX: Final = 249
"""Of a principal or a resource, which a client may choose; a topic's name is no longer."""


class RefusedRight(NamedTuple):
    """A right that a client wanted, and where it came from."""

    principal: str
    host: str
    operation: Operation
    kind: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class RefusalCount:
    """`count` times since `first_ms`, most lately at `last_ms`; both are wall time."""

    count: int
    first_ms: int
    last_ms: int


class RecentRefusals:
    """The refusals, those of most late first."""

    def __init__(self) -> None:
        self._counts: dict[RefusedRight, RefusalCount] = {}  # in the order of `last_ms`

    def add(self, refused: RefusedRight, now_ms: int) -> None:
        """Count one more."""
        kept = refused._replace(
            principal=refused.principal[:NAME_CHARACTERS_KEPT_MAX], name=refused.name[:NAME_CHARACTERS_KEPT_MAX]
        )
        before = self._counts.pop(kept, None)
        if before is None and len(self._counts) >= REFUSALS_KEPT_MAX:
            del self._counts[next(iter(self._counts))]
        first_ms = now_ms if before is None else before.first_ms
        self._counts[kept] = RefusalCount(1 if before is None else before.count + 1, first_ms, now_ms)

    def newest_first(self) -> Iterator[tuple[RefusedRight, RefusalCount]]:
        return iter(reversed(self._counts.items()))
