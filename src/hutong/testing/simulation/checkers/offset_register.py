"""The committed offset of one group and partition, as a register: which values a question may find.

Strategy: a write takes effect at some moment between its begin and its end. It counts until another one, which began
after that end, has ended. A write without an answer has no end, unless its member had lost the partition by a known
time: then no later commit of that member counts. So an answer is right if any write of its value may count still.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

FOREVER: Final = float("inf")
_NONE: Final = -1
"""The offset where nothing was ever committed."""


@dataclass(slots=True)
class OffsetWrite:
    """One commit. `end_us` is when it had taken effect at the latest."""

    client: str
    offset: int
    begun_us: int
    granted_us: int  # when the member had heard that the partition is its own
    end_us: float = FOREVER
    is_acknowledged: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class OffsetRegister:
    """All commits of one partition by one group, in the order of their begins."""

    _writes: list[OffsetWrite] = field(default_factory=list)
    _open: list[OffsetWrite] = field(default_factory=list)  # without an end
    _by_offset: dict[int, list[OffsetWrite]] = field(default_factory=dict)
    _begins: list[int] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)  # the earliest of this acknowledged write and those after it

    def begin(self, write: OffsetWrite) -> None:
        self._writes.append(write)
        self._open.append(write)

    def given_to(self, client: str, begun_us: int, at_us: int) -> None:
        """The partition was given to a member by a request of that time: commits of those before it are over."""
        for write in self._open:
            if write.client != client and write.granted_us < begun_us:
                write.end_us = at_us
        self._open = [write for write in self._open if write.end_us == FOREVER and not write.is_refused]

    def settle(self) -> None:
        """Call it once all writes are known."""
        acknowledged = [write for write in self._writes if write.is_acknowledged]
        self._begins = [write.begun_us for write in acknowledged]
        self._ends = [write.end_us for write in acknowledged]
        for place in range(len(self._ends) - 2, -1, -1):
            self._ends[place] = min(self._ends[place], self._ends[place + 1])
        for write in self._writes:
            if not write.is_refused:
                self._by_offset.setdefault(write.offset, []).append(write)

    def may_show(self, offset: int, begun_us: int, at_us: int) -> bool:
        """Return True if a question of that time may have found this offset."""
        if offset == _NONE and self._counts_until(-1.0) >= begun_us:
            return True
        writes = self._by_offset.get(offset, ())
        return any(write.begun_us <= at_us and self._counts_until(write.end_us) >= begun_us for write in writes)

    def _counts_until(self, end_us: float) -> float:
        """The time at which a write that ended then was overwritten for certain."""
        place = bisect_right(self._begins, end_us)
        return self._ends[place] if place < len(self._ends) else FOREVER
