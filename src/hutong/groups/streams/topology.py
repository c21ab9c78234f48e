"""The topology of a Kafka Streams application: subtopologies, the topics that they read, and those that they need.

Strategy: a topology is brought into one form (everything sorted, co-partitioned topics by name), so that two clients
that say the same in another order are equal. What is wrong with a topology by itself is found here, before a group sees
it: duplicate or empty names, subtopologies without sources, repartition topics whose partitions follow from themselves.

Pure. Knows no topics that exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic. No partitions: their number follows from others; no factor: the default."""

    name: str
    partition_count: int = 0  # fixed by the application, 0 where it follows from others
    replication_factor: int = 0  # 0: the cluster's default
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the application whose tasks are numbered by the partitions that it reads."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    sink_topics: tuple[str, ...] = ()  # repartition topics that it writes
    repartition_topics: tuple[InternalTopic, ...] = ()  # repartition topics that it reads
    changelog_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[tuple[str, ...], ...] = ()  # topics that it reads and that have as many partitions

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics whose partitions make its tasks."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_topics))

    @property
    def own_changelogs(self) -> tuple[InternalTopic, ...]:
        """Changelogs that are not a source as well: a table may be restored from the topic that it is read from."""
        # Such a topic exists, and it is not for us to change it.
        return tuple(topic for topic in self.changelog_topics if topic.name not in self.source_topics)

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)


@dataclass(frozen=True)
class Topology:
    """All subtopologies, by id. A later version of the application has a higher epoch."""

    epoch: int  # Kafka Streams sends 0 always, so far
    subtopologies: tuple[Subtopology, ...]  # sorted by id

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """The subtopologies that read each topic."""
        found: dict[str, tuple[str, ...]] = {}
        for subtopology in self.subtopologies:
            for name in subtopology.read_topics:
                found[name] = (*found.get(name, ()), subtopology.subtopology_id)
        return found

    @cached_property
    def topic_names(self) -> frozenset[str]:
        """Every topic that the application reads, writes to itself or restores from."""
        return frozenset(name for subtopology in self.subtopologies for name in _names_of(subtopology))

    @cached_property
    def stateful(self) -> frozenset[str]:
        """The subtopologies whose tasks have state."""
        return frozenset(each.subtopology_id for each in self.subtopologies if each.is_stateful)

    @cached_property
    def writers(self) -> dict[str, tuple[Subtopology, ...]]:
        """The subtopologies that write each repartition topic."""
        found: dict[str, tuple[Subtopology, ...]] = {}
        for subtopology in self.subtopologies:
            for name in subtopology.sink_topics:
                found[name] = (*found.get(name, ()), subtopology)
        return found

    @cached_property
    def internal_topics(self) -> dict[str, InternalTopic]:
        """Repartition and changelog topics, by name."""
        return {
            topic.name: topic
            for each in self.subtopologies
            for topic in (*each.repartition_topics, *each.own_changelogs)
        }

    @cached_property
    def footprint_bytes(self) -> int:
        """About the bytes of its record: names and settings."""
        return sum(len(text) + 8 for subtopology in self.subtopologies for text in _texts_of(subtopology))


def problem_of(topology: Topology) -> str:
    """Describe what is wrong with a topology by itself; empty for a valid one."""
    # Ids name tasks in requests and records, where two of a name would be one.
    ids = [each.subtopology_id for each in topology.subtopologies]
    if not ids or not all(ids) or len(set(ids)) != len(ids):
        return "Subtopologies must have ids, each its own."
    # Without a topic to read there would be no partitions, and so no tasks.
    if any(not each.read_topics for each in topology.subtopologies):
        return "Subtopology does not contain any source topics."
    if any(not name for name in topology.topic_names):
        return "A topic name must not be empty."
    return _problem_of_internal_topics(topology) or _problem_of_counts(topology)


def _problem_of_internal_topics(topology: Topology) -> str:
    # Both kinds are created with different settings, and their sizes follow different rules.
    kinds: dict[str, str] = {}
    for each in topology.subtopologies:
        repartition = [(topic.name, "repartition") for topic in each.repartition_topics]
        for name, kind in (*repartition, *((topic.name, "changelog") for topic in each.own_changelogs)):
            # A changelog has one owner; a repartition topic may have several readers.
            if kinds.setdefault(name, kind) != kind or (kind == "changelog" and name in topology.readers):
                return f"Topic {name} is used as a repartition topic and as a changelog topic."
    if any(topic.partition_count < 0 for topic in topology.internal_topics.values()):
        return "The number of partitions of an internal topic must not be negative."
    return ""


def _problem_of_counts(topology: Topology) -> str:
    """Find repartition topics whose number of partitions follows from no source topic, by counting from the sources."""
    open_topics = {
        topic.name: topology.writers.get(topic.name, ())
        for each in topology.subtopologies
        for topic in each.repartition_topics
        if not topic.partition_count
    }
    # Nobody writes it, so no topic behind it says how wide it is.
    if not all(open_topics.values()):
        return (
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    # Each round settles what is one step further from the sources; a round that settles nothing has found a loop.
    while open_topics:
        known = [
            name
            for name, writers in open_topics.items()
            if not any(read in open_topics for writer in writers for read in writer.read_topics)
        ]
        if not known:
            return (
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        for name in known:
            del open_topics[name]
    return ""


def _names_of(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.read_topics
    yield from subtopology.sink_topics
    yield from (topic.name for topic in subtopology.changelog_topics)


def _texts_of(subtopology: Subtopology) -> Iterator[str]:
    yield subtopology.subtopology_id
    yield from _names_of(subtopology)
    for topic in (*subtopology.repartition_topics, *subtopology.changelog_topics):
        for pair in topic.configs:
            yield from pair
    for group in subtopology.copartition_groups:
        yield from group
