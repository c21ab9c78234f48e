"""A topology between its form on the wire, which its record has too, and ours.

Pure. Raises Refused for indexes that point to no topic.
"""

from collections.abc import Iterable, Sequence

from hutong.foundation.errors import Refused
from hutong.groups.streams import topology as ours
from hutong.wire.kafka.apis import k88_streams_group_heartbeat as wire
from hutong.wire.kafka.apis.streams_shared import KeyValue, TopicInfo
from hutong.wire.kafka.error_codes import ErrorCode


def decoded(epoch: int, subtopologies: Iterable[wire.Subtopology]) -> ours.Topology:
    """Bring a topology into its one form. Raises Refused(STREAMS_INVALID_TOPOLOGY)."""
    return ours.Topology(epoch, tuple(sorted(map(_decoded, subtopologies), key=lambda each: each.subtopology_id)))


def _decoded(each: wire.Subtopology) -> ours.Subtopology:
    # Indexes are positions in the lists as sent, which are sorted afterwards: so groups are kept by name.
    groups = []
    for group in each.copartition_groups:
        if group.source_topic_regex:
            raise _invalid("Patterns of source topics are not supported.")
        names = _at(each.source_topics, group.source_topics)
        names += _at([topic.name for topic in each.repartition_source_topics], group.repartition_source_topics)
        groups.append(tuple(sorted(set(names))))
    return ours.Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=tuple(sorted(set(each.source_topics))),
        sink_topics=tuple(sorted(set(each.repartition_sink_topics))),
        repartition_topics=_internal(each.repartition_source_topics),
        changelog_topics=_internal(each.state_changelog_topics),
        copartition_groups=tuple(sorted(groups)),
    )


def _at(names: Sequence[str], indexes: Iterable[int]) -> list[str]:
    try:
        # A negative index would count from the end in Python.
        return [names[index] for index in indexes if index >= 0 or _out_of_range()]
    except IndexError:
        raise _invalid("A co-partition group names a topic that its subtopology does not have.") from None


def _out_of_range() -> bool:
    raise IndexError


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _internal(topics: Iterable[TopicInfo]) -> tuple[ours.InternalTopic, ...]:
    # Clients build the settings in a map without an order.
    found = (
        ours.InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple(sorted((config.key, config.value) for config in topic.topic_configs)),
        )
        for topic in topics
    )
    return tuple(sorted(found, key=lambda topic: topic.name))


def encoded(topology: ours.Topology) -> list[wire.Subtopology]:
    """The subtopologies as the record has them."""
    return [_encoded(each) for each in topology.subtopologies]


def _encoded(each: ours.Subtopology) -> wire.Subtopology:
    # The indexes of our own order, in which the lists are written.
    sources = {name: index for index, name in enumerate(each.source_topics)}
    repartition = {topic.name: index for index, topic in enumerate(each.repartition_topics)}
    return wire.Subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        source_topic_regex=[],
        state_changelog_topics=encoded_topics(each.changelog_topics),
        repartition_sink_topics=list(each.sink_topics),
        repartition_source_topics=encoded_topics(each.repartition_topics),
        copartition_groups=[
            wire.CopartitionGroup(
                source_topics=[sources[name] for name in group if name in sources],
                source_topic_regex=[],
                repartition_source_topics=[repartition[name] for name in group if name not in sources],
            )
            for group in each.copartition_groups
        ],
    )


def encoded_topics(topics: Iterable[ours.InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            topic.partition_count,
            topic.replication_factor,
            [KeyValue(key, value) for key, value in topic.configs],
        )
        for topic in topics
    ]
