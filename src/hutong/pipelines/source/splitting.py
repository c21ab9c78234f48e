"""Offset ranges, and how they are cut so that more tasks read them.

The arithmetic is that of Spark's own Kafka source, so that a query keeps its number of tasks when it moves over:
`maxRecordsPerPartition` is applied first, then `minPartitions` where that did not make enough pieces.

Knows nothing of brokers.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hutong.pipelines.client.cluster import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets `first <= offset < end` of one partition."""

    partition: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def split(ranges: Sequence[OffsetRange], partitions_min: int | None, records_max: int | None) -> list[OffsetRange]:
    """Cuts ranges so that there are about `partitions_min` of like size, none above `records_max`; drops empty ones."""
    pieces = [one for one in ranges if one.size > 0]
    if records_max is not None:
        pieces = [piece for one in pieces for piece in _cut(one, math.ceil(one.size / records_max))]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    # What is too small to be cut takes no part in sharing out the rest.
    total = sum(one.size for one in pieces)
    large_total = sum(one.size for one in pieces if _share(one.size, total, partitions_min) > 1)
    small_count = sum(1 for one in pieces if _share(one.size, total, partitions_min) == 1)
    for_large = max(partitions_min - small_count, 1)
    counts = [
        1 if _share(one.size, total, partitions_min) == 1 else _share(one.size, large_total, for_large)
        for one in pieces
    ]
    return [piece for one, count in zip(pieces, counts, strict=True) for piece in _cut(one, count)]


def _share(size: int, total: int, count: int) -> int:
    """Return a range's share of `count` pieces; halves are rounded up, as Java does."""
    return max(math.floor(size / total * count + 0.5), 1)


def _cut(one: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """`count` pieces, as even as may be, no empty ones."""
    edges = [one.first + one.size * index // count for index in range(count + 1)]
    for first, end in itertools.pairwise(edges):
        if end > first:
            yield OffsetRange(one.partition, first, end)
