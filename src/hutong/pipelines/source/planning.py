"""Turns a subscription and offset rules into ranges to read: one `OffsetRange` is one Spark task.

Offsets travel as {"topic": {"0": 23}}, the form in which Spark's own Kafka source keeps them in its checkpoints.
Knows nothing of Spark.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from hutong.foundation.errors import UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, Cluster, TopicPartition
from hutong.pipelines.source.fetching import data_lost
from hutong.pipelines.source.options import OffsetRule, Subscription

EXIT_NO_INPUT = 66

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


class OffsetRange(NamedTuple):
    """Offsets `first <= offset < end` of one partition."""

    partition: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def subscribed(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    """The partitions of a subscription, in order. Raises UsageError for topics or partitions that do not exist."""
    names: Collection[str] | None = subscription.names or {partition.topic for partition in subscription.assigned}
    topics = cluster.topics(names or None)
    missing = sorted(set(names or ()) - topics.keys())
    if missing:
        raise UsageError(
            f"topic {', '.join(missing)} does not exist: check the name, or create it first", EXIT_NO_INPUT
        )
    if subscription.pattern is not None:
        matches = re.compile(subscription.pattern).fullmatch
        topics = {name: topic for name, topic in topics.items() if matches(name) and not topic.is_internal}
    everything = [TopicPartition(name, index) for name, topic in sorted(topics.items()) for index in topic.partitions]
    if not subscription.assigned:
        return everything
    absent = sorted(set(subscription.assigned) - set(everything))
    if absent:
        raise UsageError(
            f"partition {', '.join(map(str, absent))} does not exist: check the option assign", EXIT_NO_INPUT
        )
    return sorted(set(subscription.assigned))


def resolve(cluster: Cluster, partitions: Sequence[TopicPartition], rule: OffsetRule) -> Offsets:
    """The offset of each partition by a rule. Raises UsageError when the rule does not fit the partitions."""
    given = rule.offsets if rule.offsets is not None else rule.timestamps_ms
    if given is not None and set(given) != set(partitions):
        differing = ", ".join(map(str, sorted(set(given) ^ set(partitions))))
        raise UsageError(
            f"offsets or timestamps must be given for exactly the partitions read; these differ: {differing}"
        )
    if rule.timestamps_ms is not None:
        return _at_timestamps(cluster, rule.timestamps_ms, rule.must_match)
    if rule.timestamp_ms is not None:
        return _at_timestamps(cluster, dict.fromkeys(partitions, rule.timestamp_ms), rule.must_match)
    asked = rule.offsets if rule.offsets is not None else dict.fromkeys(partitions, rule.otherwise)
    special = {partition: at for partition, at in asked.items() if at in (EARLIEST, LATEST)}
    found = cluster.offsets(special)
    return {partition: found[partition].offset if partition in found else at for partition, at in asked.items()}


def at(cluster: Cluster, partitions: Sequence[TopicPartition], position: int) -> Offsets:
    """`EARLIEST` or `LATEST` of each partition."""
    return {
        partition: found.offset for partition, found in cluster.offsets(dict.fromkeys(partitions, position)).items()
    }


def _at_timestamps(cluster: Cluster, timestamps_ms: Mapping[TopicPartition, int], must_match: bool) -> Offsets:
    found = cluster.offsets(timestamps_ms)
    unmatched = sorted(partition for partition, answer in found.items() if answer.offset < 0)
    if unmatched and must_match:
        names = ", ".join(map(str, unmatched))
        raise UsageError(
            f"no record of {names} is as young as the starting timestamp: take an earlier one, or set "
            "startingOffsetsByTimestampStrategy to latest"
        )
    return {partition: answer.offset for partition, answer in found.items() if answer.offset >= 0} | at(
        cluster, unmatched, LATEST
    )


def ranges_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], fail_on_data_loss: bool
) -> list[OffsetRange]:
    """What lies between two positions of a stream.

    Raises DataLost for partitions that vanished or went backwards, unless the query accepts that.
    """
    vanished = sorted(start.keys() - end.keys())
    backwards = sorted(partition for partition in start.keys() & end.keys() if end[partition] < start[partition])
    if fail_on_data_loss and vanished:
        raise data_lost(f"partition {', '.join(map(str, vanished))} is gone")
    if fail_on_data_loss and backwards:
        raise data_lost(f"partition {', '.join(map(str, backwards))} ends before the offset reached")
    ranges = (OffsetRange(partition, start.get(partition, 0), end[partition]) for partition in sorted(end))
    return [one for one in ranges if one.size > 0]


def split(ranges: Sequence[OffsetRange], partitions_min: int | None, records_max: int | None) -> list[OffsetRange]:
    """Cuts ranges so that there are about `partitions_min` of like size, none above `records_max`."""
    total = sum(one.size for one in ranges)
    pieces: list[OffsetRange] = []
    for one in ranges:
        count = 1
        if partitions_min is not None and partitions_min > len(ranges):
            count = max(count, round(one.size / total * partitions_min))
        if records_max is not None:
            count = max(count, math.ceil(one.size / records_max))
        pieces.extend(_cut(one, count))
    return pieces


def limit(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], records_max: int) -> Offsets:
    """An end not further than `records_max` records, shared out by how much each partition has left."""
    left = {partition: max(end[partition] - start.get(partition, 0), 0) for partition in end}
    total = sum(left.values())
    if total <= records_max:
        return dict(end)
    reached = {}
    for partition, size in left.items():
        share = records_max * size / total
        # At least one record, so that a partition with little left is not starved for ever by those with much.
        reached[partition] = start.get(partition, 0) + min(size, math.ceil(share) if share < 1 else int(share))
    return reached


def to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """The form that goes into Spark's checkpoint."""
    nested: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of `to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in nested.items()
        for partition, offset in offsets.items()
    }


def _cut(one: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """`count` pieces, as even as may be, no empty ones."""
    edges = [one.first + one.size * index // count for index in range(count + 1)]
    for first, end in itertools.pairwise(edges):
        if end > first:
            yield OffsetRange(one.partition, first, end)
