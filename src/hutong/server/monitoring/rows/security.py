"""Security: handshakes and authentications that failed, and requests that were denied.

Knows nothing of certificates, users or rules: the rooms that refuse count.
"""

from typing import Final

from hutong.server.monitoring.metric import COUNTER, Labelled, Metric, metric
from hutong.server.monitoring.sources import Sources


def _handshakes(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        yield (), sources.reactor.handshakes_total


def _not_shaken(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        for failure, count in sources.reactor.handshakes_failed_total.items():
            yield (failure.name.lower(),), count


def _loads(sources: Sources) -> Labelled:
    if sources.certificates is not None:
        yield ("ok",), sources.certificates.reloads_total
        yield ("failed",), sources.certificates.reloads_failed_total


def _succeeded(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        for mechanism, count in sorted(sources.sasl.succeeded_total.items()):
            yield (mechanism,), count


def _again(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        for mechanism, count in sorted(sources.sasl.again_total.items()):
            yield (mechanism,), count


def _failed(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        for fault, count in sources.sasl.failed_total.items():
            yield (fault.value,), count


def _expired(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        yield (), sources.sasl.expired_total


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_sasl_authentications_total",
        COUNTER,
        "Connections whose client was authenticated by SASL.",
        _succeeded,
        "mechanism",
    ),
    metric(
        "hutong_sasl_reauthentications_total",
        COUNTER,
        "Sessions that went on because their client was authenticated again.",
        _again,
        "mechanism",
    ),
    metric(
        "hutong_sasl_authentication_failures_total",
        COUNTER,
        "Authentications by SASL that failed, by reason.",
        _failed,
        "reason",
    ),
    metric(
        "hutong_sasl_expired_connections_total",
        COUNTER,
        "Connections closed because they were used after their session had ended.",
        _expired,
    ),
    metric("hutong_tls_handshakes_total", COUNTER, "TLS handshakes that were finished.", _handshakes),
    metric(
        "hutong_tls_handshakes_failed_total", COUNTER, "TLS handshakes that came to nothing.", _not_shaken, "reason"
    ),
    metric("hutong_tls_certificate_loads_total", COUNTER, "Loads of changed certificates.", _loads, "result"),
)
