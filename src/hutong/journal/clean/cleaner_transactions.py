"""One log's transactions in a cleaning: the aborted ones, and the markers that are still needed.

Strategy: Kafka's rules. Data of an aborted transaction is removed by the first cleaning, for all keys. A marker stays
while any batch of its transaction is there; the first cleaning that meets it without one sets the time from which on it
may go, as with tombstones, so that readers in the middle of the transaction still learn how it ended (KIP-534). It also
stays while the index names its transaction. A reader that hears of an aborted transaction leaves out everything of the
producer up to the marker: without that, what was committed later, too.

Only offsets before the last stable offset are cleaned, so everything here is decided. Batches are met in the order of
their offsets. Knows nothing of keys or files.
"""

from array import array
from bisect import bisect_left

from hutong.journal.append.transactions import ROW_NUMBERS, row_number_from
from hutong.wire.kafka.batch.records import BatchHeader


class CleanedTransactions:
    """The transactions of one log for one pass. `rows` are those of the log's index."""

    __slots__ = ("_met", "_ranges", "_rows")

    def __init__(self, rows: "array[int] | None" = None) -> None:
        self._rows = array("q") if rows is None else rows
        self._ranges: dict[int, list[tuple[int, int]]] | None = None  # per producer: last and first offsets, rising
        self._met: frozenset[int] = frozenset()  # producers with a batch since their last marker

    def is_aborted(self, header: BatchHeader) -> bool:
        """True if a batch is data of an aborted transaction."""
        if not header.is_transactional or header.is_control:
            return False
        ranges = self._by_producer().get(header.producer_id, ())
        number = bisect_left(ranges, (header.base_offset,))
        return number < len(ranges) and ranges[number][1] <= header.base_offset

    def is_named(self, header: BatchHeader) -> bool:
        """True if the index names the transaction that this marker aborted, so that readers wait for it."""
        number = row_number_from(self._rows, header.base_offset)
        row = self._rows[ROW_NUMBERS * number : ROW_NUMBERS * (number + 1)]
        return len(row) > 0 and row[2] == header.base_offset

    def meet(self, header: BatchHeader) -> bool:
        """Take notice of the next batch; of a marker, whether it still ends something that is there."""
        if header.is_control:
            is_needed = header.producer_id in self._met
            self._met -= {header.producer_id}
            return is_needed
        if header.is_transactional:
            self._met |= {header.producer_id}
        return False

    def bookmark(self) -> frozenset[int]:
        """For `go_back`, where the same batches are met once more."""
        return self._met

    def go_back(self, bookmark: frozenset[int]) -> None:
        self._met = bookmark

    def _by_producer(self) -> dict[int, list[tuple[int, int]]]:
        if self._ranges is None:
            self._ranges = {}
            for at in range(0, len(self._rows), ROW_NUMBERS):
                producer_id, first_offset, last_offset, _ = self._rows[at : at + ROW_NUMBERS]
                self._ranges.setdefault(producer_id, []).append((last_offset, first_offset))
        return self._ranges
