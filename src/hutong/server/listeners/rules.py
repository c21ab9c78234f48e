"""Rules of single listeners: client certificates, and the SASL mechanisms that are offered.

Strategy: a listener goes by the node's setting unless one of its own is written as `LISTENER:VALUE`. As in Kafka, the
node's `tls.client_auth` is for listeners of SSL alone; one of SASL_SSL asks only by a setting of its own (KIP-684).

Knows nothing of sockets or certificates.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.foundation.errors import ExitCode, UsageError
from hutong.reactor.tls.server_contexts import ClientAuth
from hutong.security.sasl import plain
from hutong.security.sasl.scram_credentials import MECHANISM_NAMES
from hutong.server.configuration.sections.security import SaslSettings, TlsSettings
from hutong.server.listeners.plans import ListenerPlan

CLIENT_AUTH: Final = "ssl.client.auth"
MECHANISMS: Final = "sasl.enabled.mechanisms"
OAUTHBEARER: Final = "OAUTHBEARER"
KNOWN_MECHANISMS: Final = (plain.NAME, *MECHANISM_NAMES, OAUTHBEARER)


def client_auth_of(settings: TlsSettings, plans: Sequence[ListenerPlan]) -> dict[str, ClientAuth]:
    """By the name of each listener with TLS. Raises UsageError."""
    setting = "tls.listener_client_auth"
    with_tls = [plan for plan in plans if plan.protocol.has_tls]
    asked = {
        plan.name: ClientAuth(settings.client_auth) if plan.protocol is SecurityProtocol.SSL else ClientAuth.NONE
        for plan in with_tls
    }
    choices = [*ClientAuth]
    for name, value in _of_listeners(setting, settings.listener_client_auth, plans, asked.keys(), "TLS"):
        if value not in choices:
            raise _wrong(f"{setting} says {value[:100]!r} of {name}; choose {' or '.join(choices)}")
        asked[name] = ClientAuth(value)
    return asked


def mechanisms_of(settings: SaslSettings, plans: Sequence[ListenerPlan]) -> dict[str, tuple[str, ...]]:
    """By the name of each listener with SASL. Raises UsageError."""
    setting = "sasl.listener_enabled_mechanisms"
    _check_mechanisms("sasl.enabled_mechanisms", settings.enabled_mechanisms)
    offered = {plan.name: settings.enabled_mechanisms for plan in plans if plan.protocol.has_sasl}
    for name, value in _of_listeners(setting, settings.listener_enabled_mechanisms, plans, offered.keys(), "SASL"):
        mechanisms = tuple(part.strip() for part in value.split(",") if part.strip())
        if not mechanisms:
            raise _wrong(f"{setting} gives {name} no mechanism; name one of {', '.join(KNOWN_MECHANISMS)}")
        _check_mechanisms(setting, mechanisms)
        offered[name] = mechanisms
    return offered


def shown_rules(tls: TlsSettings, sasl: SaslSettings) -> dict[str, str]:
    """The rules of single listeners by Kafka's names, for clients that describe the node."""
    shown = {}
    for base, texts in ((CLIENT_AUTH, tls.listener_client_auth), (MECHANISMS, sasl.listener_enabled_mechanisms)):
        for text in texts:
            listener, _, value = text.partition(":")
            shown[f"listener.name.{listener.lower()}.{base}"] = value
    return shown


def _of_listeners(
    setting: str, texts: Sequence[str], plans: Sequence[ListenerPlan], fitting: Collection[str], what: str
) -> Iterator[tuple[str, str]]:
    """Each listener's name and value. Raises UsageError."""
    names = [plan.name for plan in plans]
    seen: set[str] = set()
    for text in texts:
        listener, colon, value = text.partition(":")
        name = listener.strip().upper()
        if not colon or not name:
            raise _wrong(f"{setting} has {text[:100]!r}; write LISTENER:VALUE")
        if name not in names:
            raise _wrong(f"{setting} names {name[:100]}, which is no listener; there are {', '.join(names)}")
        if name not in fitting:
            raise _wrong(f"{setting} names {name}, a listener without {what}; leave it out")
        if name in seen:
            raise _wrong(f"{setting} names {name} twice")
        seen.add(name)
        yield name, value.strip()


def _check_mechanisms(setting: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in KNOWN_MECHANISMS:
            raise _wrong(f"{setting} has {name[:100]!r}; choose from {', '.join(sorted(KNOWN_MECHANISMS))}")


def _wrong(sentence: str) -> UsageError:
    return UsageError(f"{sentence}.", ExitCode.CONFIG)
