"""Clients' metrics that the node takes and sends on (KIP-714): how many, not what they measure.

Knows nothing of subscriptions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.broker.telemetry.receiver import Telemetry  # only a node with a collector needs it


def _one(read: "Callable[[Telemetry], int]") -> Read:
    def samples(sources: Sources) -> Labelled:
        telemetry = _of(sources)
        if telemetry is not None:
            yield (), read(telemetry)

    return samples


def _refused(sources: Sources) -> Labelled:
    telemetry = _of(sources)
    if telemetry is not None:
        for code, count in telemetry.figures.refused_total.items():
            yield (code.name.lower(),), count


def _sent(sources: Sources) -> Labelled:
    telemetry = _of(sources)
    if telemetry is not None:
        yield ("ok",), telemetry.figures.sent_total
        yield ("failed",), telemetry.figures.failed_total
        yield ("dropped",), telemetry.figures.dropped_total


def _of(sources: Sources) -> "Telemetry | None":
    return None if sources.broker is None else sources.broker.telemetry


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_telemetry_client_instances",
        GAUGE,
        "Clients that have asked for subscriptions to their metrics, as far as they are remembered.",
        _one(lambda telemetry: len(telemetry.instances)),
    ),
    metric(
        "hutong_telemetry_pushes_total",
        COUNTER,
        "Pushes of clients' metrics that were taken.",
        _one(lambda telemetry: telemetry.figures.pushes_total),
    ),
    metric(
        "hutong_telemetry_push_bytes_total",
        COUNTER,
        "Bytes of those pushes, as they came.",
        _one(lambda telemetry: telemetry.figures.push_bytes_total),
    ),
    metric(
        "hutong_telemetry_refused_total",
        COUNTER,
        "Questions and pushes that were refused, by Kafka's error.",
        _refused,
        "error",
    ),
    metric(
        "hutong_telemetry_sent_total",
        COUNTER,
        "Pushes sent on to the collector: ok, failed, or dropped since too many waited.",
        _sent,
        "result",
    ),
)
