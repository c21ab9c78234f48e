"""Security: handshakes and authentications that failed, certificates, and requests that were denied.

Strategy: a package that refuses counts its refusals. Kafka's own two totals add handshakes and SASL together, as its
brokers do.

Knows nothing of users or rules.
"""

from collections.abc import Callable
from typing import Final

from hutong.reactor.figures import ReactorFigures
from hutong.security.acls import ResourceType
from hutong.security.sasl.figures import SaslFigures
from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources


def _reactor(read: Callable[[ReactorFigures], int]) -> Read:
    return lambda sources: [((), read(sources.reactor))] if sources.reactor is not None else []


def _handshakes_failed(sources: Sources) -> Labelled:
    if sources.reactor is not None:
        for reason, count in sources.reactor.handshakes_failed_total.items():
            yield (reason.name.lower(),), count


def _expires(sources: Sources) -> Labelled:
    if sources.certificates is not None and sources.certificates.expires_at_ms is not None:
        yield (), sources.certificates.expires_at_ms / 1000


def _crl_expires(sources: Sources) -> Labelled:
    if sources.certificates is not None and sources.certificates.crl_expires_at_ms is not None:
        yield (), sources.certificates.crl_expires_at_ms / 1000


def _reloads(sources: Sources) -> Labelled:
    if sources.certificates is not None:
        yield ("ok",), sources.certificates.reloads_total
        yield ("failed",), sources.certificates.reloads_failed_total


def _by_mechanism(read: Callable[[SaslFigures], dict[str, int]]) -> Read:
    def samples(sources: Sources) -> Labelled:
        if sources.sasl is not None:
            for mechanism, count in read(sources.sasl).items():
                yield (mechanism,), count

    return samples


def _sasl_failed(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        for fault, count in sources.sasl.failed_total.items():
            yield (fault.value,), count


def _sasl_expired(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        yield (), sources.sasl.expired_total


def _guesses_delayed(sources: Sources) -> Labelled:
    if sources.sasl is not None:
        yield (), sources.sasl.delayed_total


def _token_keys(sources: Sources) -> Labelled:
    if sources.token_keys is not None:
        yield (), sources.token_keys.keys_count


def _token_keys_fetched(sources: Sources) -> Labelled:
    if sources.token_keys is not None:
        yield ("ok",), sources.token_keys.fetched_total
        yield ("failed",), sources.token_keys.failed_total


def _token_keys_fetched_at(sources: Sources) -> Labelled:
    if sources.token_keys is not None and sources.token_keys.fetched_at_ms is not None:
        yield (), sources.token_keys.fetched_at_ms / 1000


def _succeeded(sources: Sources) -> Labelled:
    if sources.reactor is not None and sources.sasl is not None:
        yield (), sources.reactor.handshakes_total + sum(sources.sasl.succeeded_total.values())


def _failed(sources: Sources) -> Labelled:
    if sources.reactor is not None and sources.sasl is not None:
        handshakes = sum(sources.reactor.handshakes_failed_total.values())
        yield (), handshakes + sum(sources.sasl.failed_total.values())


def _denied(sources: Sources) -> Labelled:
    if sources.broker is not None:
        for kind, count in sources.broker.authorizer.denied_total.items():
            if kind not in (ResourceType.UNKNOWN, ResourceType.ANY):
                yield (kind.name.lower(),), count


def _allowed(sources: Sources) -> Labelled:
    if sources.broker is not None:
        yield (), sources.broker.authorizer.allowed_total


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "kafka_server_socket_server_metrics_successful_authentication_total",
        COUNTER,
        "TLS handshakes and SASL authentications that succeeded.",
        _succeeded,
    ),
    metric(
        "kafka_server_socket_server_metrics_failed_authentication_total",
        COUNTER,
        "TLS handshakes and SASL authentications that failed.",
        _failed,
    ),
    metric(
        "hutong_tls_handshakes_total",
        COUNTER,
        "TLS handshakes that were finished.",
        _reactor(lambda reactor: reactor.handshakes_total),
    ),
    metric("hutong_tls_handshakes_failed_total", COUNTER, "Those that came to nothing.", _handshakes_failed, "reason"),
    metric(
        "hutong_tls_certificate_expiry_timestamp_seconds",
        GAUGE,
        "When this node's certificate ends, in Unix time.",
        _expires,
    ),
    metric(
        "hutong_tls_crl_expiry_timestamp_seconds",
        GAUGE,
        "When the first of the revocation lists ends, in Unix time; from then on its authority's clients are refused.",
        _crl_expires,
    ),
    metric(
        "hutong_tls_certificate_loads_total",
        COUNTER,
        "Changes of certificates' and revocation lists' files: loaded (ok), or failed where they could not be used.",
        _reloads,
        "result",
    ),
    metric(
        "hutong_sasl_authentications_total",
        COUNTER,
        "Clients that authenticated.",
        _by_mechanism(lambda figures: figures.succeeded_total),
        "mechanism",
    ),
    metric(
        "hutong_sasl_reauthentications_total",
        COUNTER,
        "Re-authentications on the same connection (KIP-368).",
        _by_mechanism(lambda figures: figures.again_total),
        "mechanism",
    ),
    metric(
        "hutong_sasl_authentication_failures_total",
        COUNTER,
        "Clients who were not authenticated; `credentials` is a wrong user or password, `token` an access token.",
        _sasl_failed,
        "reason",
    ),
    metric(
        "hutong_sasl_guesses_delayed_total",
        COUNTER,
        "Checks of passwords that had to wait, because the user had failed before.",
        _guesses_delayed,
    ),
    metric("hutong_oauth_keys", GAUGE, "Keys of the provider of access tokens that are in use.", _token_keys),
    metric(
        "hutong_oauth_key_fetches_total",
        COUNTER,
        "Fetches of that provider's keys: ok, or failed, after which the keys of before stay in use.",
        _token_keys_fetched,
        "result",
    ),
    metric(
        "hutong_oauth_keys_fetched_timestamp_seconds",
        GAUGE,
        "When those keys were last fetched, in Unix time.",
        _token_keys_fetched_at,
    ),
    metric(
        "hutong_sasl_expired_connections_total",
        COUNTER,
        "Connections closed because they were used after their session had ended.",
        _sasl_expired,
    ),
    metric(
        "hutong_authorization_denied_total",
        COUNTER,
        "What the ACLs refused, by the kind of resource.",
        _denied,
        "resource",
    ),
    metric(
        "hutong_authorization_allowed_total",
        COUNTER,
        "What the ACLs were asked and allowed; nothing is asked on a node that does not authorize.",
        _allowed,
    ),
)
