"""The letters of one partition that are redriven: everything below an offset, and runs of offsets above it.

Strategy: the offset is what the progress group commits; the runs are text in the commit's metadata. So single letters,
chosen ones and all of them share one progress, and none is sent twice. The text is bounded as Kafka bounds metadata
(`offset.metadata.max.bytes`, 4096 by default).

Knows no client.
"""

from bisect import bisect_left
from typing import Final

from hutong.foundation.errors import HutongError, LimitExceeded

METADATA_CHARS_MAX: Final = 4_000
_VERSION: Final = "done:"
_HEX_DIGITS_MAX: Final = 16


class UnreadableProgress(HutongError):
    """The metadata of a progress group is none that a redrive wrote. To go on could send letters twice."""


class RedriveProgress:
    """`offset` is the first one that is not done. Runs are disjoint, in order, and leave a gap above `offset`."""

    __slots__ = ("_ends", "_firsts", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._firsts: list[int] = []
        self._ends: list[int] = []

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First offset and end of each run."""
        return [*zip(self._firsts, self._ends, strict=True)]

    def copy(self) -> "RedriveProgress":
        other = RedriveProgress(self.offset)
        other._firsts, other._ends = self._firsts.copy(), self._ends.copy()
        return other

    def __contains__(self, offset: int) -> bool:
        if offset < self.offset:
            return True
        index = bisect_left(self._ends, offset + 1)
        return index < len(self._firsts) and self._firsts[index] <= offset

    def count_done(self, begin: int, end: int) -> int:
        """The offsets from `begin` up to `end` that are done."""
        below = max(0, min(self.offset, end) - begin)
        return below + sum(max(0, min(last, end) - max(first, begin)) for first, last in self.runs)

    def add(self, first: int, end: int) -> None:
        """Note the offsets from `first` up to `end` as done."""
        if end <= max(first, self.offset):
            return
        first = max(first, self.offset)
        # Runs that touch the new one become part of it.
        low = bisect_left(self._ends, first)
        high = low
        while high < len(self._firsts) and self._firsts[high] <= end:
            first, end = min(first, self._firsts[high]), max(end, self._ends[high])
            high += 1
        self._firsts[low:high], self._ends[low:high] = [first], [end]
        if self._firsts[0] <= self.offset:
            self.offset = self._ends.pop(0)
            del self._firsts[0]
        self.check_invariants()

    def encode(self) -> str:
        """The metadata: for each run its distance from the end of the one before, and its length, in hexadecimal.

        Raises LimitExceeded where the runs are too many for one commit.
        """
        parts, before = [], self.offset
        for first, end in self.runs:
            parts.append(f"{first - before:x}+{end - first:x}")
            before = end
        text = _VERSION + ",".join(parts) if parts else ""
        if len(text) > METADATA_CHARS_MAX:
            raise LimitExceeded("redrive_metadata_chars_max", METADATA_CHARS_MAX)
        return text

    def check_invariants(self) -> None:
        before = self.offset
        for first, end in self.runs:
            assert before < first < end, "runs are in order, with gaps between them"
            before = end


def decode_progress(offset: int, metadata: str | None) -> RedriveProgress:
    """The progress that a commit has. Raises UnreadableProgress."""
    progress = RedriveProgress(offset)
    if not metadata:
        return progress
    if not metadata.startswith(_VERSION) or len(metadata) > METADATA_CHARS_MAX:
        raise UnreadableProgress(f"the metadata {metadata[:40]!r} is none of a redrive")
    before = offset
    for part in metadata.removeprefix(_VERSION).split(","):
        gap, _, length = part.partition("+")
        first = before + _number(gap)
        before = first + _number(length)
        progress.add(first, before)
    return progress


def _number(text: str) -> int:
    # `int` takes signs, spaces and underscores; a run or gap of none would be no run.
    if not text.isascii() or not text.isalnum() or len(text) > _HEX_DIGITS_MAX:
        raise UnreadableProgress(f"{text[:20]!r} is no number of offsets")
    try:
        number = int(text, 16)
    except ValueError:
        raise UnreadableProgress(f"{text!r} is no number of offsets") from None
    if not number:
        raise UnreadableProgress("a run of offsets is empty")
    return number
