"""The node as one of several: links with the others, the coordinator's session, followers, elections.

Strategy: a node alone shows none of them. Labels are groups and numbers of nodes, both of which are few.

Knows nothing of how a cluster agrees.
"""

from collections.abc import Callable
from typing import Final

from hutong.server.monitoring.exposition import Spread
from hutong.server.monitoring.metric import COUNTER, GAUGE, HISTOGRAM, SECONDS, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import ClusterSources, LinkFigures, Sources


def _of_cluster(read: Callable[[ClusterSources], int]) -> Read:
    def samples(sources: Sources) -> Labelled:
        if sources.cluster is not None:
            yield (), read(sources.cluster)

    return samples


def _each_link(read: Callable[[LinkFigures], int | float | None]) -> Read:
    def samples(sources: Sources) -> Labelled:
        links = {} if sources.cluster is None else sources.cluster.links()
        for node, figures in links.items():
            value = read(figures)
            if value is not None:
                yield (str(node),), value

    return samples


def _is_open(figures: LinkFigures) -> int:
    return int(figures.is_open)


def _round_trip_s(figures: LinkFigures) -> float | None:
    return None if figures.round_trip_us is None else figures.round_trip_us / 1e6


def _lags(sources: Sources) -> Labelled:
    for group, replica in sources.replicas.items():
        for node, lag_bytes in replica.follower_lags().items():
            yield (group, str(node)), lag_bytes


def _greatest_lag(sources: Sources) -> Labelled:
    if sources.cluster is not None:
        lags = (lag for replica in sources.replicas.values() for lag in replica.follower_lags().values())
        yield (), max(lags, default=0)


def _election_times(sources: Sources) -> Labelled:
    if sources.cluster is not None:
        yield (), Spread(sources.cluster.election_us, SECONDS)


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_coordinator_connected",
        GAUGE,
        "1 while the coordinator (ZooKeeper) answers this node.",
        _of_cluster(lambda cluster: int(cluster.is_connected())),
    ),
    metric(
        "hutong_leases_lapsed_total",
        COUNTER,
        "Partition groups that this node led and served no more, since it heard of nobody.",
        _of_cluster(lambda cluster: cluster.lapsed_leases()),
    ),
    metric(
        "kafka_controller_controllerstats_leaderelections_total",
        COUNTER,
        "Leaders of partition groups that were elected, as this node has heard since its start.",
        _of_cluster(lambda cluster: cluster.elections()),
    ),
    metric(
        "hutong_election_seconds",
        HISTOGRAM,
        "Time that groups had no leader before they got the next one, as this node has heard.",
        _election_times,
    ),
    metric(
        "kafka_server_replicafetchermanager_maxlag",
        GAUGE,
        "The most that one follower of this node lacks on its disk, in bytes (in Kafka in records, of a follower).",
        _greatest_lag,
    ),
    metric(
        "hutong_replica_lag_bytes",
        GAUGE,
        "How much of a group that this node leads is not on a follower's disk yet.",
        _lags,
        "group",
        "node",
    ),
    metric("hutong_link_open", GAUGE, "1 while there is a link with the node.", _each_link(_is_open), "node"),
    metric(
        "hutong_links_total",
        COUNTER,
        "Links with the node since the start; all but the first are reconnects.",
        _each_link(lambda figures: figures.links_total),
        "node",
    ),
    metric(
        "hutong_link_received_bytes_total",
        COUNTER,
        "Bytes that came from the node.",
        _each_link(lambda figures: figures.bytes_in_total),
        "node",
    ),
    metric(
        "hutong_link_sent_bytes_total",
        COUNTER,
        "Bytes for the node.",
        _each_link(lambda figures: figures.bytes_out_total),
        "node",
    ),
    metric(
        "hutong_link_silent_total",
        COUNTER,
        "Links with the node that ended since nothing came.",
        _each_link(lambda figures: figures.silent_total),
        "node",
    ),
    metric(
        "hutong_link_round_trip_seconds",
        GAUGE,
        "Time that the last heartbeat to the node and back took.",
        _each_link(_round_trip_s),
        "node",
    ),
)
