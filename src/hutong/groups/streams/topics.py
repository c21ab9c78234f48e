"""The tasks of a topology with the topics that exist, and the topics that are missing or do not fit.

Strategy: in this order, as Kafka does. Source topics must exist. A repartition topic without a fixed number of
partitions has as many as the largest topic that its writers read. Topics of a co-partition group have the same number,
to which repartition topics of the group without a fixed one are set. A subtopology has as many tasks as its largest
topic has partitions, and its changelogs as many partitions as it has tasks. Internal topics that are missing are to be
created; those that exist must have that number.

Pure. Knows nothing of members.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from hutong.foundation.errors import HutongError
from hutong.groups.streams.topology import InternalTopic, Subtopology, Topology

NAMES_SHOWN_MAX: Final = 20  # in the text for people


class StatusCode(IntEnum):
    """News for a member in addition to its tasks; the numbers are Kafka's."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Status:
    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class NewTopic:
    """An internal topic that is to be created."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with its topics. Without a `problem` every task can run."""

    problem: Status | None = None
    task_counts: Mapping[str, int] = field(default_factory=dict)  # by subtopology; empty where it is not known
    partition_counts: Mapping[str, int] = field(default_factory=dict)  # of the topics that tasks read and restore
    to_create: tuple[NewTopic, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Misfit(HutongError):
    """The topics do not fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, count_of: Callable[[str], int | None], tasks_max: int) -> ConfiguredTopology:
    """Look up the topics by `count_of`, which gives None for a missing one."""
    try:
        counts = _source_counts(topology, count_of)
        _count_repartition_topics(topology, counts)
        for each in topology.subtopologies:
            for group in each.copartition_groups:
                _copartition(group, topology.internal_topics, counts)
        task_counts = {
            each.subtopology_id: max(counts[name] for name in each.read_topics) for each in topology.subtopologies
        }
        _check_task_count(task_counts, tasks_max)
        for each in topology.subtopologies:
            counts.update(dict.fromkeys(_changelog_names(each), task_counts[each.subtopology_id]))
        missing = _missing_topics(topology.internal_topics, counts, count_of)
    except _Misfit as misfit:
        return ConfiguredTopology(misfit.status)
    problem = None
    if missing:
        detail = f"Internal topics are missing: [{_listed([topic.name for topic in missing])}]"
        problem = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    # With missing internal topics sizes are known all the same, and are described.
    return ConfiguredTopology(problem, task_counts, counts, missing)


def _source_counts(topology: Topology, count_of: Callable[[str], int | None]) -> dict[str, int]:
    names = {name for each in topology.subtopologies for name in each.source_topics}
    found = {name: count_of(name) for name in sorted(names)}
    # The application's own topics are never created for it: a misspelt name would make an empty one.
    missing = [name for name, count in found.items() if count is None]
    if missing:
        raise _Misfit(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_listed(missing)} are missing.")
    return {name: count for name, count in found.items() if count is not None}


def _count_repartition_topics(topology: Topology, counts: dict[str, int]) -> None:
    """Add the number of partitions of every repartition topic. `topology.problem_of` has found that this ends."""
    waiting = {topic.name: topic for each in topology.subtopologies for topic in each.repartition_topics}
    while waiting:
        # A topic that waits for another one gets its turn in a later round.
        for name, topic in list(waiting.items()):
            reads = [read for writer in topology.writers.get(name, ()) for read in writer.read_topics]
            if topic.partition_count:
                counts[name] = topic.partition_count
            elif all(read in counts for read in reads):
                counts[name] = max(counts[read] for read in reads)
            else:
                continue
            del waiting[name]


def _copartition(group: Iterable[str], internal: Mapping[str, InternalTopic], counts: dict[str, int]) -> None:
    names = sorted(group)
    fixed = {name: counts[name] for name in names if name not in internal or internal[name].partition_count}
    if len(set(fixed.values())) > 1:
        pairs = [f"{name}:{count}" for name, count in fixed.items()]
        raise _Misfit(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{_listed(pairs)}]",
        )
    # Repartition topics are made to fit; if all of them are free, the widest one decides.
    common = next(iter(fixed.values())) if fixed else max((counts[name] for name in names), default=0)
    counts.update(dict.fromkeys(names, common))


def _check_task_count(task_counts: Mapping[str, int], tasks_max: int) -> None:
    # Topics may grow after the group was made, so this is a problem of topics, not of the request.
    tasks = sum(task_counts.values())
    if tasks > tasks_max:
        detail = f"The topics of the topology make {tasks} tasks; a streams group has at most {tasks_max} here."
        raise _Misfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _changelog_names(subtopology: Subtopology) -> list[str]:
    return [topic.name for topic in subtopology.own_changelogs]


def _missing_topics(
    internal: Mapping[str, InternalTopic], counts: Mapping[str, int], count_of: Callable[[str], int | None]
) -> tuple[NewTopic, ...]:
    missing = []
    for name, topic in sorted(internal.items()):
        found, expected = count_of(name), counts[name]
        if found is None:
            missing.append(NewTopic(name, expected, topic.replication_factor, topic.configs))
        # Records of one key would be in a partition that the task of this key does not read.
        elif found != expected:
            raise _Misfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, found {found}",
            )
    return tuple(missing)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown
