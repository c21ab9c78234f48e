"""Figures of what the nodes of a bus share: verticles with high availability, and counters, locks and maps.

A node without `ha_group` shows none of the first kind.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, MessagingMetric, messaging_metric
from hutong.server.monitoring.sources import MessagingFigures

if TYPE_CHECKING:
    from hutong.bus.clustered.figures import AvailabilityFigures  # only a node of a cluster needs it
    from hutong.bus.shared.figures import SharedFigures


def _available(read: Callable[["AvailabilityFigures"], int]) -> Callable[[MessagingFigures], Labelled]:
    def samples(figures: MessagingFigures) -> Labelled:
        if figures.availability is not None:
            yield (), read(figures.availability)

    return samples


def _shared(read: Callable[["SharedFigures"], int]) -> Callable[[MessagingFigures], Labelled]:
    def samples(figures: MessagingFigures) -> Labelled:
        if figures.shared is not None:
            yield (), read(figures.shared)

    return samples


def _verticles(figures: MessagingFigures) -> Labelled:
    if figures.availability is not None:
        for state, count in figures.availability.verticles.items():
            yield (state,), count


METRICS: Final[tuple[MessagingMetric, ...]] = (
    messaging_metric(
        "hutong_bus_ha_quorum",
        GAUGE,
        "1 while the group of this node has its quorum, so that verticles with high availability run.",
        _available(lambda figures: int(figures.has_quorum)),
    ),
    messaging_metric(
        "hutong_bus_ha_verticles",
        GAUGE,
        "Verticles with high availability of this node, by state.",
        _verticles,
        "state",
    ),
    messaging_metric(
        "hutong_bus_ha_failovers_total",
        COUNTER,
        "Dead nodes whose verticles this node has taken over.",
        _available(lambda figures: figures.failovers_total),
    ),
    messaging_metric(
        "hutong_bus_shared_operations_total",
        COUNTER,
        "Operations on shared counters, locks and maps.",
        _shared(lambda figures: figures.operations_total),
    ),
    messaging_metric(
        "hutong_bus_shared_failed_total",
        COUNTER,
        "Those that failed: ZooKeeper was not reached, or a lock did not come free in time.",
        _shared(lambda figures: figures.failed_total),
    ),
    messaging_metric(
        "hutong_bus_shared_under_way",
        GAUGE,
        "Those that have no outcome yet, among them waits for locks.",
        _shared(lambda figures: figures.under_way),
    ),
    messaging_metric(
        "hutong_bus_locks_held",
        GAUGE,
        "Shared locks that this process has.",
        _shared(lambda figures: figures.locks_held),
    ),
    messaging_metric(
        "hutong_bus_locks_lost_total",
        COUNTER,
        "Shared locks lost before their release: the session with ZooKeeper may have ended.",
        _shared(lambda figures: figures.locks_lost_total),
    ),
)
