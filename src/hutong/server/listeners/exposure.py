"""Check all listeners of a node's settings before the first of them is opened.

Knows nothing of sockets: `reactor/accept/exposure.py` has the rule.
"""

import logging

from hutong.reactor.accept.exposure import check_exposure, check_kinds, is_local
from hutong.reactor.tls.server_contexts import ClientAuth
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.plans import ListenerPlan, planned
from hutong.server.listeners.rules import client_auth_of

_log = logging.getLogger("hutong.node")


def check_broker(settings: Settings) -> None:
    """Refuse plain listeners for Kafka clients on a network, unless allowed. Raises UsageError."""
    allowed = settings.security.allow_plain
    check_kinds(allowed)
    plans = planned(settings.kafka)
    client_auth = client_auth_of(settings.tls, plans)
    for plan in plans:
        check_exposure("kafka", str(plan), plan.address.host, has_tls=plan.protocol.has_tls, allowed=allowed)
        asks = client_auth.get(plan.name) is ClientAuth.REQUIRED
        _warn_of_strangers(plan, is_known=asks or plan.protocol.has_sasl, authorizes=settings.security.authorize)


def check_metrics(settings: Settings) -> None:
    """Refuse plain metrics on a network, unless allowed. Raises UsageError."""
    allowed, metrics = settings.security.allow_plain, settings.metrics.listen
    check_kinds(allowed)
    if metrics is not None:
        has_tls = settings.metrics.tls_certificate is not None
        check_exposure("metrics", f"metrics at {metrics}", metrics.host, has_tls=has_tls, allowed=allowed)


def check_rocketmq(settings: Settings) -> None:
    """Refuse a plain listener for RocketMQ's clients on a network, unless allowed. Raises UsageError."""
    allowed, listen = settings.security.allow_plain, settings.rocketmq.listen
    check_kinds(allowed)
    if listen is not None:
        # A listener that also takes connections without TLS is as open as one that takes no others.
        has_tls = settings.rocketmq.tls_certificate is not None and settings.rocketmq.tls_mode == "enforcing"
        check_exposure("rocketmq", f"RocketMQ at {listen}", listen.host, has_tls=has_tls, allowed=allowed)


def check_http(settings: Settings) -> None:
    """Refuse plain HTTP on a network, unless allowed. Raises UsageError."""
    allowed, listen = settings.security.allow_plain, settings.http.listen
    check_kinds(allowed)
    if listen is not None:
        has_tls = settings.http.tls_certificate is not None
        check_exposure("http", f"HTTP at {listen}", listen.host, has_tls=has_tls, allowed=allowed)


def check_console(settings: Settings) -> None:
    """Refuse a plain console on a network, unless allowed. Raises UsageError."""
    allowed, listen = settings.security.allow_plain, settings.console.listen
    check_kinds(allowed)
    if listen is not None:
        has_tls = settings.console.tls_certificate is not None
        check_exposure("console", f"the console at {listen}", listen.host, has_tls=has_tls, allowed=allowed)


def check_schema_registry(settings: Settings) -> None:
    """Refuse a plain schema registry on a network, unless allowed. Raises UsageError."""
    allowed, listen = settings.security.allow_plain, settings.schema_registry.listen
    check_kinds(allowed)
    if listen is not None:
        has_tls = settings.schema_registry.tls_certificate is not None
        name = f"the schema registry at {listen}"
        check_exposure("schema-registry", name, listen.host, has_tls=has_tls, allowed=allowed)


def check_bridges(settings: Settings) -> None:
    """Refuse plain bridges on a network, unless allowed. Raises UsageError."""
    allowed, has_tls = settings.security.allow_plain, settings.bridge.tls_certificate is not None
    check_kinds(allowed)
    for kind, address in (("tcp-bridge", settings.tcp_bridge.listen), ("sockjs", settings.sockjs.listen)):
        if address is not None:
            check_exposure(kind, f"the {kind} at {address}", address.host, has_tls=has_tls, allowed=allowed)


def _warn_of_strangers(plan: ListenerPlan, *, is_known: bool, authorizes: bool) -> None:
    """Warn of a listener that encrypts but admits everybody."""
    if plan.protocol.has_tls and not is_local(plan.address.host) and not (is_known or authorizes):
        _log.warning(
            "%s lets in everybody who reaches it, and nothing is authorized: ask for certificates (tls.client_auth), "
            "or use SASL_SSL.",
            plan,
        )
