"""The spans of one log: its shares of closed segments, and their sizes.

Strategy: one entry per segment in parallel arrays, oldest first. It finds the segment of an offset, and answers all
that retention and compaction ask, without loading any index. A cleaned log has gaps: the search returns the first span
that ends behind the offset, so that a read of removed records gets those that follow.

Knows nothing of files.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from hutong.journal.format.index import Summary


class Span(NamedTuple):
    """One log's share of the segment that begins at `base_position`: offsets from `first_offset` to before the end."""

    base_position: int
    first_offset: int
    end_offset: int
    bytes: int
    max_timestamp_ms: int


def span_of(base_position: int, summary: Summary) -> Span:
    """The span of one log in the segment at `base_position`."""
    return Span(base_position, summary.first_offset, summary.end_offset, summary.bytes, summary.max_timestamp_ms)


class LogSpans:
    """The spans of one log, positions and offsets rising. `held_bytes` is their sum.

    `gone_bytes` counts the bytes that they have lost since the start of the process, by deletion or cleaning.
    """

    __slots__ = (
        "_base_positions",
        "_bytes",
        "_end_offsets",
        "_first_offsets",
        "_max_timestamps",
        "gone_bytes",
        "held_bytes",
    )

    def __init__(self) -> None:
        self.held_bytes = 0
        self.gone_bytes = 0
        self._base_positions = array("q")
        self._first_offsets = array("q")
        self._end_offsets = array("q")
        self._bytes = array("q")
        self._max_timestamps = array("q")

    def __len__(self) -> int:
        return len(self._base_positions)

    def __getitem__(self, number: int) -> Span:
        return Span(
            self._base_positions[number],
            self._first_offsets[number],
            self._end_offsets[number],
            self._bytes[number],
            self._max_timestamps[number],
        )

    def __iter__(self) -> Iterator[Span]:
        return map(self.__getitem__, range(len(self)))

    def add(self, span: Span) -> None:
        """Take in the log's share of the next segment."""
        self._insert(len(self), span)

    def number_for(self, offset: int) -> int:
        """The number of the first span that ends behind `offset`; the count of spans where none does."""
        return bisect_right(self._end_offsets, offset)

    def count_before(self, position: int) -> int:
        """The number of spans in segments that begin before `position`."""
        return bisect_left(self._base_positions, position)

    def bytes_between(self, first: int, last: int) -> int:
        """The bytes of the spans from number `first` to before `last`."""
        return sum(self._bytes[first:last])

    def drop_before(self, base_position: int) -> None:
        """Forget the segments before `base_position`: they are gone."""
        self._delete(0, bisect_left(self._base_positions, base_position))

    def replace(self, start: int, end: int, span: Span | None) -> None:
        """Replace the spans of segments from position `start` to before `end` by one, or by none."""
        first = bisect_left(self._base_positions, start)
        self._delete(first, bisect_left(self._base_positions, end))
        if span is not None:
            self._insert(first, span)
            self.gone_bytes -= span.bytes

    def check_invariants(self) -> None:
        assert self.held_bytes == sum(self._bytes)
        offsets = [offset for span in self for offset in (span.first_offset, span.end_offset)]
        assert offsets == sorted(offsets)
        assert list(self._base_positions) == sorted(set(self._base_positions))

    def _insert(self, number: int, span: Span) -> None:
        self.held_bytes += span.bytes
        self._base_positions.insert(number, span.base_position)
        self._first_offsets.insert(number, span.first_offset)
        self._end_offsets.insert(number, span.end_offset)
        self._bytes.insert(number, span.bytes)
        self._max_timestamps.insert(number, span.max_timestamp_ms)

    def _delete(self, first: int, last: int) -> None:
        if first == last:
            return
        gone_bytes = sum(self._bytes[first:last])
        self.held_bytes -= gone_bytes
        self.gone_bytes += gone_bytes
        columns = (self._base_positions, self._first_offsets, self._end_offsets, self._bytes, self._max_timestamps)
        for column in columns:
            del column[first:last]
