"""Groups as kafka_exporter shows them, their lag in seconds, and share groups.

Knows nothing of members' protocols.
"""

from collections.abc import Callable, Iterator
from typing import Final

from hutong.groups.directory import GroupKind
from hutong.server.monitoring.exposition import braced
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, LabelsReady, Metric, Surveyed, metric, surveyed
from hutong.server.monitoring.sources import Sources
from hutong.server.monitoring.survey.result import FOLDED, OFFSET_LABELS, SHARE_LABELS, OffsetRow, Survey

_STATES: Final = {
    "preparingrebalance": "PreparingRebalance",
    "completingrebalance": "CompletingRebalance",
    "stable": "Stable",
    "empty": "Empty",
    "dead": "Dead",
}


def _offsets(read: Callable[[OffsetRow], int]) -> Callable[[Survey], LabelsReady]:
    return lambda survey: ((row.labels, read(row)) for row in survey.offsets)


def _ages(survey: Survey) -> Iterator[tuple[str, float]]:
    return ((row.labels, row.age_ms / 1000) for row in survey.offsets if row.age_ms is not None)


def _shared(read: Callable[[OffsetRow], int]) -> Callable[[Survey], LabelsReady]:
    return lambda survey: ((row.labels, read(row)) for row in survey.share_offsets)


def _shared_ages(survey: Survey) -> Iterator[tuple[str, float]]:
    return ((row.labels, row.age_ms / 1000) for row in survey.share_offsets if row.age_ms is not None)


_SHARE: Final = GroupKind.SHARE.value


def _states(survey: Survey) -> Iterator[tuple[str, int]]:
    return ((braced(("kind", "state"), key), count) for key, count in sorted(survey.states.items()))


def _count(survey: Survey, state: str) -> int:
    return sum(count for (kind, named), count in survey.states.items() if named == state and kind != _SHARE)


def _in_state(state: str) -> Callable[[Survey], LabelsReady]:
    """Groups of consumers, as Kafka's own figure counts them."""
    return lambda survey: [("", _count(survey, state))]


def _rebalances(sources: Sources) -> Labelled:
    if sources.broker is not None:
        shards = sources.broker.shards
        yield (GroupKind.CLASSIC.value,), sum(shard.groups.rebalances_total for shard in shards)
        yield (GroupKind.CONSUMER.value,), sum(shard.consumer_groups.rebalances_total for shard in shards)
        yield (GroupKind.STREAMS.value,), sum(shard.streams_groups.rebalances_total for shard in shards)


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_group_rebalances_total",
        COUNTER,
        "Rebalances of groups of consumers, by the kind of group.",
        _rebalances,
        "kind",
    ),
)

SURVEYED: Final[tuple[Surveyed, ...]] = (
    surveyed(
        "kafka_consumergroup_members",
        GAUGE,
        "Members of a group of consumers.",
        lambda survey: ((row.labels, row.members) for row in survey.groups),
        "consumergroup",
    ),
    surveyed(
        "kafka_consumergroup_current_offset",
        GAUGE,
        "Offset that a group has committed.",
        _offsets(lambda row: row.offset),
        *OFFSET_LABELS,
    ),
    surveyed(
        "kafka_consumergroup_lag",
        GAUGE,
        "Offsets between that and the newest record that can be read.",
        _offsets(lambda row: row.lag),
        *OFFSET_LABELS,
    ),
    surveyed(
        "kafka_consumergroup_lag_seconds",
        GAUGE,
        "Age of the next record that the group has to read; 0 without lag. By the records' timestamps, about.",
        _ages,
        *OFFSET_LABELS,
    ),
    surveyed("hutong_groups", GAUGE, "Groups by kind and state.", _states, "kind", "state"),
    surveyed(
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        GAUGE,
        "Groups of consumers.",
        lambda survey: [("", sum(n for (kind, _), n in survey.states.items() if kind != _SHARE))],
    ),
    *(
        surveyed(
            f"kafka_coordinator_group_groupmetadatamanager_numgroups{word}",
            GAUGE,
            f"Groups of consumers in the state {state}.",
            _in_state(state),
        )
        for word, state in _STATES.items()
    ),
    surveyed(
        "hutong_sharegroup_members",
        GAUGE,
        "Members of a share group.",
        lambda survey: ((row.labels, row.members) for row in survey.share_groups),
        "sharegroup",
    ),
    surveyed(
        "hutong_sharegroup_start_offset",
        GAUGE,
        "Offset before which a share group is done with everything.",
        _shared(lambda row: row.offset),
        *SHARE_LABELS,
    ),
    surveyed(
        "hutong_sharegroup_lag",
        GAUGE,
        "Offsets behind that which it is not done with.",
        _shared(lambda row: row.lag),
        *SHARE_LABELS,
    ),
    surveyed(
        "hutong_sharegroup_lag_seconds",
        GAUGE,
        "Age of the oldest record that it is not done with; 0 without lag. By the records' timestamps, about.",
        _shared_ages,
        *SHARE_LABELS,
    ),
    surveyed(
        "hutong_metrics_folded",
        GAUGE,
        "What is summed under `(other)` because it is beyond a bound of `[metrics]`, by kind.",
        lambda survey: ((braced(("kind",), (kind,)), survey.folded[kind]) for kind in FOLDED),
        "kind",
    ),
)
