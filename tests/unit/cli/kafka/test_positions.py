"""What a person may write for a position, and the offset it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cli.kafka.positions import Position, parse_position, start_offset
from hutong.foundation.errors import UsageError


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Position("beginning")),
        ("end", Position("end")),
        ("0", Position("offset", 0)),
        ("-10", Position("offset", -10)),
        ("2015-05-17T10:05:03Z", Position("time", 1_431_857_103_000)),
        ("2015-05-17T12:05:03+02:00", Position("time", 1_431_857_103_000)),
        ("2015-05-17T10:05:03", Position("time", 1_431_857_103_000)),
        ("2015-05-17", Position("time", 1_431_820_800_000)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize("text", ["", "-", "--1", "1.5", "yesterday", "٣", "2015-13-01"])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(UsageError, match="is no position"):
        parse_position(text)


POSITIONS = st.one_of(
    st.just(Position("beginning")),
    st.just(Position("end")),
    st.integers(-(2**63), 2**63 - 1).map(lambda value: Position("offset", value)),
)


@given(POSITIONS, st.integers(0, 1000), st.integers(0, 1000))
def test_a_start_lies_within_what_the_partition_holds(position: Position, low: int, records: int) -> None:
    start = start_offset(position, low, low + records, -1)
    assert low <= start <= low + records


@pytest.mark.parametrize(
    ("position", "at_time", "expected"),
    [
        (Position("beginning"), -1, 5),
        (Position("end"), -1, 20),
        (Position("offset", 7), -1, 7),
        (Position("offset", -3), -1, 17),
        (Position("offset", -300), -1, 5),
        (Position("time", 1), 11, 11),
        (Position("time", 1), -1, 20),
    ],
)
def test_start_offsets(position: Position, at_time: int, expected: int) -> None:
    assert start_offset(position, 5, 20, at_time) == expected
