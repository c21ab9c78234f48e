"""A table of waits that many clients share: nobody can park so many that others find no room.

Strategy: `foundation.fair_shares` over a wait table. A wait counts for its holder from its parking to its end, however
that comes about.

Knows nothing of what is awaited or of who holders are.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.fair_shares import FairShares
from hutong.foundation.waiting.table import Owner, WaitTable

V = TypeVar("V")


class FairWaits(Generic[V]):
    """Parks in `table`, at most a fair share of `waits_max` for each holder."""

    __slots__ = ("_shares", "_table")

    def __init__(self, table: WaitTable[V], waits_max: int) -> None:
        self._table = table
        self._shares = FairShares(table.name, waits_max)

    def park(self, key: Hashable, then: Callable[[V | HutongError], None], *, owner: Owner | None, holder: str) -> None:
        """As the table does. Raises LimitExceeded when the table, or the holder's share of it, is full."""
        if not self._shares.may_take(holder):
            raise LimitExceeded(self._shares.name, self._shares.maximum)

        def ended(outcome: V | HutongError) -> None:
            self._shares.release(holder)
            then(outcome)

        self._shares.take(holder)
        try:
            self._table.park(key, ended, owner=owner)
        except LimitExceeded:
            self._shares.release(holder)
            raise

    def check_invariants(self) -> None:
        self._shares.check_invariants()
        assert self._shares.taken == len(self._table)
