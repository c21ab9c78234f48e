"""Publishes a pipeline's progress for ordinary lag tools, as offsets of a consumer group.

After each batch it commits the end offsets for the pipeline's group, which has no members. If several queries read one
topic, the slowest counts. The pipeline never reads them back: it resumes from Spark's checkpoint. So a failed commit
delays a figure and nothing else.
"""

import re
from collections.abc import Mapping
from typing import Any

from hutong.foundation.errors import PeerError, UsageError
from hutong.pipelines.client.cluster import ClusterSettings, TopicPartition
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.coordinators import Coordinators
from hutong.pipelines.client.group_offsets import commit_offsets
from hutong.pipelines.declared.check.options import GROUP_OPTION, is_streaming, reader_options, topics_of
from hutong.pipelines.declared.declare.definition import TOPIC, Pipeline, Source
from hutong.pipelines.declared.run.figures import offsets_of
from hutong.pipelines.option_values import cluster_of

COMMIT_MS_MAX = 5_000


class GroupOffsets:
    """Commits the progress of a pipeline's queries; called from one thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._coordinators: dict[ClusterSettings, Coordinators] = {}
        self._reached: dict[str, dict[TopicPartition, int]] = {}
        """By query."""
        self._committed: dict[TopicPartition, int] = {}

    def commit_progress(self, document: Mapping[str, Any]) -> None:
        """Commit the offsets that one progress of a query reached, if they are the slowest of its topic."""
        reached = self._reached.setdefault(str(document.get("id")), {})
        for topic, partitions in offsets_of(document).items():
            reached |= {TopicPartition(topic, int(partition)): offset for partition, offset in partitions.items()}
        new = {where: offset for where, offset in self._slowest().items() if self._committed.get(where) != offset}
        for source in self._pipeline.sources.values():
            mine = {where: offset for where, offset in new.items() if _reads(self._pipeline, source, where.topic)}
            if mine:
                self._try(source, mine)

    def close(self) -> None:
        for coordinators in self._coordinators.values():
            coordinators.cluster.close()
        self._coordinators.clear()

    def _slowest(self) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for reached in self._reached.values():
            for where, offset in reached.items():
                offsets[where] = min(offset, offsets.get(where, offset))
        return offsets

    def _try(self, source: Source, offsets: Mapping[TopicPartition, int]) -> None:
        options = reader_options(self._pipeline, source)
        try:
            settings = cluster_of({**options, "kafka.default.api.timeout.ms": str(COMMIT_MS_MAX)})
            if settings not in self._coordinators:
                self._coordinators[settings] = Coordinators(open_cluster(settings))
            commit_offsets(self._coordinators[settings], options[GROUP_OPTION], offsets)
        except (PeerError, UsageError):
            return  # tried again with the next batch
        self._committed |= offsets


def _reads(pipeline: Pipeline, source: Source, topic: str) -> bool:
    if source.kind != TOPIC or not is_streaming(pipeline, source):
        return False
    if source.pattern is not None:
        return re.fullmatch(source.pattern, topic) is not None
    named = topics_of(source)
    return topic in named or not named  # one that chooses its topics by another option reads what it reads
