"""The clusters that this process is connected to, kept from one Spark task to the next.

Spark's Python workers run one task at a time and many after another; to connect and look up leaders for each would cost
more than a small task. Nothing is shared between processes or threads.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hutong.foundation.clock import SystemClock
from hutong.pipelines.client.cluster import Cluster, ClusterSettings
from hutong.pipelines.client.opening import connect
from hutong.pipelines.client.transactions import TransactionClient

if TYPE_CHECKING:
    from hutong.pipelines.sink.producing import BatchProducer

CLUSTERS_MAX = 8

_clusters: dict[ClusterSettings, Cluster] = {}
_transactions: dict[ClusterSettings, TransactionClient] = {}
_producers: dict[tuple[ClusterSettings, int], "BatchProducer"] = {}  # idle ones


def shared_cluster(settings: ClusterSettings) -> Cluster:
    """The cluster with these settings; the one unused for longest is closed when there are more than `CLUSTERS_MAX`."""
    cluster = _clusters.pop(settings, None) or open_cluster(settings)
    _clusters[settings] = cluster
    if len(_clusters) > CLUSTERS_MAX:
        _clusters.pop(next(iter(_clusters))).close()
    return cluster


def shared_transactions(settings: ClusterSettings) -> TransactionClient:
    """The transactions of a cluster, over connections of their own: see `coordinators`."""
    transactions = _transactions.pop(settings, None) or TransactionClient(open_cluster(settings))
    _transactions[settings] = transactions
    if len(_transactions) > CLUSTERS_MAX:
        _transactions.pop(next(iter(_transactions))).coordinators.cluster.close()
    return transactions


def open_cluster(settings: ClusterSettings) -> Cluster:
    """Open a cluster over TCP with the machine's clock. Connects at the first request."""
    return Cluster(settings, connect, SystemClock(), time.sleep)


@contextmanager
def shared_producer(settings: ClusterSettings, timeout_ms: int) -> Iterator["BatchProducer"]:
    """A producer whose identity outlives the task: brokers remember each for days (KIP-936), and a stream runs many.

    One that met an error is not used again: what it had in flight is unknown, so its sequences are.
    """
    from hutong.pipelines.sink.producing import BatchProducer

    key = settings, timeout_ms
    producer = _producers.pop(key, None) or BatchProducer(shared_cluster(settings), SystemClock(), timeout_ms)
    yield producer
    _producers[key] = producer
