"""The bounds of connections as Kafka lets a running broker change them, under its names, and what they come to.

Strategy: a setting of the node, or, where Kafka has it so, of one listener under `listener.name.NAME.`. After any
change the bounds are computed from all of them.

Knows nothing of connections.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hutong.broker.topics.topic_config import ConfigKey, ConfigType, whole
from hutong.reactor.accept.connection_quotas import RATE_MAX, ConnectionLimits, ListenerLimits

if TYPE_CHECKING:
    from hutong.broker.configs.node_configs import NodeConfigs

CONNECTIONS_MAX: Final = 20_000
PER_IP_MAX: Final = 12_000
OVERRIDES_MAX: Final = 10_000
_INT32_MAX: Final = 2**31 - 1
_CONNECTIONS: Final = "max.connections"
_PER_IP: Final = "max.connections.per.ip"
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_RATE: Final = "max.connection.creation.rate"


def overrides_of(text: str) -> dict[str, int]:
    """`ADDRESS:CONNECTIONS`, with commas between. Raises ValueError."""
    found: dict[str, int] = {}
    for item in text.split(","):
        if not item.strip():
            continue
        address, colon, count = item.strip().rpartition(":")
        if not colon or not (count.isascii() and count.isdigit()) or int(count) > _INT32_MAX:
            raise ValueError(f"{item.strip()[:100]} is not ADDRESS:CONNECTIONS")
        found[str(ipaddress.ip_address(address.strip("[]")))] = int(count)
    if len(found) > OVERRIDES_MAX:
        raise ValueError(f"more than {OVERRIDES_MAX} addresses")
    return found


def _are_overrides(text: str) -> bool:
    try:
        overrides_of(text)
    except ValueError:
        return False
    return True


_COUNT: Final = whole(0, _INT32_MAX)
NODE_KEYS: Final = (
    ConfigKey(
        _CONNECTIONS,
        ConfigType.INT,
        str(CONNECTIONS_MAX),
        _COUNT,
        "Connections of all listeners, or of one: further ones wait until another goes.",
    ),
    ConfigKey(_RATE, ConfigType.INT, str(RATE_MAX), _COUNT, "Connections accepted in a second, by all or by one."),
    ConfigKey(_PER_IP, ConfigType.INT, str(PER_IP_MAX), _COUNT, "Connections of one address: further ones are closed."),
    ConfigKey(
        _OVERRIDES,
        ConfigType.STRING,
        "",
        _are_overrides,
        "ADDRESS:CONNECTIONS with commas between: addresses (in numbers) that may have more or fewer.",
    ),
)
OF_LISTENERS: Final = frozenset((_CONNECTIONS, _RATE))
"""Settings that a listener may have in addition to the node's."""


def connection_limits(configs: NodeConfigs, listeners: Iterable[str]) -> ConnectionLimits:
    """The limits now in effect for these listeners."""
    return ConnectionLimits(
        connections_max=int(configs.value(_CONNECTIONS)),
        per_ip_max=int(configs.value(_PER_IP)),
        per_ip_overrides=overrides_of(configs.value(_OVERRIDES)),
        creation_rate_max=_rate(configs.value(_RATE)),
        listeners={name: _of_listener(configs, name) for name in listeners},
    )


def _of_listener(configs: NodeConfigs, name: str) -> ListenerLimits:
    return ListenerLimits(
        int(configs.value_of(name, _CONNECTIONS) or _INT32_MAX), _rate(configs.value_of(name, _RATE) or str(RATE_MAX))
    )


def _rate(text: str) -> int:
    return max(1, int(text))
