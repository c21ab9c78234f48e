"""Durations of requests: Kafka's seven times by API as its exporters show them, and the whole as a histogram.

Knows nothing of how they are measured.
"""

from typing import Final

from hutong.broker.dispatch.request_times import RequestTimes
from hutong.server.monitoring.exposition import Spread
from hutong.server.monitoring.metric import COUNTER, HISTOGRAM, SECONDS, SUMMARY, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources
from hutong.wire.kafka.registry import APIS

QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)
_LABELS: Final = tuple(f"{quantile:g}" for quantile in QUANTILES)
_KAFKA_NAMES: Final = {
    "requestqueuetimems": ("queue", "Time that requests waited for others of their connection, in milliseconds."),
    "localtimems": ("local", "Time that the node itself worked at requests, in milliseconds."),
    "remotetimems": ("remote", "Time that requests waited for the disk, a group, data or a timeout, in milliseconds."),
    "throttletimems": ("throttle", "Time that clients had to wait for their quotas, in milliseconds."),
    "responsequeuetimems": ("response_queue", "Time that answers waited to be written, in milliseconds."),
    "responsesendtimems": ("send", "Time that clients did not read what was written, in milliseconds."),
    "totaltimems": ("total", "Time from a request to its answer, in milliseconds."),
}


def _times(sources: Sources) -> RequestTimes:
    return sources.broker.request_times if sources.broker is not None else RequestTimes()


def _quantiles(stage: str) -> Read:
    def samples(sources: Sources) -> Labelled:
        for api_key, times in sorted(_times(sources).all.items()):
            requests = times.total.count
            if not requests:
                continue
            found = getattr(times, stage).quantiles(QUANTILES, times.zeros(stage, requests))
            for label, us in zip(_LABELS, found, strict=True):
                yield (APIS[api_key].name, label), us / 1000

    return samples


def _totals(sources: Sources) -> Labelled:
    for api_key, times in sorted(_times(sources).all.items()):
        if times.total.sum:
            yield (APIS[api_key].name,), Spread(times.total, SECONDS)


def _by_stage(sources: Sources) -> Labelled:
    for api_key, times in sorted(_times(sources).all.items()):
        for stage, _ in _KAFKA_NAMES.values():
            yield (APIS[api_key].name, stage), getattr(times, stage).sum / 1_000_000


METRICS: Final[tuple[Metric, ...]] = (
    *(
        metric(
            f"kafka_network_requestmetrics_{name}",
            SUMMARY,
            meaning,
            _quantiles(stage),
            "request",
            "quantile",
            in_steps=True,
        )
        for name, (stage, meaning) in _KAFKA_NAMES.items()
    ),
    metric(
        "hutong_request_seconds", HISTOGRAM, "Time from a request to its answer.", _totals, "request", in_steps=True
    ),
    metric(
        "hutong_request_stage_seconds_total",
        COUNTER,
        "Time that requests spent in each stage, all together.",
        _by_stage,
        "request",
        "stage",
    ),
    metric(
        "hutong_slow_requests_total",
        COUNTER,
        "Requests that took network.slow_request_ms or longer.",
        lambda sources: [((), _times(sources).slow_total)],
    ),
)
