"""Listeners for Kafka clients as the settings describe them: `NAME://HOST:PORT`, protocol, advertised address.

Strategy: a listener's name is its protocol, unless `kafka.listener_protocols` maps it to one, as in Kafka
(`listener.security.protocol.map`). `kafka.listen` with `kafka.protocol` is the short way for a single one.

Knows nothing of sockets.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.sections.facts import Address
from hutong.server.configuration.sections.network import KafkaSettings

LISTENERS_MAX: Final = 16
_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]{1,64})://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """One listener, before it is opened. Without `advertised` its clients learn the address that it is bound to."""

    name: str
    protocol: SecurityProtocol
    address: Address
    advertised: Address | None = None

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class OpenListener:
    """A listener with the address that it is bound to, and the one that its clients learn."""

    name: str
    protocol: SecurityProtocol
    bound: Address
    advertised: Address

    def __str__(self) -> str:
        return f"{self.name}://{self.bound}"


def address_for(listeners: Sequence[OpenListener], protocol: str) -> Address:
    """The address for a client of this machine: of the first listener with this protocol, else of the first."""
    found = next((listener for listener in listeners if listener.protocol == protocol.upper()), listeners[0])
    return found.advertised if found.protocol.has_tls else found.bound  # certificates have names


def planned(kafka: KafkaSettings) -> list[ListenerPlan]:
    """The listeners in the order of the settings, the first of which a node names first. Raises UsageError."""
    if not kafka.listeners:
        protocol = SecurityProtocol(kafka.protocol)
        return [ListenerPlan(protocol, protocol, kafka.listen, kafka.advertised)]
    protocols = _protocols(kafka.listener_protocols)
    advertised = dict(_named(kafka.advertised_listeners, "kafka.advertised_listeners"))
    plans = [
        ListenerPlan(name, _protocol_of(name, protocols), address, advertised.pop(name, None))
        for name, address in _named(kafka.listeners, "kafka.listeners")
    ]
    if advertised:
        raise _wrong(f"kafka.advertised_listeners names {next(iter(advertised))}, but kafka.listeners does not")
    places = [plan.address for plan in plans if plan.address.port]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise _wrong(f"kafka.listeners has {twice} twice")
    return plans


def _named(texts: tuple[str, ...], setting: str) -> Iterator[tuple[str, Address]]:
    """Parse NAME and address of each. One text may hold several with commas, as in Kafka's own files."""
    seen: set[str] = set()
    for text in _split(texts):
        found = _LISTENER.fullmatch(text)
        if found is None or int(found[3]) > 65_535:
            raise _wrong(f"{setting} has {text[:200]!r}; write NAME://HOST:PORT, such as SSL://0.0.0.0:9093")
        name = found[1].upper()
        if name in seen:
            raise _wrong(f"{setting} has {name} twice")
        seen.add(name)
        if len(seen) > LISTENERS_MAX:
            raise _wrong(f"{setting} has more than {LISTENERS_MAX} listeners")
        yield name, Address(found[2].strip("[]") or "0.0.0.0", int(found[3]))


def _protocols(texts: tuple[str, ...]) -> Mapping[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    for text in _split(texts):
        name, colon, protocol = text.partition(":")
        if not colon or not name or protocol.upper() not in SecurityProtocol.__members__:
            raise _wrong(f"kafka.listener_protocols has {text[:200]!r}; write NAME:PROTOCOL, such as INTERNAL:SSL")
        protocols[name.upper()] = SecurityProtocol(protocol.upper())
    return protocols


def _protocol_of(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    if name in protocols:
        return protocols[name]
    if name in SecurityProtocol.__members__:
        return SecurityProtocol(name)
    wanted = ", ".join(SecurityProtocol)
    raise _wrong(f"kafka.listeners has {name}, which is none of {wanted}; say its protocol in kafka.listener_protocols")


def _split(texts: tuple[str, ...]) -> Iterator[str]:
    return (part for text in texts for part in text.replace(",", " ").split())


def _wrong(sentence: str) -> UsageError:
    return UsageError(f"{sentence}.", ExitCode.CONFIG)
