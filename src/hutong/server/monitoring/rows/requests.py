"""Figures of requests that Kafka's own exporters show, under their names.

Knows nothing of how a request is answered.
"""

from typing import Final

from hutong.server.monitoring.metric import COUNTER, Labelled, Read, metric
from hutong.server.monitoring.sources import Sources
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.registry import APIS

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
)
