"""A bound that many clients share: nobody can take all of it.

Strategy: dynamic thresholds (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
1998). A holder may take more while what it then has is at most `TIMES_THE_REST` times what was free. One holder alone
gets three quarters of all, each further one as much of the rest, without a number to be set for each.

NOBODY holds what was there before this process knew its holders: it counts as taken, and the bound alone stops it.

Knows nothing of what is counted (entries, bytes) or of who holders are.
"""

from collections import Counter
from typing import Final

TIMES_THE_REST: Final = 3
NOBODY: Final = ""


class FairShares:
    """The part of `maximum` that each holder has."""

    __slots__ = ("_held", "maximum", "name", "taken")

    def __init__(self, name: str, maximum: int) -> None:
        """`name` is that of the bound in the settings or the module."""
        self.name = name
        self.maximum = maximum
        self.taken = 0
        self._held: Counter[str] = Counter()  # of holders that have something

    def held_by(self, holder: str) -> int:
        return self._held[holder]

    def may_take(self, holder: str, amount: int = 1) -> bool:
        """True when the holder may take that much more."""
        free = self.maximum - self.taken
        return amount <= free and (holder == NOBODY or self._held[holder] + amount <= TIMES_THE_REST * free)

    def take(self, holder: str, amount: int = 1) -> None:
        """Add the amount to the holder's part; a negative amount reduces it. Refuses nothing: ask `may_take`."""
        self.taken += amount
        now = self._held[holder] + amount
        if now:
            self._held[holder] = now
        else:
            del self._held[holder]

    def release(self, holder: str, amount: int = 1) -> None:
        self.take(holder, -amount)

    def check_invariants(self) -> None:
        assert self.taken == sum(self._held.values())
        assert all(held > 0 for held in self._held.values())
