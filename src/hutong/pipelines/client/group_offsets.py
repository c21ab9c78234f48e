"""Offsets of a consumer group that has no members: committed and fetched as a simple consumer does.

Ordinary lag tools see the progress that a query commits this way. The query never reads it back: it resumes from
Spark's checkpoint. The sink keeps notes in the metadata of offsets.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hutong.pipelines.client.cluster import TopicPartition, raise_refusal
from hutong.pipelines.client.connection import OFFSET_FETCH
from hutong.pipelines.client.coordinators import CoordinatorKind, Coordinators
from hutong.pipelines.errors import Unavailable
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from hutong.wire.kafka.error_codes import ErrorCode

GROUPS_FROM = 8
"""From this version of OffsetFetch on, groups are asked for in a list."""


class OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str = ""


def commit_offsets(
    coordinators: Coordinators, group: str, offsets: Mapping[TopicPartition, int], retry_ms: int | None = None
) -> None:
    """Commit positions for a group.

    Raises Refused, for one when the group has members; Unavailable where a topic stays unknown.
    """
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name))
        topic.partitions.append(OffsetCommitRequestPartition(index, offset, committed_metadata=""))
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))

    def attempt() -> None:
        response: OffsetCommitResponse = coordinators.connection(CoordinatorKind.GROUP, group).request(request)
        for topic in response.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                what = f"offsets of {where} cannot be committed for group {group}"
                # A coordinator may hear of a new topic after the node that has answered for it. Kafka's Java consumer
                # tries again, too.
                if partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise Unavailable(f"{what}: its coordinator does not know the topic")
                raise_refusal(partition.error_code, what)

    if offsets:
        coordinators.retrying(attempt, retry_ms)


def fetch_offsets(
    coordinators: Coordinators, group: str, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Fetch a group's committed offsets, of all or some partitions. Empty for an unknown group.

    Waits for transactions that hold offsets of these partitions. A request for all partitions covers only those with an
    offset, so it does not wait for the first offset of a partition.
    """

    def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        connection = coordinators.connection(CoordinatorKind.GROUP, group)
        is_grouped = connection.version_of(OFFSET_FETCH) >= GROUPS_FROM
        return _fetched(connection.request(_fetching(group, partitions, is_grouped)), group)

    return coordinators.retrying(attempt)


def _fetching(group: str, partitions: Sequence[TopicPartition] | None, is_grouped: bool) -> OffsetFetchRequest:
    if not is_grouped:
        topics = None if partitions is None else [OffsetFetchRequestTopic(name, [index]) for name, index in partitions]
        return OffsetFetchRequest(group, topics, require_stable=True)
    wanted = None
    if partitions is not None:
        wanted = [OffsetFetchRequestTopics(name, partition_indexes=[index]) for name, index in partitions]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)], require_stable=True)


def _fetched(response: OffsetFetchResponse, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    what = f"the offsets of group {group} cannot be read"
    raise_refusal(response.error_code, what)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    topics: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = [
        (topic.name, partition) for topic in response.topics for partition in topic.partitions
    ]
    for answer in response.groups:
        raise_refusal(answer.error_code, what)
        topics += [(topic.name, partition) for topic in answer.topics for partition in topic.partitions]
    for name, partition in topics:
        raise_refusal(partition.error_code, what)
        if partition.committed_offset >= 0:
            where = TopicPartition(name, partition.partition_index)
            found[where] = OffsetAndMetadata(partition.committed_offset, partition.metadata or "")
    return found
