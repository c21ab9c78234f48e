"""About when a record was written, as far as spans and extents tell: never outside what bounds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.journal.files.spans import LogSpans, Span
from hutong.journal.format.index import Extents
from hutong.journal.read.ages import UNKNOWN, indexed_timestamp


def spans_of(*spans: tuple[int, int, int]) -> LogSpans:
    """Of first offset, end offset and greatest timestamp."""
    found = LogSpans()
    for number, (first, end, timestamp_ms) in enumerate(spans):
        found.add(Span(number * 1000, first, end, 100, timestamp_ms))
    return found


def extents_of(*runs: tuple[int, int, int]) -> Extents:
    extents = Extents(1, 1)  # each run is an extent
    for number, (base, end, timestamp_ms) in enumerate(runs):
        extents.add(base, end, 10_000 + number * 100, 10, timestamp_ms)
    return extents


@pytest.mark.parametrize(
    ("offset", "timestamp_ms"),
    [
        (0, 100),  # of the first span nothing is known but its greatest
        (9, 100),
        (10, 110),  # the first of ten that end at 200
        (19, 200),
        (20, 250),  # the first of two in the active segment, behind 200
        (21, 300),
        (22, 400),
        (23, UNKNOWN),
    ],
)
def test_what_lies_between_two_timestamps_is_taken_to_lie_there_evenly(offset: int, timestamp_ms: int) -> None:
    spans = spans_of((0, 10, 100), (10, 20, 200))
    assert indexed_timestamp(offset, spans, extents_of((20, 22, 300), (22, 23, 400))) == timestamp_ms


def test_a_gap_is_as_old_as_what_follows_it() -> None:
    assert indexed_timestamp(3, spans_of((0, 2, 100), (10, 12, 300)), None) == 200


def test_records_without_timestamps_say_nothing() -> None:
    assert indexed_timestamp(0, spans_of((0, 2, UNKNOWN)), None) == UNKNOWN
    assert indexed_timestamp(0, LogSpans(), None) == UNKNOWN


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10_000)), min_size=1, max_size=10), st.data())
def test_a_guess_lies_within_what_the_records_carry(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    runs, end = [], 0
    for count, timestamp_ms in rows:
        runs.append((end, end + count, timestamp_ms))
        end += count
    offset = data.draw(st.integers(0, end - 1))
    split = data.draw(st.integers(0, len(runs)))
    extents = extents_of(*runs[split:]) if split < len(runs) else None
    found = indexed_timestamp(offset, spans_of(*runs[:split]), extents)
    assert min(row[1] for row in rows) <= found <= max(row[1] for row in rows)
