"""The bound on partitions, and on those of one client's topics.

Strategy: a topic counts from the moment when its creation or growth was decided, so that many that are on their way to
the disk together cannot pass the bound. Those who make topics share it (`foundation.fair_shares`).

Knows nothing of topics but names.
"""

from __future__ import annotations

from typing import Final

from hutong.foundation.fair_shares import NOBODY, FairShares

PARTITIONS_MAX: Final = 100_000


class PartitionBudget:
    """Partitions by topic."""

    __slots__ = ("_shares", "_topics")

    def __init__(self, partitions_max: int = PARTITIONS_MAX) -> None:
        self._shares = FairShares("PARTITIONS_MAX", partitions_max)
        self._topics: dict[str, tuple[str, int]] = {}  # name -> (holder, partitions)

    @property
    def maximum(self) -> int:
        return self._shares.maximum

    @property
    def taken(self) -> int:
        return self._shares.taken

    def holder(self, name: str) -> str:
        """The client that created the topic; NOBODY for one from before the start."""
        return self._topics.get(name, (NOBODY, 0))[0]

    def has_room(self, holder: str, more: int) -> bool:
        return self._shares.may_take(holder, more)

    def note(self, name: str, count: int, holder: str | None = None) -> None:
        """Set a topic's number of partitions. With `holder` None the owner stays."""
        before_holder, before = self._topics.get(name, (NOBODY, 0))
        holder = before_holder if holder is None else holder
        self._shares.release(before_holder, before)
        self._shares.take(holder, count)
        self._topics[name] = holder, count

    def forget(self, name: str) -> None:
        """The topic is gone, or did not come about."""
        noted = self._topics.pop(name, None)
        if noted is not None:
            self._shares.release(*noted)
