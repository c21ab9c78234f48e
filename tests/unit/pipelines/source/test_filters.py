from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from hutong.pipelines.client.cluster import TopicPartition
from hutong.pipelines.source.filters import narrowing
from hutong.pipelines.source.splitting import OffsetRange

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [OffsetRange(A0, 0, 100), OffsetRange(A1, 20, 30), OffsetRange(B0, 50, 60)]


@dataclass(frozen=True)
class Comparison:
    """Stands for Spark's filters, whose classes are known by name."""

    attribute: tuple[str, ...]
    value: Any = None


def named(name: str, column: str, value: Any = None) -> Any:
    return type(name, (Comparison,), {})(tuple(column.split(".")), value)


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([], RANGES),
        ([("EqualTo", "topic", "a")], RANGES[:2]),
        ([("In", "topic", ("b", "c"))], RANGES[2:]),
        ([("GreaterThan", "partition", 0)], RANGES[1:2]),
        ([("IsNotNull", "topic"), ("EqualTo", "topic", "c")], []),
        (
            [("GreaterThan", "offset", 24), ("LessThanOrEqual", "offset", 54)],
            [(A0, 25, 55), (A1, 25, 30), (B0, 50, 55)],
        ),
        ([("EqualTo", "offset", 55), ("LessThan", "offset", 90)], [(A0, 55, 56), (B0, 55, 56)]),
        ([("GreaterThanOrEqual", "offset", 60), ("LessThan", "offset", 50)], []),
    ],
)
def test_ranges_are_narrowed_exactly(filters: list[tuple[Any, ...]], ranges: list[OffsetRange]) -> None:
    found, left = narrowing([named(*one) for one in filters])
    assert found.apply(RANGES) == ranges
    assert left == []


@pytest.mark.parametrize(
    "given",
    [
        ("EqualTo", "value", b"x"),
        ("IsNull", "key"),
        ("IsNotNull", "key"),
        ("Not", "topic"),
        ("StringStartsWith", "topic", "a"),
        ("In", "offset", (1, 2)),
        ("EqualTo", "value.topic", "a"),
        ("LessThan", "timestamp", datetime(2024, 1, 1, tzinfo=UTC)),
        ("GreaterThan", "timestamp", datetime(2024, 1, 1)),
        ("GreaterThan", "timestamp", datetime(1960, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_cannot_narrow_is_left_to_spark(given: tuple[Any, ...]) -> None:
    one = named(*given)
    found, left = narrowing([one])
    assert left == [one]
    assert (found.apply(RANGES), found.since_ms) == (RANGES, None)


def test_a_time_narrows_and_is_left_to_spark_too() -> None:
    filters = [
        named("GreaterThan", "timestamp", datetime(2024, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)),
        named("GreaterThanOrEqual", "timestamp", datetime(2023, 1, 1, tzinfo=UTC)),
    ]
    found, left = narrowing(filters)
    assert (found.since_ms, left) == (1_704_067_200_001, filters)
