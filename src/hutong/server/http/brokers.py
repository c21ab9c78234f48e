"""The brokers that a part of a node reaches as a Kafka client: those it names, or a listener of the node itself.

Decides nothing about requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.bus.node_log import bootstrap_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.server.configuration.settings import Settings
    from hutong.server.listeners.plans import OpenListener

PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def client_properties(
    section: str, log: str, named: Mapping[str, str], listeners: Sequence[OpenListener], settings: Settings
) -> dict[str, Any]:
    """Properties by which the part of this section reaches brokers. Raises UsageError where they cannot be made up.

    Of several listeners of the node one with SASL is asked first: where there are users, they are asked for.
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
        own |= {"security.protocol": found.protocol.value, "sasl.mechanism": _mechanism(section, settings)}
    return {**shared, **own, **named}


def asks_for_login(properties: Mapping[str, Any]) -> bool:
    """True where each user brings name and password."""
    has_sasl = str(properties.get("security.protocol", "")).upper().startswith("SASL")
    return has_sasl and "sasl.username" not in properties


def _mechanism(section: str, settings: Settings) -> str:
    """The first that takes a name and a password. Raises UsageError."""
    enabled = settings.sasl.enabled_mechanisms
    found = next((name for name in enabled if name in PASSWORD_MECHANISMS), None)
    if found is None:
        raise UsageError(
            f"{section}.listen logs users in with {' or '.join(PASSWORD_MECHANISMS)}; "
            "sasl.enabled_mechanisms has neither.",
            ExitCode.CONFIG,
        )
    return found
