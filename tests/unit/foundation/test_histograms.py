"""Histograms against the exact answers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.histograms import VALUE_BITS_MAX, Histogram

values = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2**VALUE_BITS_MAX)), min_size=1, max_size=200)


def filled(numbers: list[int]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values, st.floats(0, 1))
def test_a_quantile_is_the_exact_one_or_a_little_above(numbers: list[int], quantile: float) -> None:
    exact = sorted(numbers)[max(0, math.ceil(quantile * len(numbers)) - 1)]
    found = filled(numbers).quantile(quantile)
    assert max(exact, 1) <= found <= max(exact, 1) * (1 + 1 / 8)


@given(values, st.integers(0, VALUE_BITS_MAX), st.integers(0, VALUE_BITS_MAX))
def test_counts_through_powers_of_two_are_exact(numbers: list[int], one: int, other: int) -> None:
    first, last = sorted((one, other))
    found = list(filled(numbers).through_powers_of_two(first, last))
    assert found == [sum(number <= 2**bits for number in numbers) for bits in range(first, last + 1)]


@given(values, values)
def test_adding_is_the_same_as_recording_both(some: list[int], more: list[int]) -> None:
    together, both = filled(some), filled(some + more)
    together.add(filled(more))
    assert (together.count, together.sum, together._counts) == (both.count, both.sum, both._counts)
    assert (both.count, both.sum) == (len(some) + len(more), sum(some) + sum(more))


def test_every_value_of_the_first_octaves_has_a_bucket_of_its_own() -> None:
    for number in range(1, 17):
        assert filled([number]).quantile(1) == number


def test_what_lies_outside_counts_as_the_nearest() -> None:
    histogram = filled([-5, 2**60])
    assert (histogram.count, histogram.sum) == (2, 2**VALUE_BITS_MAX)
    assert (histogram.quantile(0.5), histogram.quantile(1)) == (1, 2**VALUE_BITS_MAX)


def test_an_empty_one() -> None:
    assert Histogram().quantile(0.99) == 0
    assert list(Histogram().through_powers_of_two(3, 5)) == [0, 0, 0]


@pytest.mark.parametrize("quantile", [-0.1, 1.1, math.nan])
def test_a_quantile_that_is_none(quantile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram().quantile(quantile)
