"""The brokers that a part of a node reaches as a Kafka client: those it names, or a listener of the node itself.

Decides nothing about requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.bus.node_log import bootstrap_of
from hutong.server.listeners.plans import planned
from hutong.server.listeners.rules import OAUTHBEARER, mechanisms_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.server.configuration.settings import Settings
    from hutong.server.listeners.plans import OpenListener

PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def client_properties(
    section: str,
    log: str,
    named: Mapping[str, str],
    listeners: Sequence[OpenListener],
    settings: Settings,
    *,
    takes_tokens: bool = False,
) -> dict[str, Any]:
    """Properties by which the part of this section reaches brokers. Raises UsageError where they cannot be made up.

    Of several listeners of the node one with SASL is asked first: where there are users, they are asked for. With
    `takes_tokens` its users may have access tokens: then the listener must take them.
    """
    shared: dict[str, Any] = {
        "client.id": f"hutong-{section}",
        "log_level": 2,
        "topic.metadata.refresh.interval.ms": 10_000,
    }
    if log:
        return {**shared, "bootstrap.servers": bootstrap_of(log, ExitCode.CONFIG), **named}
    if named:
        wanted = named.get("security.protocol", "PLAINTEXT")
        found = next((listener for listener in listeners if listener.protocol == wanted.upper()), None)
    else:
        plain = [listener for listener in listeners if not listener.protocol.has_tls]
        found = next((listener for listener in plain if listener.protocol.has_sasl), plain[0] if plain else None)
    if found is None:
        raise UsageError(
            f"{section}.listen needs a listener that it can ask: name its properties in {section}.client_config "
            f"(security.protocol, ssl.ca.location), or brokers in {section}.log.",
            ExitCode.CONFIG,
        )
    own: dict[str, Any] = {"bootstrap.servers": str(found.advertised if found.protocol.has_tls else found.bound)}
    if found.protocol.has_sasl:
        own |= {
            "security.protocol": found.protocol.value,
            "sasl.mechanism": _mechanism(section, found.name, settings, takes_tokens),
        }
    return {**shared, **own, **named}


def asks_for_login(properties: Mapping[str, Any]) -> bool:
    """True where each user brings name and password."""
    has_sasl = str(properties.get("security.protocol", "")).upper().startswith("SASL")
    return has_sasl and "sasl.username" not in properties


def takes_passwords(properties: Mapping[str, Any]) -> bool:
    """True where that is name and password, not a token alone."""
    return str(properties.get("sasl.mechanism", "")).upper() != OAUTHBEARER


def _mechanism(section: str, listener: str, settings: Settings, takes_tokens: bool) -> str:
    """The first that takes a name and a password, else that of tokens where they are taken. Raises UsageError."""
    enabled = mechanisms_of(settings.sasl, planned(settings.kafka)).get(listener, settings.sasl.enabled_mechanisms)
    if takes_tokens and OAUTHBEARER not in enabled:
        raise UsageError(
            f"{section}.oidc_issuer logs users in with {OAUTHBEARER}, which the listener {listener} does not offer: "
            "add it to sasl.enabled_mechanisms, and set oauth.jwks.",
            ExitCode.CONFIG,
        )
    found = next((name for name in enabled if name in PASSWORD_MECHANISMS), OAUTHBEARER if takes_tokens else None)
    if found is None:
        raise UsageError(
            f"{section}.listen logs users in with {' or '.join(PASSWORD_MECHANISMS)}; "
            f"the listener {listener} offers neither.",
            ExitCode.CONFIG,
        )
    return found
