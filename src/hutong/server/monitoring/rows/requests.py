"""Figures of requests: Kafka's under the names that its own exporters have, and those of RocketMQ's clients.

Knows nothing of how a request is answered.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hutong.broker.rocketmq.figures import RocketFigures  # only a node with that listener needs it

PRODUCE: Final = 0
FETCH: Final = 1


def _requests(sources: Sources) -> Labelled:
    for api_key, count in sorted(sources.requests_total.items()):
        yield (APIS[api_key].name,), count


def _errors(sources: Sources) -> Labelled:
    """Derive requests without an error from all others, so that nothing counts them when they are answered."""
    if sources.broker is None:
        return
    errors = sources.broker.request_errors
    for api_key, count in sorted(sources.requests_total.items()):
        if count:
            yield (APIS[api_key].name, ErrorCode.NONE.name), max(0, count - errors.failed_total.get(api_key, 0))
    for (api_key, code), count in sorted(errors.totals.items()):
        yield (APIS[api_key].name, ErrorCode(code).name), count


def _requests_of(api_key: int) -> Read:
    return lambda sources: [((), sources.requests_total.get(api_key, 0))]


def _by_code(read: "Callable[[RocketFigures], Mapping[int, int]]") -> Read:
    def samples(sources: Sources) -> Labelled:
        if sources.rocketmq is None:
            return
        from hutong.wire.rocketmq.codes import RequestCode  # late: as above

        for code, count in sorted(read(sources.rocketmq).items()):
            yield (RequestCode(code).name,), count

    return samples


def _refused(sources: Sources) -> Labelled:
    if sources.rocketmq is None:
        return
    from hutong.wire.rocketmq.codes import RequestCode  # late: as above

    for (code, answer), count in sorted(sources.rocketmq.refused_total.items()):
        yield (RequestCode(code).name, str(answer)), count


def _total(read: "Callable[[RocketFigures], float]") -> Read:
    return lambda sources: [((), read(sources.rocketmq))] if sources.rocketmq is not None else []


METRICS: Final = (
    metric("kafka_network_requestmetrics_requests_total", COUNTER, "Requests by API.", _requests, "request"),
    metric(
        "kafka_network_requestmetrics_errors_total",
        COUNTER,
        "Requests by API and by the error in their answer, once for each that it has; NONE where it has none.",
        _errors,
        "request",
        "error",
    ),
    metric(
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        COUNTER,
        "Produce requests.",
        _requests_of(PRODUCE),
    ),
    metric("kafka_server_brokertopicmetrics_totalfetchrequests_total", COUNTER, "Fetch requests.", _requests_of(FETCH)),
    metric(
        "hutong_rocketmq_requests_total",
        COUNTER,
        "Requests of RocketMQ's clients, by the name of their code.",
        _by_code(lambda figures: figures.requests_total),
        "request",
    ),
    metric(
        "hutong_rocketmq_refused_total",
        COUNTER,
        "Answers with another code than 0, by that code; pulls that find nothing are among them (19).",
        _refused,
        "request",
        "code",
    ),
    metric(
        "hutong_rocketmq_received_bytes_total",
        COUNTER,
        "Bytes in the bodies of requests.",
        _by_code(lambda figures: figures.received_bytes_total),
        "request",
    ),
    metric(
        "hutong_rocketmq_sent_bytes_total",
        COUNTER,
        "Bytes in the bodies of answers.",
        _by_code(lambda figures: figures.sent_bytes_total),
        "request",
    ),
    metric(
        "hutong_rocketmq_throttled_total",
        COUNTER,
        "Requests that waited for a quota, or were refused for it.",
        _total(lambda figures: figures.throttled_total),
    ),
    metric(
        "hutong_rocketmq_throttled_seconds_total",
        COUNTER,
        "Time that they waited.",
        _total(lambda figures: figures.throttled_ms_total / 1_000),
    ),
    metric(
        "hutong_rocketmq_signatures_refused_total",
        COUNTER,
        "Requests that were not signed by their access key.",
        _total(lambda figures: figures.signatures.refused_total),
    ),
)
