"""A lot of waits that many clients share: nobody can park so many that others find no room.

Strategy: `foundation.fair_shares` over a parking lot. A wait counts for its holder from its parking to its end, however
that comes about.

Knows nothing of what is awaited or of who holders are.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.fair_shares import FairShares
from hutong.foundation.parking import Owner, ParkingLot

V = TypeVar("V")


class FairWaits(Generic[V]):
    """Parks in `lot`, at most a fair share of `waits_max` for each holder."""

    __slots__ = ("_lot", "_shares")

    def __init__(self, lot: ParkingLot[V], waits_max: int) -> None:
        self._lot = lot
        self._shares = FairShares(lot.name, waits_max)

    def park(self, key: Hashable, then: Callable[[V | HutongError], None], *, owner: Owner | None, holder: str) -> None:
        """As the lot does. Raises LimitExceeded when the lot, or the holder's share of it, is full."""
        if not self._shares.may_take(holder):
            raise LimitExceeded(self._shares.name, self._shares.maximum)

        def ended(outcome: V | HutongError) -> None:
            self._shares.release(holder)
            then(outcome)

        self._shares.take(holder)
        try:
            self._lot.park(key, ended, owner=owner)
        except LimitExceeded:
            self._shares.release(holder)
            raise

    def check_invariants(self) -> None:
        self._shares.check_invariants()
        assert self._shares.taken == len(self._lot)
