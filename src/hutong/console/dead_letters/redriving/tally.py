"""Counts of a redrive: letters by what became of them, within a bound on different names.

Knows nothing of records.
"""

from dataclasses import dataclass, field
from typing import Final

NAMES_MAX: Final = 100
OTHERS: Final = "*"  # no topic has this name


@dataclass(slots=True)
class RedriveTally:
    """`reasons` are of letters that were not done before, `origins` of those whose reason is asked for.

    `sent` is by target, `left` by the cause.
    """

    read: int = 0
    done_before: int = 0  # by an earlier redrive
    origins: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)

    @property
    def sent_count(self) -> int:
        return sum(self.sent.values())

    @property
    def left_count(self) -> int:
        return sum(self.left.values())


def count_one(counts: dict[str, int], name: str) -> None:
    """Add one. Names come from headers, so there may be any number: those over the bound are counted together."""
    if name not in counts and len(counts) >= NAMES_MAX:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1
