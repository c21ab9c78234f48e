"""The committed offset of one group and partition, as a register: which values a question may find.

Strategy: a write takes effect at some moment between its begin and its end. It counts until another one, which began
after that end, has ended. A write without an answer has no end, unless its member had lost the partition by a known
time: then no later commit of that member counts. A write that a question has found took effect before the answer. So
an answer is right if any write of its value may count still.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from hutong.testing.simulation.history import OffsetSeen

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
    is_certain: bool = False  # an answer came, or it was found
    is_refused: bool = False


@dataclass(slots=True)
class OffsetRegister:
    """All commits of one partition by one group, in the order of their begins."""

    _writes: list[OffsetWrite] = field(default_factory=list)
    _open: list[OffsetWrite] = field(default_factory=list)  # without an end
    _by_offset: dict[int, list[OffsetWrite]] = field(default_factory=dict)
    _begins: list[int] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)  # the earliest of this certain write and those after it

    def begin(self, write: OffsetWrite) -> None:
        self._writes.append(write)
        self._open.append(write)

    def given_to(self, client: str, begun_us: int, at_us: int) -> None:
        """The partition was given to a member by a request of that time: commits of those before it are over."""
        for write in self._open:
            if write.client != client and write.granted_us < begun_us:
                write.end_us = at_us
        self._open = [write for write in self._open if write.end_us == FOREVER and not write.is_refused]

    def settle(self, questions: Iterable[OffsetSeen]) -> None:
        """Call it once all writes are known. The questions end writes without an answer that they have found."""
        for write in self._writes:
            if not write.is_refused:
                self._by_offset.setdefault(write.offset, []).append(write)
        self._index()
        for each in questions:
            found = self._candidates(each)
            # Of two with the same offset nobody knows whose it was.
            if len(found) == 1 and found[0].end_us > each.at_us:
                found[0].end_us, found[0].is_certain = each.at_us, True
        self._index()

    def may_answer(self, question: OffsetSeen) -> bool:
        """Return True if the question may have found its offset."""
        is_first = question.offset == _NONE and self._counts_until(-1.0) >= question.begun_us
        return is_first or bool(self._candidates(question))

    def last_before(self, question: OffsetSeen) -> OffsetWrite | None:
        """The last write that had taken effect for certain when the question was asked."""
        over = (write for write in self._writes if write.is_certain and write.end_us <= question.begun_us)
        return max(over, key=lambda write: write.end_us, default=None)

    def _index(self) -> None:
        certain = [write for write in self._writes if write.is_certain]
        self._begins = [write.begun_us for write in certain]
        self._ends = list(accumulate((write.end_us for write in reversed(certain)), min))[::-1]

    def _candidates(self, question: OffsetSeen) -> list[OffsetWrite]:
        return [
            write
            for write in self._by_offset.get(question.offset, ())
            if write.begun_us <= question.at_us and self._counts_until(write.end_us) >= question.begun_us
        ]

    def _counts_until(self, end_us: float) -> float:
        """The time at which a write that ended then was overwritten for certain."""
        place = bisect_right(self._begins, end_us)
        return self._ends[place] if place < len(self._ends) else FOREVER
