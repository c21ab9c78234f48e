"""The list of topics as values: sums over partitions, and how evenly records are spread.

Knows no client: metadata, spans and sizes are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hutong.console.topics.offsets import KeptOffsets, Place

PartitionBytes = Mapping[Place, int]


def topic_row(
    name: str, partitions: Sequence[Any], spans: Mapping[Place, KeptOffsets], rate: float | None, sizes: PartitionBytes
) -> dict[str, Any]:
    """One line of the list. `partitions` are those of the metadata."""
    found = [spans.get((name, each.id)) for each in partitions]
    known = [span.records for span in found if span is not None]
    is_whole = len(known) == len(partitions)
    return {
        "name": name,
        "partitions": len(partitions),
        "replication": max((len(each.replicas) for each in partitions), default=0),
        "under_replicated": sum(len(each.isrs) < len(each.replicas) for each in partitions),
        "without_leader": sum(each.leader < 0 for each in partitions),
        "is_internal": name.startswith("__"),  # metadata of all topics does not say it; Kafka's own begin so
        "size_bytes": size_of(name, [each.id for each in partitions], sizes),
        "records": sum(known) if is_whole else None,
        "records_per_s": rate,
        "skew": skew(known) if is_whole else None,
    }


def size_of(name: str, partitions: Sequence[int], sizes: PartitionBytes) -> int | None:
    """Bytes of one copy; None unless each partition's are known."""
    found = [sizes.get((name, partition)) for partition in partitions]
    known = [size for size in found if size is not None]
    return sum(known) if found and len(known) == len(found) else None


def skew(records: Sequence[int]) -> float | None:
    """Records of the fullest partition over those of the mean. None where one partition or no record has no skew."""
    total = sum(records)
    if len(records) < 2 or total == 0:
        return None
    return round(max(records) * len(records) / total, 3)


def ends_of(spans: Mapping[Place, KeptOffsets]) -> dict[str, int]:
    """The sum of end offsets of each topic."""
    ends: dict[str, int] = {}
    for (topic, _), span in spans.items():
        ends[topic] = ends.get(topic, 0) + span.end
    return ends
