"""Sums of a topic's partitions, and rates between two looks."""

from types import SimpleNamespace
from typing import Any

import pytest

from hutong.console.topics.listing import ends_of, size_of, skew, topic_row
from hutong.console.topics.offsets import KeptOffsets
from hutong.console.topics.rates import LOOK_AGE_MS_MAX, LOOKS_MAX, EndRates


def partition(number: int, replicas: int = 3, in_sync: int = 3, leader: int = 1) -> Any:
    return SimpleNamespace(id=number, leader=leader, replicas=[*range(replicas)], isrs=[*range(in_sync)])


def test_a_row_sums_partitions() -> None:
    spans = {("a", 0): KeptOffsets(10, 30), ("a", 1): KeptOffsets(0, 60)}
    row = topic_row("a", [partition(0), partition(1, in_sync=2)], spans, 2.5, {("a", 0): 100, ("a", 1): 50})
    assert row == {
        "name": "a",
        "partitions": 2,
        "replication": 3,
        "under_replicated": 1,
        "without_leader": 0,
        "is_internal": False,
        "size_bytes": 150,
        "records": 80,
        "records_per_s": 2.5,
        "skew": 1.5,
    }


def test_a_sum_with_a_gap_is_no_sum() -> None:
    row = topic_row(
        "__a", [partition(0), partition(1, leader=-1)], {("__a", 0): KeptOffsets(0, 5)}, None, {("__a", 0): 100}
    )
    assert (row["records"], row["skew"], row["size_bytes"], row["without_leader"]) == (None, None, None, 1)
    assert row["is_internal"] is True
    assert size_of("a", [], {}) is None


@pytest.mark.parametrize(("records", "expected"), [([5], None), ([0, 0], None), ([5, 5], 1.0), ([9, 0, 0], 3.0)])
def test_skew_is_the_fullest_over_the_mean(records: list[int], expected: float | None) -> None:
    assert skew(records) == expected


def test_a_span_has_no_fewer_than_no_records() -> None:
    assert KeptOffsets(7, 5).records == 0
    assert ends_of({("a", 0): KeptOffsets(0, 5), ("a", 1): KeptOffsets(1, 7), ("b", 0): KeptOffsets(2, 2)}) == {
        "a": 12,
        "b": 2,
    }


def test_a_rate_needs_two_looks_some_time_apart() -> None:
    rates = EndRates()
    assert rates.look({"a": 100}, 0) == {}
    assert rates.look({"a": 150}, 500) == {}
    assert rates.look({"a": 300, "new": 5}, 2_000) == {"a": 100.0}


def test_a_rate_is_that_since_the_oldest_look_that_counts() -> None:
    rates = EndRates()
    for at_ms in range(0, 20_000, 2_000):
        rates.look({"a": at_ms}, at_ms)
    assert rates.look({"a": 20_000 + 2_000 * LOOKS_MAX}, 20_000)["a"] == pytest.approx(2_000)
    assert rates.look({"a": 99_999}, 20_000 + LOOK_AGE_MS_MAX + 1) == {}


def test_a_topic_that_was_made_anew_has_no_rate_yet() -> None:
    rates = EndRates()
    rates.look({"a": 100}, 0)
    assert rates.look({"a": 3}, 2_000) == {}
    assert rates.look({"a": 13}, 4_000) == {"a": 5.0}
