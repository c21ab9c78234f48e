"""Connection quotas: counts and rates for the node, for each listener and for each address.

Strategy: pure decisions, one object for all acceptors that share a bound. Before a connection is taken from the
kernel's queue, `wait_ms` says whether there is room; the intake asks again then, or when notified of room (`on_room`).
Once it is taken, `enter` decides by its address. Connections above a total wait in the kernel; those above a bound of
their address do not hold up others (as Kafka has it, KIP-402 and KIP-612).

Knows nothing of sockets and clocks: times are given.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from hutong.foundation.buckets import Buckets

RATE_MAX: Final = 2**31 - 1
"""A rate that is none, as Kafka's default is."""
_WINDOW_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Bounds of one listener, in addition to those of the node."""

    connections_max: int = 2**31 - 1  # listener.name.NAME.max.connections
    creation_rate_max: int = RATE_MAX  # listener.name.NAME.max.connection.creation.rate, connections in a second


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The counts of all acceptors together."""

    connections_max: int = 10_000  # max.connections
    per_ip_max: int = 10_000  # max.connections.per.ip
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)  # max.connections.per.ip.overrides
    creation_rate_max: int = RATE_MAX  # max.connection.creation.rate, connections in a second
    listeners: Mapping[str, ListenerLimits] = field(default_factory=dict)

    def of(self, listener: str) -> ListenerLimits:
        return self.listeners.get(listener, _UNBOUNDED)


_UNBOUNDED: Final = ListenerLimits()


class ConnectionRefusal(Enum):
    """The reason for closing an accepted connection again."""

    TOO_MANY_OF_ONE_ADDRESS = "too_many_of_one_address"
    TOO_FAST_FROM_ONE_ADDRESS = "too_fast_from_one_address"


class ConnectionQuotas:
    """Counts connections. `limits` may be replaced at any time, by `set_limits`.

    `rate_of` says how many connections an address may make in a second, None where that is not bounded.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        rate_of: Callable[[str], float | None] = lambda _address: None,
        window_ms: int = _WINDOW_MS,
    ) -> None:
        self.limits = limits
        self.rate_of = rate_of
        self.on_room: list[Callable[[], None]] = []
        self.total = 0
        self._of_listener: dict[str, int] = {}
        self._of_address: dict[str, int] = {}
        self._rates = Buckets(window_ms, buckets_max=1_000)
        self._address_rates = Buckets(window_ms)

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Open connections stay, even beyond the new bounds: closing them is the acceptors' affair."""
        self.limits = limits
        self._notify_room()

    @property
    def excess(self) -> int:
        """The number of connections beyond the node's bound."""
        return max(0, self.total - self.limits.connections_max)

    def is_full(self, listener: str) -> bool:
        limits = self.limits
        return (
            self.total >= limits.connections_max
            or self._of_listener.get(listener, 0) >= limits.of(listener).connections_max
        )

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """For how long nobody is to be accepted, because connections came faster than the node or the listener may."""
        return max((self._rates.use(key, rate, 0, now_ms) for key, rate in self._rates_of(listener)), default=0)

    def enter(self, listener: str, address: str, now_ms: int) -> tuple[ConnectionRefusal, int] | None:
        """Count a connection, or say why it is to be closed, and after how many ms."""
        rate = self.rate_of(address)
        if rate is not None:
            wait_ms = self._address_rates.use_unless_owed(address, rate, 1, now_ms)
            if wait_ms:
                return ConnectionRefusal.TOO_FAST_FROM_ONE_ADDRESS, wait_ms
        for key, listener_rate in self._rates_of(listener):
            self._rates.use(key, listener_rate, 1, now_ms)
        limits, count = self.limits, self._of_address.get(address, 0)
        if count >= limits.per_ip_overrides.get(address, limits.per_ip_max):
            return ConnectionRefusal.TOO_MANY_OF_ONE_ADDRESS, 0
        self._of_address[address] = count + 1
        self._of_listener[listener] = self._of_listener.get(listener, 0) + 1
        self.total += 1
        return None

    def leave(self, listener: str, address: str) -> None:
        """One that had entered is gone."""
        self.total -= 1
        for counts, key in ((self._of_listener, listener), (self._of_address, address)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        self._notify_room()

    def open_on(self, listener: str) -> int:
        return self._of_listener.get(listener, 0)

    def _rates_of(self, listener: str) -> Iterator[tuple[tuple[str, str], int]]:
        """The rates that count for a listener, and the keys of their buckets; usually there are none."""
        node_rate, listener_rate = self.limits.creation_rate_max, self.limits.of(listener).creation_rate_max
        if node_rate < RATE_MAX:
            yield ("node", ""), node_rate
        if listener_rate < RATE_MAX:
            yield ("listener", listener), listener_rate

    def _notify_room(self) -> None:
        for listener in self.on_room:
            listener()

    def check_invariants(self) -> None:
        assert self.total == sum(self._of_listener.values()) == sum(self._of_address.values())
        assert 0 not in self._of_listener.values()
        assert 0 not in self._of_address.values()
