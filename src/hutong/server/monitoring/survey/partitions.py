"""Topics and their partitions: offsets and sizes.

Strategy: the topics that this process has known longest are shown singly, so that a new one changes no other's series.
A topic whose partitions would exceed the bound is shown as one sum; topics beyond theirs, as one sum together.

Knows nothing of groups.
"""

from collections.abc import Iterator

from hutong.broker.topics.catalogue import Topics
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
        self.newest = self.oldest = self.bytes = self.copies = 0

    def add(self, partition: Partition) -> None:
        log = partition.log
        self.newest += log.high_watermark
        self.oldest += log.start_offset
        self.bytes += log.held_bytes
        self.copies += 1

    def row(self, topic: str) -> PartitionRow:
        labels = braced(PARTITION_LABELS, (topic, OTHER))
        return PartitionRow(labels, self.newest, self.oldest, self.bytes, self.copies, is_single=False)


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
        if own.copies:
            survey.partitions.append(own.row(topic.name))
            survey.folded["partitions"] += own.copies
    if rest.copies:
        survey.topics.append(TopicRow(braced(("topic",), (OTHER,)), rest.copies, None))
        survey.partitions.append(rest.row(OTHER))
        survey.folded["partitions"] += rest.copies


def _row(topic: str, partition: Partition) -> PartitionRow:
    log = partition.log
    labels = braced(PARTITION_LABELS, (topic, str(partition.index)))
    return PartitionRow(labels, log.high_watermark, log.start_offset, log.held_bytes, 1, is_single=True)
