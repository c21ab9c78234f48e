"""The node as part of a cluster: brokers, controller, partitions without a leader, and the volume that it writes to.

Strategy: a node alone is its own controller. A partition whose group has failed counts as offline: it takes no records.

Knows nothing of requests.
"""

import platform
from collections.abc import Iterator
from functools import cache
from typing import Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Metric, Surveyed, metric, surveyed
from hutong.server.monitoring.sources import Sources
from hutong.server.monitoring.survey.result import Survey
from hutong.wire.kafka.batch.record_contents import IS_COMPILED


@cache
def _version() -> str:
    from importlib.metadata import version  # takes time that no start should wait for

    return version("hutong")


def _brokers(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield (), sources.live_nodes()


def _controllers(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield (), int(sources.broker.cluster.is_controller)


def _set_changes(number: int, sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield (), sources.set_changes()[number]


def _info(sources: Sources) -> Labelled:
    if sources.broker is not None:
        identity = sources.broker.identity
        checks = "compiled" if IS_COMPILED else "python"
        yield (_version(), platform.python_version(), str(identity.node_id), identity.cluster_id, checks), 1


def _volume(number: int, sources: Sources) -> Labelled:
    if sources.broker is not None:
        try:
            yield (), sources.broker.storage.volume_bytes()[number]
        except OSError:  # the folder cannot be reached: there is nothing to show
            return


def _failed_groups(sources: Sources) -> Labelled:
    yield (), any(journal.failure is not None for journal in sources.journals.values())


def _offline(survey: Survey) -> Iterator[tuple[str, int]]:
    """In a cluster the controller counts them, as in Kafka: so the sum over all nodes is that of the cluster."""
    if survey.is_alone:
        yield from _offline_replicas(survey)
    else:
        yield "", survey.is_controller * sum(row.leaderless for row in survey.partitions)


def _offline_replicas(survey: Survey) -> Iterator[tuple[str, int]]:
    yield "", sum(survey.partitions_of_group[group] for group in survey.failed_groups)


def _never(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield (), 0


def _clock_ahead(sources: Sources) -> Labelled:
    if sources.deletion_clock is not None:
        yield (), sources.deletion_clock.ahead_ms / 1000


_ALONE: Final = "Times that replicas {} the others in partition groups that this node led; a node alone has none."
METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_clock_ahead_seconds",
        GAUGE,
        "How far the wall clock has jumped ahead, while nothing is deleted for its age because of that; else 0.",
        _clock_ahead,
    ),
    metric("kafka_brokers", GAUGE, "Brokers of the cluster.", _brokers),
    metric(
        "hutong_node_info",
        GAUGE,
        "1, with what the node is as labels.",
        _info,
        "version",
        "python",
        "node_id",
        "cluster_id",
        "record_checks",
    ),
    metric(
        "kafka_controller_kafkacontroller_activecontrollercount",
        GAUGE,
        "1 where this node is the controller of its cluster.",
        _controllers,
    ),
    metric(
        "kafka_server_replicamanager_isrshrinks_total",
        COUNTER,
        _ALONE.format("left"),
        lambda sources: _set_changes(0, sources),
    ),
    metric(
        "kafka_server_replicamanager_isrexpands_total",
        COUNTER,
        _ALONE.format("caught up with"),
        lambda sources: _set_changes(1, sources),
    ),
    metric(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        COUNTER,
        "Elections that lost records; a node alone has none.",
        _never,
    ),
    metric(
        "kafka_log_logmanager_offlinelogdirectorycount",
        GAUGE,
        "1 once a flush has failed: a partition group refuses records.",
        _failed_groups,
    ),
    metric(
        "hutong_volume_size_bytes",
        GAUGE,
        "Size of the volume that holds the data folder.",
        lambda sources: _volume(0, sources),
    ),
    metric("hutong_volume_free_bytes", GAUGE, "What is free on it.", lambda sources: _volume(1, sources)),
)

SURVEYED: Final[tuple[Surveyed, ...]] = (
    surveyed(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        GAUGE,
        "Partitions without a leader, on the controller; on a node alone those whose partition group has failed.",
        _offline,
    ),
    surveyed(
        "kafka_server_replicamanager_offlinereplicacount",
        GAUGE,
        "Replicas of this node that take no records, since their partition group has failed.",
        _offline_replicas,
    ),
    surveyed(
        "kafka_controller_kafkacontroller_globalpartitioncount",
        GAUGE,
        "Partitions of the cluster.",
        lambda survey: [("", sum(survey.partitions_of_group.values()))],
    ),
    surveyed(
        "kafka_controller_kafkacontroller_globaltopiccount",
        GAUGE,
        "Topics of the cluster.",
        lambda survey: [("", survey.topic_count)],
    ),
)
