"""The standing of a cluster, counted from Kafka's metadata: it works for any cluster of Kafka, too."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from hutong.cli.kafka.client import REQUEST_TIMEOUT_SECONDS, with_internal

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterStanding:
    """The nodes by number, and the partitions that lack a leader or a replica in sync."""

    cluster_id: str
    partitions: int
    nodes: Sequence[Row]
    lacking: Sequence[Row]

    @property
    def summary(self) -> str:
        leaderless = sum(row["leader"] < 0 for row in self.lacking)
        if not self.lacking:
            return f"{self.partitions} partitions, all replicas in sync"
        return f"{self.partitions} partitions, {len(self.lacking)} lack replicas in sync, {leaderless} lack a leader"

    def document(self) -> Row:
        return {
            "cluster_id": self.cluster_id,
            "partitions": self.partitions,
            "nodes": list(self.nodes),
            "lacking": list(self.lacking),
        }


def cluster_standing(admin: AdminClient) -> ClusterStanding:
    """Ask one node for all that it knows. Raises KafkaException where none answers."""
    metadata = admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    leads: Counter[int] = Counter()
    follows: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    lacking, count = [], 0
    topics = with_internal(admin, metadata.topics)  # the cluster's own partitions have replicas, too
    for name in sorted(topics):
        for index, partition in sorted(topics[name].partitions.items()):
            count += 1
            leads[partition.leader] += 1  # -1 where there is none, which no node has as its number
            follows.update(node for node in partition.replicas if node != partition.leader)
            in_sync.update(partition.isrs)
            if partition.leader < 0 or set(partition.isrs) != set(partition.replicas):
                lacking.append(
                    {
                        "topic": name,
                        "partition": index,
                        "leader": partition.leader,
                        "replicas": list(partition.replicas),
                        "in_sync": list(partition.isrs),
                    }
                )
    rows = [
        {
            "node": node,
            "address": f"{broker.host}:{broker.port}",
            "role": "controller" if node == metadata.controller_id else "node",
            "leads": leads[node],
            "follows": follows[node],
            "in_sync": in_sync[node],
        }
        for node, broker in sorted(metadata.brokers.items())
    ]
    return ClusterStanding(metadata.cluster_id or "", count, rows, lacking)
