"""Topics and partitions as kafka_exporter shows them, and what Kafka's own beans count of them.

Strategy: leaders and replicas are those of each partition's standing; a node alone is its leader and only replica.
What is summed under `(other)` counts the replicas of all its partitions.

Knows nothing of groups.
"""

from collections.abc import Callable, Iterator
from typing import Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, LabelsReady, Surveyed, surveyed
from hutong.server.monitoring.survey.result import PARTITION_LABELS, PartitionRow, Survey


def _each(read: Callable[[PartitionRow], int]) -> Callable[[Survey], LabelsReady]:
    return lambda survey: ((row.labels, read(row)) for row in survey.partitions)


def _of_one(read: Callable[[PartitionRow], int]) -> Callable[[Survey], LabelsReady]:
    """A figure that only a partition with a row of its own has."""
    return lambda survey: ((row.labels, read(row)) for row in survey.partitions if row.is_single)


def _all(read: Callable[[PartitionRow], int]) -> Callable[[Survey], LabelsReady]:
    """The sum over all partitions."""
    return lambda survey: [("", sum(read(row) for row in survey.partitions))]


def _topics(survey: Survey) -> Iterator[tuple[str, int]]:
    return ((row.labels, row.partitions) for row in survey.topics)


def _traffic(number: int) -> Callable[[Survey], LabelsReady]:
    """Of all topics together, without the label, and of each one, as Kafka's exporters show it."""

    def samples(survey: Survey) -> Iterator[tuple[str, int]]:
        yield "", survey.traffic[number]
        for row in survey.topics:
            if row.traffic is not None:
                yield row.labels, row.traffic[number]

    return samples


SURVEYED: Final[tuple[Surveyed, ...]] = (
    surveyed(
        "kafka_server_brokertopicmetrics_messagesin_total",
        COUNTER,
        "Records appended: of all topics without the label, then of each.",
        _traffic(0),
        "topic",
    ),
    surveyed(
        "kafka_server_brokertopicmetrics_bytesin_total",
        COUNTER,
        "Bytes of record batches appended: of all topics without the label, then of each.",
        _traffic(1),
        "topic",
    ),
    surveyed(
        "kafka_server_brokertopicmetrics_bytesout_total",
        COUNTER,
        "Bytes of record batches fetched: of all topics without the label, then of each.",
        _traffic(2),
        "topic",
    ),
    surveyed("kafka_topic_partitions", GAUGE, "Partitions of a topic.", _topics, "topic"),
    surveyed(
        "kafka_topic_partition_current_offset",
        GAUGE,
        "Offset behind the newest record that can be read.",
        _each(lambda row: row.newest),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_oldest_offset",
        GAUGE,
        "Offset of the oldest record that is kept.",
        _each(lambda row: row.oldest),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_log_log_size",
        GAUGE,
        "Bytes of a partition's records on disk.",
        _each(lambda row: row.bytes),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_replicas",
        GAUGE,
        "Replicas of a partition.",
        _each(lambda row: row.copies),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_in_sync_replica",
        GAUGE,
        "Replicas that have all of it.",
        _each(lambda row: row.in_sync),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_under_replicated_partition",
        GAUGE,
        "1 for a partition that has too few replicas in sync.",
        _each(lambda row: row.under_replicated),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_leader",
        GAUGE,
        "Number of the node that leads a partition.",
        _of_one(lambda row: row.leader),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_topic_partition_leader_is_preferred",
        GAUGE,
        "1 for a partition whose leader is the one it should have.",
        _of_one(lambda row: row.is_preferred),
        *PARTITION_LABELS,
    ),
    surveyed(
        "kafka_server_replicamanager_partitioncount",
        GAUGE,
        "Partitions of this node.",
        _all(lambda row: row.partitions),
    ),
    surveyed(
        "kafka_server_replicamanager_leadercount",
        GAUGE,
        "Partitions that this node leads.",
        _all(lambda row: row.led),
    ),
    surveyed(
        "kafka_server_replicamanager_underreplicatedpartitions",
        GAUGE,
        "Partitions that this node leads and that have too few replicas in sync.",
        _all(lambda row: row.led_under_replicated),
    ),
    surveyed(
        "kafka_server_replicamanager_underminisrpartitioncount",
        GAUGE,
        "Partitions that this node leads and whose replicas in sync are too few for acks=all.",
        _all(lambda row: row.led_under_min),
    ),
)
