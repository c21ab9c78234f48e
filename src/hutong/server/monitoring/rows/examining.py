"""Examinations of the batches that producers send: on the loop or on a worker, and the waiting for one.

Knows nothing of records.
"""

from collections.abc import Callable
from typing import Final

from hutong.broker.produce.examinations import Examinations
from hutong.server.monitoring.exposition import Spread
from hutong.server.monitoring.metric import COUNTER, GAUGE, HISTOGRAM, SECONDS, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources


def _figure(read: Callable[[Examinations], int]) -> Read:
    return lambda sources: [((), read(sources.broker.examinations))] if sources.broker is not None else []


def _batches(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield ("loop",), sources.broker.examinations.on_loop_total
        yield ("worker",), sources.broker.examinations.on_worker_total


def _seconds(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield ("loop",), sources.broker.examinations.loop_us / 1_000_000
        yield ("worker",), sources.broker.examinations.worker_us / 1_000_000


def _waits(sources: Sources) -> Labelled:
    if sources.broker is not None and sources.broker.examinations.wait_us.count:
        yield (), Spread(sources.broker.examinations.wait_us, SECONDS)


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_examined_batches_total",
        COUNTER,
        "Batches whose records were examined before they were appended: packed ones on the loop, and all on a worker.",
        _batches,
        "by",
    ),
    metric("hutong_examination_seconds_total", COUNTER, "Time that these examinations took.", _seconds, "by"),
    metric(
        "hutong_examinations_waiting",
        GAUGE,
        "Produce requests that wait for a worker to examine their batches; their connections are not read meanwhile.",
        _figure(lambda examinations: examinations.waiting),
    ),
    metric(
        "hutong_examination_wait_seconds", HISTOGRAM, "Time from such a request to the end of its examination.", _waits
    ),
    metric(
        "hutong_examinations_refused_total",
        COUNTER,
        "Produce requests that found the queue for a worker full; the producer was answered to try again.",
        _figure(lambda examinations: examinations.refused_total),
    ),
)
