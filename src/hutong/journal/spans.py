"""Which closed segments hold a log's data, and how much of it.

Strategy: one row per segment in parallel arrays, oldest first. It answers where an offset must be looked for, and what
retention needs to decide, without loading any index.

Knows nothing of files.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple


class Span(NamedTuple):
    """One log's share of the segment that begins at `base_position`."""

    base_position: int
    first_offset: int
    bytes: int
    max_timestamp_ms: int


class LogSpans:
    """The spans of one log, positions and offsets rising."""

    __slots__ = ("_base_positions", "_bytes", "_first_offsets", "_max_timestamps")

    def __init__(self) -> None:
        self._base_positions = array("q")
        self._first_offsets = array("q")
        self._bytes = array("q")
        self._max_timestamps = array("q")

    def __len__(self) -> int:
        return len(self._base_positions)

    def __getitem__(self, number: int) -> Span:
        return Span(
            self._base_positions[number],
            self._first_offsets[number],
            self._bytes[number],
            self._max_timestamps[number],
        )

    def add(self, span: Span) -> None:
        """Take in the log's share of the next segment."""
        self._base_positions.append(span.base_position)
        self._first_offsets.append(span.first_offset)
        self._bytes.append(span.bytes)
        self._max_timestamps.append(span.max_timestamp_ms)

    def number_for(self, offset: int) -> int:
        """The number of the span that holds `offset`, -1 if it lies before all."""
        return bisect_right(self._first_offsets, offset) - 1

    def drop_before(self, base_position: int) -> None:
        """Forget the segments before `base_position`: they are gone."""
        count = bisect_left(self._base_positions, base_position)
        for column in (self._base_positions, self._first_offsets, self._bytes, self._max_timestamps):
            del column[:count]
