"""Units of a move: the partitions that always have the same replicas, and so move together.

    Hutong          a partition group: its partitions share a journal
    Apache Kafka    one partition

Knows no client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hutong.cluster.metadata_machine import METADATA_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hutong.cluster.controller.commands import ControllerStatus
    from hutong.console.nodes.cluster import PlacedPartition

Place = tuple[str, int]
"""A partition, by topic and number."""
Replicas = tuple[int, ...]
TOPICS_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class MoveUnit:
    """`target` are the replicas that it shall have where it is on its way; `size_bytes` is None where nobody says.

    `bytes_per_second` is the throttle of the move that is under way, 0 for none.
    """

    group: str | None
    members: tuple[Place, ...]
    replicas: Replicas
    target: Replicas | None = None
    size_bytes: int | None = None
    bytes_per_second: int = 0

    @property
    def name(self) -> str:
        if self.group is not None:
            return self.group
        topic, number = self.members[0]
        return f"{topic}/{number}"

    def told(self) -> dict[str, Any]:
        """The name and members for people: topics are cut, the count is that of all."""
        topics = sorted({topic for topic, _ in self.members})
        return {
            "name": self.name,
            "group": self.group,
            "partitions": len(self.members),
            "topics": topics[:TOPICS_SHOWN_MAX],
            "more_topics": max(0, len(topics) - TOPICS_SHOWN_MAX),
        }


def units_of_groups(status: ControllerStatus, members: Mapping[str, Mapping[str, Iterable[int]]]) -> list[MoveUnit]:
    """The partition groups of a Hutong cluster, by name; `members` are their partitions by topic.

    The metadata are left out: each node has them, and no command moves them.
    """
    return [
        MoveUnit(
            group.name,
            tuple(
                (topic, number) for topic, numbers in sorted(members.get(group.name, {}).items()) for number in numbers
            ),
            group.replicas if group.target is None else group.before,
            group.target,
            group.held_bytes,
            group.copied_bytes_per_second_max,
        )
        for group in sorted(status.groups, key=lambda each: each.name)
        if group.name != METADATA_NAME
    ]


def units_of_partitions(
    placed: Iterable[PlacedPartition], moving: Mapping[Place, Replicas], sizes: Mapping[Place, int]
) -> list[MoveUnit]:
    """Each partition on its own; `moving` has the targets of those that are on their way."""
    return [
        MoveUnit(None, (place,), one.replicas, moving.get(place), sizes.get(place))
        for one in placed
        for place in ((one.topic, one.number),)
    ]
