"""The places at which clients find the state of a streams group (interactive queries).

Strategy: the partitions behind the endpoint of each client that has one.

Pure.
"""

from collections.abc import Iterable

from hutong.groups.streams.core import StreamsGroupCore
from hutong.groups.streams.messages import EndpointPartitions, TaskRole


def endpoints_of(group: StreamsGroupCore) -> tuple[EndpointPartitions, ...]:
    """The partitions of every member that has an endpoint."""
    return tuple(
        EndpointPartitions(
            member.endpoint,
            _partitions(group, member.tasks(TaskRole.ACTIVE)),
            _partitions(group, member.tasks(TaskRole.STANDBY)),
        )
        for member in group.members.values()
        if member.endpoint is not None
    )


def _partitions(group: StreamsGroupCore, tasks: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """The partitions that these tasks read: task 3 reads partition 3 of each topic that has one."""
    # Before the first member, and after records of another version.
    if group.topology is None:
        return {}
    topics = {each.subtopology_id: each.read_topics for each in group.topology.subtopologies}
    counts = group.configured.partition_counts
    found: dict[str, list[int]] = {}
    # A task of a wide subtopology has no partition in its narrower topics.
    for subtopology, index in sorted(tasks):
        for name in topics.get(subtopology, ()):
            if index < counts.get(name, 0):
                found.setdefault(name, []).append(index)
    return {name: tuple(indexes) for name, indexes in found.items()}
