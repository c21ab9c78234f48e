"""Topics and their partitions: offsets and sizes.

Strategy: the topics that this process has known longest are shown singly, so that a new one changes no other's series.
A topic whose partitions would exceed the bound is shown as one sum; topics beyond theirs, as one sum together.

Knows nothing of groups.
"""

from collections.abc import Iterator

from hutong.broker.topics.catalogue import Topics
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.broker.topics.partition import Partition
from hutong.server.monitoring.exposition import braced
from hutong.server.monitoring.survey.result import (
    OTHER,
    PARTITION_LABELS,
    PartitionRow,
    StepBudget,
    Survey,
    SurveyLimits,
    TopicRow,
)


class _Sum:
    """Several partitions as one."""

    def __init__(self) -> None:
        self.newest = self.oldest = self.bytes = 0
        self.count = self.copies = self.in_sync = self.under_replicated = 0
        self.led = self.led_under_replicated = self.led_under_min = self.preferred = self.leaderless = 0

    def add(self, partition: Partition) -> None:
        log, standing = partition.log, partition.standing
        self.newest += log.high_watermark
        self.oldest += log.start_offset
        self.bytes += log.held_bytes
        self.count += 1
        self.copies += len(standing.replicas)
        self.in_sync += len(standing.in_sync)
        is_led, is_under_replicated = standing.is_led_here, len(standing.in_sync) < len(standing.replicas)
        self.under_replicated += is_under_replicated
        self.led += is_led
        self.led_under_replicated += is_led and is_under_replicated
        self.led_under_min += is_led and len(standing.in_sync) < standing.min_in_sync
        self.leaderless += standing.leader == NO_LEADER
        self.preferred += standing.leader == standing.replicas[0]

    def row(self, labels: str, leader: int = NO_LEADER, *, is_single: bool) -> PartitionRow:
        return PartitionRow(
            labels,
            self.newest,
            self.oldest,
            self.bytes,
            is_single,
            self.count,
            self.copies,
            self.in_sync,
            self.under_replicated,
            self.led,
            self.led_under_replicated,
            self.led_under_min,
            self.leaderless,
            leader,
            self.preferred,
        )


def survey_partitions(topics: Topics, limits: SurveyLimits, survey: Survey) -> Iterator[None]:
    """Fill in the topics and partitions of `survey`, a step at a time."""
    pace = StepBudget()
    rest = _Sum()
    for topic in topics.newest_last():
        is_single = len(survey.topics) < limits.topics_max
        partitions = list(topic.partitions)
        survey.topic_count += 1
        for group, log_ids in topic.groups():
            survey.partitions_of_group[group] += len(log_ids)
        room = limits.partitions_max - len(survey.partitions)
        own = _Sum()
        records = taken = served = 0
        for partition in partitions:
            if not is_single:
                rest.add(partition)
            elif len(partitions) > room:
                own.add(partition)
            else:
                survey.partitions.append(_row(topic.name, partition))
            records += partition.log.high_watermark
            taken += partition.log.taken_bytes
            served += partition.log.served_bytes
            if pace.is_over():
                yield
        if is_single:
            survey.topics.append(TopicRow(braced(("topic",), (topic.name,)), len(partitions), (records, taken, served)))
        else:
            survey.folded["topics"] += 1
        if own.count:
            survey.partitions.append(own.row(_labels(topic.name, OTHER), is_single=False))
            survey.folded["partitions"] += own.count
    if rest.count:
        survey.topics.append(TopicRow(braced(("topic",), (OTHER,)), rest.count, None))
        survey.partitions.append(rest.row(_labels(OTHER, OTHER), is_single=False))
        survey.folded["partitions"] += rest.count


def _row(topic: str, partition: Partition) -> PartitionRow:
    alone = _Sum()
    alone.add(partition)
    return alone.row(_labels(topic, str(partition.index)), partition.standing.leader, is_single=True)


def _labels(topic: str, partition: str) -> str:
    return braced(PARTITION_LABELS, (topic, partition))
