"""Histograms: how values are spread, in a fixed amount of memory and a fixed time for each.

Strategy: buckets grow with the values, eight between one power of two and the next (the scheme of HdrHistogram), so a
quantile is never below the exact one and at most an eighth above it. Each bucket holds what is greater than its lower
bound and at most its upper one, and every power of two is a bound: so the counts up to a power of two, which is what
Prometheus shows, are exact.

Knows no unit: microseconds, bytes and counts are all whole numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Final

VALUE_BITS_MAX: Final = 40  # 2^40 us are 12 days, 2^40 bytes are a TiB; what is greater counts as that
_SUB_BITS: Final = 3
_STEPS: Final = 1 << _SUB_BITS
_VALUE_MAX: Final = 1 << VALUE_BITS_MAX
_EXACT_BITS: Final = _SUB_BITS + 1  # the first two octaves have a bucket for every value
_EXACT_MAX: Final = 1 << _EXACT_BITS
_LOOKED_UP_BITS: Final = 16  # below this power of two the bucket is in a table: most values are small
_LOOKED_UP: Final = 1 << _LOOKED_UP_BITS
_BUCKETS: Final = (VALUE_BITS_MAX - _EXACT_BITS) * _STEPS + _EXACT_MAX


class Histogram:
    """Whole numbers from 0 on: how many, their sum, and how they are spread."""

    __slots__ = ("_counts", "sum")

    def __init__(self) -> None:
        self.sum = 0
        self._counts = [0] * _BUCKETS

    @property
    def count(self) -> int:
        """The number of values, added up on demand so that recording costs less."""
        return sum(self._counts)

    def record(self, value: int) -> None:
        """Count one value. What is out of range counts as the nearest that is not: 0 or 2^VALUE_BITS_MAX."""
        # A table for the common case: each request records several values.
        if 0 <= value < _LOOKED_UP:
            self._counts[_INDEX[value]] += 1
        else:
            value = min(max(value, 0), _VALUE_MAX)
            self._counts[_index_of(value)] += 1
        self.sum += value

    def record_many(self, value: int, count: int) -> None:
        """Count the same value so often."""
        if 0 <= value < _LOOKED_UP:
            self._counts[_INDEX[value]] += count
        else:
            value = min(max(value, 0), _VALUE_MAX)
            self._counts[_index_of(value)] += count
        self.sum += value * count

    def add(self, other: "Histogram") -> None:
        """Count all that the other one has counted."""
        self.sum += other.sum
        self._counts = [ours + theirs for ours, theirs in zip(self._counts, other._counts, strict=True)]

    def quantile(self, quantile: float) -> int:
        """The least bound that at least this part of the values (0 to 1) does not exceed; 0 where there are none."""
        if not 0 <= quantile <= 1:
            raise ValueError("a quantile is between 0 and 1")
        return self.quantiles([quantile])[0]

    def quantiles(self, wanted: Sequence[float], zeros: int = 0) -> list[int]:
        """Several quantiles in one go, rising, as if that many zeros had been recorded as well."""
        total = self.count + zeros
        found: list[int] = []
        seen, index = zeros, -1
        for quantile in wanted:
            rank = max(1, -int(-quantile * total // 1))  # rounded up
            while seen < rank and index < _BUCKETS - 1:
                index += 1
                seen += self._counts[index]
            found.append(_upper_bound(index) if index >= 0 and total else 0)
        return found

    def through_powers_of_two(self, first_bits: int, last_bits: int) -> Iterator[int]:
        """The numbers of values up to 2^n, for n from `first_bits` to `last_bits` (at most VALUE_BITS_MAX)."""
        at = 0
        seen = 0
        for bits in range(first_bits, last_bits + 1):
            end = _index_after(bits)
            seen += sum(self._counts[at:end])
            at = end
            yield seen


def _index_of(value: int) -> int:
    """The bucket that holds the value."""
    # A bucket excludes its lower bound and includes its upper one, so 2^n itself belongs below the power of two.
    value = max(value - 1, 0)
    shift = max(value.bit_length() - _EXACT_BITS, 0)
    return (shift << _SUB_BITS) + (value >> shift)


def _upper_bound(index: int) -> int:
    """The greatest value that the bucket holds."""
    shift = max(0, (index >> _SUB_BITS) - 1)
    return (index - (shift << _SUB_BITS) + 1) << shift


def _index_after(bits: int) -> int:
    """The first bucket of values above 2^bits."""
    if bits <= _EXACT_BITS:
        return 1 << bits
    return (bits - _EXACT_BITS << _SUB_BITS) + _EXACT_MAX


def _index_table() -> bytes:
    """The buckets of all values below `_LOOKED_UP`, made bucket by bucket: one by one they would take 20 ms."""
    table, low = bytearray(), 0
    for index in range(_index_after(_LOOKED_UP_BITS)):
        high = _upper_bound(index)
        table += bytes([index]) * (high + 1 - low)
        low = high + 1
    return bytes(table[:_LOOKED_UP])


_INDEX: Final = _index_table()
