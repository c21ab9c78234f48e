"""A cluster as Kafka's metadata has it: brokers, what they lead and hold, and what lacks a leader or replicas.

Knows no client.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PROBLEMS_MAX: Final = 100
NAMES_MAX: Final = 1_000
NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """One partition: `leader` is NO_LEADER where it has none; the first of `replicas` is the preferred one."""

    topic: str
    number: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def is_preferred(self) -> bool:
        return not self.replicas or self.leader == self.replicas[0]

    def told(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.number,
            "leader": None if self.leader == NO_LEADER else self.leader,
            "replicas": self.replicas,
            "in_sync": self.in_sync,
        }


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A broker that is there."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """All that one question of a user tells; topics that the user may not see are not there."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[SeenBroker, ...]
    topics: tuple[str, ...] = field(repr=False)
    partitions: tuple[PlacedPartition, ...] = field(repr=False)

    @property
    def leaderless(self) -> list[PlacedPartition]:
        return [one for one in self.partitions if one.leader == NO_LEADER]

    @property
    def under_replicated(self) -> list[PlacedPartition]:
        return [one for one in self.partitions if one.is_under_replicated]

    @property
    def not_preferred(self) -> list[PlacedPartition]:
        return [one for one in self.partitions if one.leader != NO_LEADER and not one.is_preferred]

    def summary(self) -> dict[str, Any]:
        """The counts of the whole."""
        return {
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "brokers": len(self.brokers),
            "topics": len(self.topics),
            "partitions": len(self.partitions),
            "leaderless": len(self.leaderless),
            "under_replicated": len(self.under_replicated),
            "not_preferred": len(self.not_preferred),
        }

    def told_brokers(self) -> list[dict[str, Any]]:
        """Each broker; one that has replicas and is not there has no address."""
        leaders = Counter(one.leader for one in self.partitions)
        replicas = Counter(broker for one in self.partitions for broker in one.replicas)
        in_sync = Counter(broker for one in self.partitions for broker in one.in_sync)
        preferred = Counter(one.replicas[0] for one in self.partitions if one.replicas)
        here = {broker.id: broker for broker in self.brokers}
        return [
            {
                "id": number,
                "address": f"{here[number].host}:{here[number].port}" if number in here else None,
                "rack": here[number].rack if number in here else None,
                "is_controller": number == self.controller,
                "leaders": leaders[number],
                "preferred_leaders": preferred[number],
                "replicas": replicas[number],
                "behind": replicas[number] - in_sync[number],
            }
            for number in sorted({*here, *replicas})
        ]

    def problems(self) -> list[dict[str, Any]]:
        """The partitions that lack a leader or replicas, at most PROBLEMS_MAX."""
        lacking = [*self.leaderless, *(one for one in self.under_replicated if one.leader != NO_LEADER)]
        return [one.told() for one in lacking[:PROBLEMS_MAX]]


def cluster_of(described: Any, metadata: Any) -> SeenCluster:
    """From the answers of the client library to `describe_cluster` and `list_topics`."""
    brokers = tuple(SeenBroker(node.id, node.host, node.port, node.rack or None) for node in described.nodes)
    controller = described.controller
    partitions = tuple(_partitions(metadata.topics))
    number = None if controller is None or controller.id < 0 else controller.id
    return SeenCluster(described.cluster_id, number, brokers, tuple(sorted(metadata.topics)), partitions)


def _partitions(topics: Mapping[str, Any]) -> Iterable[PlacedPartition]:
    for name, topic in sorted(topics.items()):
        for number, one in sorted(topic.partitions.items()):
            yield PlacedPartition(name, number, one.leader, tuple(one.replicas), tuple(one.isrs))
