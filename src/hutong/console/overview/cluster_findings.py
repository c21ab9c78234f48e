"""Problems of a cluster, as far as Kafka's metadata tells them.

Knows no node from inside.
"""

from typing import Final

from hutong.console.nodes.cluster import NO_LEADER, SeenCluster
from hutong.console.overview.findings import FoundProblem

UNSEEN: Final = (
    "Kafka's protocol tells nothing of latency, memory and disks.",
    "A Hutong node shows them in its own console: hutong serve --console HOST:PORT.",
)


def cluster_findings(cluster: SeenCluster, *, with_partitions: bool) -> list[FoundProblem]:
    """Without a controller, and `with_partitions` without leaders or replicas: the node's own rules know those, too."""
    found = []
    if cluster.controller is None:
        sentence = "The cluster has no controller: no leader can be elected."
        remedy = "A majority of the nodes must run, and ZooKeeper must answer."
        found.append(FoundProblem("HutongNoController", "critical", sentence, remedy, "/nodes", None, is_alert=True))
    if with_partitions and (lost := cluster.leaderless):
        sentence = f"{_partitions(len(lost))} no leader. Nobody can write to them or read them."
        remedy = "Start the brokers that had all of their records."
        found.append(
            FoundProblem("HutongPartitionsOffline", "critical", sentence, remedy, "/nodes", None, is_alert=True)
        )
    if with_partitions and (lacking := [one for one in cluster.under_replicated if one.leader != NO_LEADER]):
        sentence = f"{_partitions(len(lacking))} fewer replicas in sync than they should."
        remedy = "Start the brokers that are missing, or move their replicas."
        found.append(FoundProblem("HutongUnderReplicated", "warning", sentence, remedy, "/nodes", None, is_alert=True))
    return found


def _partitions(count: int) -> str:
    return "One partition has" if count == 1 else f"{count:,} partitions have"
