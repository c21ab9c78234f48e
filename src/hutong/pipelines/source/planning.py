"""Turns a subscription and offset rules into ranges to read: one `OffsetRange` is one Spark task.

Offsets travel as {"topic": {"0": 23}}, the form in which Spark's own Kafka source keeps them in its checkpoints. What
counts as lost data, and what happens then, is as that source has it. Knows nothing of Spark.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hutong.foundation.errors import ExitCode, UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, Cluster, TopicPartition
from hutong.pipelines.source.fetching import data_lost
from hutong.pipelines.source.offset_rules import OffsetRule
from hutong.pipelines.source.options import Subscription
from hutong.pipelines.source.splitting import OffsetRange

Offsets = dict[TopicPartition, int]
OffsetsJson = dict[str, dict[str, int]]


def subscribed(cluster: Cluster, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
    """The partitions of a subscription, in order. Raises UsageError for topics or partitions that do not exist.

    With `missing_ok` these are left out: a stream that read them before has its own say on that.
    """
    names: Collection[str] | None = subscription.names or {partition.topic for partition in subscription.assigned}
    topics = cluster.topics(names or None)
    missing = sorted(set(names or ()) - topics.keys())
    if missing and not missing_ok:
        raise UsageError(
            f"topic {', '.join(missing)} does not exist: check the name, or create it first", ExitCode.NOINPUT
        )
    # Internal topics match only by name, as with Kafka's own pattern subscription.
    if subscription.pattern is not None:
        matches = re.compile(subscription.pattern).fullmatch
        topics = {name: topic for name, topic in topics.items() if matches(name) and not topic.is_internal}
    everything = [TopicPartition(name, index) for name, topic in sorted(topics.items()) for index in topic.partitions]
    if not subscription.assigned:
        return everything
    absent = sorted(set(subscription.assigned) - set(everything))
    if absent and not missing_ok:
        raise UsageError(
            f"partition {', '.join(map(str, absent))} does not exist: check the option assign", ExitCode.NOINPUT
        )
    return sorted(set(subscription.assigned) & set(everything))


def resolve(cluster: Cluster, partitions: Sequence[TopicPartition], rule: OffsetRule) -> Offsets:
    """The offset of each partition by a rule. Raises UsageError when the rule does not fit the partitions."""
    given = rule.offsets if rule.offsets is not None else rule.timestamps_ms
    # As Spark's own source: a partition that is left out would silently start elsewhere.
    if given is not None and set(given) != set(partitions):
        raise UsageError(_misfit(rule.option, given, partitions))
    if rule.timestamps_ms is not None:
        return _at_timestamps(cluster, rule.timestamps_ms, rule)
    if rule.timestamp_ms is not None:
        return _at_timestamps(cluster, dict.fromkeys(partitions, rule.timestamp_ms), rule)
    asked = rule.offsets if rule.offsets is not None else dict.fromkeys(partitions, rule.otherwise)
    special = {partition: at for partition, at in asked.items() if at in (EARLIEST, LATEST)}
    found = cluster.offsets(special)
    return {partition: found[partition].offset if partition in found else at for partition, at in asked.items()}


def inside_log(cluster: Cluster, offsets: Offsets, rule: OffsetRule, fail_on_data_loss: bool) -> Offsets:
    """Limit `offsets`, given as numbers by a rule, to the current ranges of the partitions.

    Raises DataLost for one outside, unless the query accepts that.
    """
    numbers = [partition for partition, offset in (rule.offsets or {}).items() if offset not in (EARLIEST, LATEST)]
    if not numbers:
        return offsets
    first = at(cluster, numbers, EARLIEST)
    # Uncommitted records are after the end that a read_committed consumer gets, and are in order.
    end = {} if cluster.settings.read_committed else at(cluster, numbers, LATEST)
    held = {}
    for partition in numbers:
        low, high = first[partition], end.get(partition, offsets[partition])
        held[partition] = min(max(offsets[partition], low), max(low, high))
        if held[partition] != offsets[partition] and fail_on_data_loss:
            raise data_lost(
                f"{rule.option} asks for offset {offsets[partition]} of {partition}, which begins at {low}"
                + (f" and ends at {high}" if offsets[partition] > high else "")
            )
    return offsets | held


def begin_at(cluster: Cluster, ranges: Sequence[OffsetRange], since_ms: int) -> list[OffsetRange]:
    """The ranges from the first record on that is as young; none of a partition that has no such record."""
    found = cluster.offsets({one.partition: since_ms for one in ranges})
    return [
        one._replace(first=max(one.first, found[one.partition].offset))
        for one in ranges
        if found[one.partition].offset >= 0
    ]


def at(cluster: Cluster, partitions: Iterable[TopicPartition], position: int) -> Offsets:
    """`EARLIEST` or `LATEST` of each partition."""
    return {
        partition: found.offset for partition, found in cluster.offsets(dict.fromkeys(partitions, position)).items()
    }


def settled(
    look: Callable[[], Offsets], known: Mapping[TopicPartition, int], again: int, pause: Callable[[], None]
) -> Offsets:
    """Return the result of `look`.

    While it contradicts known offsets, repeat it up to `again` times, each after a `pause`.

    A partition that is gone or ends before an offset that was reached may be a broker with stale metadata (KAFKA-7703);
    if it stays so, the data is lost.
    """
    offsets = look()
    while again > 0 and any(offsets.get(partition, -1) < reached for partition, reached in known.items()):
        pause()
        offsets = look()
        again -= 1
    return offsets


def with_new(cluster: Cluster, start: Offsets, end: Iterable[TopicPartition], fail_on_data_loss: bool) -> Offsets:
    """`start`, with partitions that came since at their beginning. Raises DataLost when that is not their first record.

    `fail_on_data_loss` off accepts that.
    """
    new = at(cluster, [partition for partition in end if partition not in start], EARLIEST)
    late = {partition: offset for partition, offset in new.items() if offset != 0}
    # A new partition begins at 0, unless retention has removed its first records already.
    if late and fail_on_data_loss:
        named = ", ".join(f"{partition} starts from offset {offset}" for partition, offset in sorted(late.items()))
        raise data_lost(f"a partition was added and {named} instead of 0")
    return start | new


def ranges_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], fail_on_data_loss: bool
) -> list[OffsetRange]:
    """Return the ranges between two positions of a stream.

    Raises DataLost for partitions that vanished or went backwards, unless the query accepts that.
    """
    vanished = sorted(start.keys() - end.keys())
    backwards = sorted(partition for partition in start.keys() & end.keys() if end[partition] < start[partition])
    if fail_on_data_loss and vanished:
        raise data_lost(f"partition {', '.join(map(str, vanished))} is gone")
    # The topic was deleted and created again, or an unclean election cut it.
    if fail_on_data_loss and backwards:
        changes = ", ".join(f"{one} was changed from {start[one]} to {end[one]}" for one in backwards)
        raise data_lost(f"the offset of {changes}")
    ranges = (OffsetRange(partition, start.get(partition, 0), end[partition]) for partition in sorted(end))
    return [one for one in ranges if one.size > 0]


def ranges_from(start: Offsets, end: Offsets, starting: OffsetRule, ending: OffsetRule) -> list[OffsetRange]:
    """Return the ranges of a batch. Raises UsageError if a start, by its rule, is after the end."""
    after = next((partition for partition in sorted(start) if start[partition] > end[partition]), None)
    if after is not None:
        raise UsageError(
            f"{starting.option} begins at offset {start[after]} of {after}, which lies after offset {end[after]} where "
            f"{ending.option} ends: give an earlier start or a later end"
        )
    return [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(start)]


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


def _misfit(option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> str:
    missing, foreign = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    problems = [f"{', '.join(map(str, missing))} is missing"] if missing else []
    problems += [f"{', '.join(map(str, foreign))} is not read by this query"] if foreign else []
    return f"option {option} must name exactly the partitions that are read: {' and '.join(problems)}"


def _at_timestamps(cluster: Cluster, timestamps_ms: Mapping[TopicPartition, int], rule: OffsetRule) -> Offsets:
    found = cluster.offsets(timestamps_ms)
    unmatched = sorted(partition for partition, answer in found.items() if answer.offset < 0)
    # Spark's startingOffsetsByTimestampStrategy decides: an error, or the end of the partition.
    if unmatched and rule.must_match:
        names = ", ".join(map(str, unmatched))
        raise UsageError(
            f"no record of {names} is as young as option {rule.option} asks: take an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest"
        )
    return {partition: answer.offset for partition, answer in found.items() if answer.offset >= 0} | at(
        cluster, unmatched, LATEST
    )
