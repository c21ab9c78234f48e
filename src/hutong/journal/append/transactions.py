"""The transactions of one log, open and aborted, and the offset up to which a committed reader may go (KIP-98).

    first offset of the oldest open transaction >= last stable offset <= high watermark

Strategy: a producer's first transactional batch opens its transaction here, its marker ends it. Until the marker is
visible the transaction counts as open for readers, who then never act on an end that a crash may revert. Aborted
transactions are kept as rows of four numbers, ordered by the offsets of their markers. One bisection finds the first
row of a range, and the stable offset of a row shows when no later one can matter. A row is dropped with its data.

    row   producer id, first offset, offset of the marker, first offset not stable once the marker was there

Made when a log gets its first transactional batch; a log without one has none and costs nothing. Knows no clock, no
disk, no bytes: replaying the same batches gives the same state.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

ROW_NUMBERS: Final = 4
ROW_BYTES: Final = 8 * ROW_NUMBERS


class Aborted(NamedTuple):
    """One aborted transaction. From `stable_offset` on nothing was stable when it had ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class AbortedIndex:
    """The aborted transactions, in the order of their markers."""

    __slots__ = ("_copy", "_rows")

    def __init__(self, rows: Iterable[int] = ()) -> None:
        self._rows = array("q", rows)
        self._copy: array[int] | None = None  # as somebody may read it on another thread

    def __len__(self) -> int:
        return len(self._rows) // ROW_NUMBERS

    def __getitem__(self, number: int) -> Aborted:
        return Aborted._make(self._rows[ROW_NUMBERS * number : ROW_NUMBERS * (number + 1)])

    def add(self, aborted: Aborted) -> None:
        """Add an aborted transaction; markers come in the order of their offsets."""
        self._rows.extend(aborted)
        self._copy = None

    def between(self, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each that overlaps the offsets from `start_offset` to before `end_offset`."""
        return aborted_between(self._rows, start_offset, end_offset)

    def reaches(self, offset: int) -> bool:
        """True if a transaction was aborted at or after `offset`."""
        return len(self._rows) > 0 and self._rows[2 - ROW_NUMBERS] >= offset

    def forget_before(self, offset: int) -> None:
        """Forget transactions that ended before `offset`: the log holds nothing of them any more."""
        number = row_number_from(self._rows, offset)
        if number:
            del self._rows[: ROW_NUMBERS * number]
            self._copy = None

    def rows(self) -> "array[int]":
        """All numbers of all rows as they are now; never changed any more."""
        if self._copy is None:
            self._copy = self._rows[:]
        return self._copy

    def check_invariants(self) -> None:
        last_offset = -1
        for number in range(len(self)):
            row = self[number]
            assert row.first_offset < row.last_offset
            assert last_offset < row.last_offset
            assert row.stable_offset <= row.last_offset + 1
            last_offset = row.last_offset


def aborted_between(rows: "array[int]", start_offset: int, end_offset: int) -> list[tuple[int, int]]:
    """The same as `AbortedIndex.between`, for a copy of its rows."""
    found = []
    for at in range(ROW_NUMBERS * row_number_from(rows, start_offset), len(rows), ROW_NUMBERS):
        producer_id, first_offset, _, stable_offset = rows[at : at + ROW_NUMBERS]
        if first_offset < end_offset:
            found.append((producer_id, first_offset))
        # Transactions that ended later began at that offset or after it, so no later row reaches into the range.
        if stable_offset >= end_offset:
            break
    return found


def row_number_from(rows: "array[int]", offset: int) -> int:
    """The first row whose marker is not before `offset`."""
    return bisect_left(range(len(rows) // ROW_NUMBERS), offset, key=lambda number: rows[ROW_NUMBERS * number + 2])


class LogTransactions:
    """`open` has the first offset of each open transaction by producer id, oldest first."""

    __slots__ = ("_ended", "aborted", "open")

    def __init__(self, opened: Iterable[tuple[int, int]] = (), rows: Iterable[int] = ()) -> None:
        self.open: OrderedDict[int, int] = OrderedDict(opened)
        self.aborted = AbortedIndex(rows)
        # (marker offset, first offset) of transactions whose markers may not be visible yet. Both rise: a later
        # marker of a transaction that began earlier bounds readers lower, and longer, so it replaces the entry before.
        self._ended: deque[tuple[int, int]] = deque()

    def begin_transaction(self, producer_id: int, offset: int) -> None:
        """Open the producer's transaction with its batch at `offset`, unless it is open already."""
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> None:
        """End the producer's transaction with its marker at `marker_offset`, if one is open."""
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return
        ended = self._ended
        while ended and ended[-1][1] >= first_offset:
            ended.pop()
        ended.append((marker_offset, first_offset))
        if not is_commit:
            stable_offset = next(iter(self.open.values()), marker_offset + 1)
            self.aborted.add(Aborted(producer_id, first_offset, marker_offset, stable_offset))

    def all_visible(self) -> None:
        """Declare every marker so far visible: recovery has read them from the disk."""
        self._ended.clear()

    def stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: every transaction with a batch before it has ended, and the end is visible."""
        ended = self._ended
        # A marker before the high watermark is visible: its transaction bounds readers no more.
        while ended and ended[0][0] < high_watermark:
            ended.popleft()
        stable_offset = high_watermark
        if ended:
            stable_offset = min(stable_offset, ended[0][1])
        if self.open:
            stable_offset = min(stable_offset, next(iter(self.open.values())))
        return stable_offset

    def check_invariants(self) -> None:
        offsets = list(self.open.values())
        assert offsets == sorted(set(offsets))
        self.aborted.check_invariants()
