"""Opens the listeners for Kafka clients: one acceptor and one dispatch for each.

Strategy: a listener's clients are told its own address, which is known once its port is. What the acceptors count is
shown together.

Decides nothing of what clients may do: `broker` does.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hutong.broker.broker import Broker
from hutong.broker.dispatch import Dispatch
from hutong.broker.kafka import HANDLERS
from hutong.broker.listeners import Listener, SecurityProtocol
from hutong.broker.network_configs import connection_limits
from hutong.foundation.clock import Clock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.acceptor import Acceptor, close_longest_idle
from hutong.reactor.connection_quotas import ConnectionQuotas
from hutong.reactor.door import Door
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.framing import length_prefixed
from hutong.reactor.memory_watch import MemoryWatch
from hutong.server import translate
from hutong.server.authenticators import Authenticators
from hutong.server.settings import Address, Settings

_EVERY_INTERFACE: Final = frozenset({"0.0.0.0", "::"})
_EXIT_UNAVAILABLE: Final = 69


class KafkaListeners:
    """What clients of one broker enter by; `open` once, then `drain` once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        clock: Clock,
        wheel: TimerWheel,
        door: Door | None,
        authenticators: Authenticators,
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._clock = clock
        self._wheel = wheel
        self._door = door
        self._memory = MemoryWatch(settings.network.memory_bytes_max, loop, clock, wheel)
        self._authenticators = authenticators
        self._acceptor: Acceptor | None = None
        self._acceptors: list[Acceptor] = []
        self._requests_total = dict.fromkeys(HANDLERS, 0)

    async def open(self, broker: Broker) -> tuple[Address, Address]:
        """Accept clients; returns where, and what they are told. Raises UsageError where an address cannot be had."""
        listen, advertised = self._settings.kafka.listen, self._settings.kafka.advertised
        protocol = SecurityProtocol.PLAINTEXT
        listener = Listener(protocol, protocol, listen.host, listen.port)
        quotas = self._share_quotas(broker, (listener.name,))
        broker.memory = self._memory.budget
        dispatch = Dispatch(broker, listener, self._requests_total)
        self._acceptor = Acceptor(
            self._loop,
            self._authenticators.before(dispatch) if protocol.has_sasl else dispatch,
            length_prefixed(),
            clock=self._clock,
            wheel=self._wheel,
            limits=translate.reactor_limits(self._settings),
            door=self._door,
            name=listener.name,
            quotas=quotas,
            memory=self._memory,
        )
        self._acceptors.append(self._acceptor)
        try:
            _, port = await self._acceptor.listen(listen.host, listen.port)
        except OSError as error:
            raise UsageError(
                f"Cannot listen on {listen}: {error.strerror}; choose another address with --kafka.", _EXIT_UNAVAILABLE
            ) from None
        shown = advertised or Address(_reachable(listen.host), port)
        dispatch.listener = replace(listener, host=shown.host, port=shown.port)
        return Address(listen.host, port), shown

    def _share_quotas(self, broker: Broker, names: Sequence[str]) -> ConnectionQuotas:
        """What all listeners go by together, now and whenever it is changed."""
        configs = broker.admin.node_configs
        quotas = ConnectionQuotas(
            connection_limits(configs, names),
            rate_of=broker.admin.quotas.connection_rate,
            window_ms=translate.quota_window_ms(self._settings),
        )

        def changed() -> None:
            limits = connection_limits(configs, names)
            if limits != quotas.limits:
                quotas.set_limits(limits)
                close_longest_idle(self._acceptors, quotas.excess)

        configs.on_change.append(changed)
        return quotas

    @property
    def figures(self) -> ReactorFigures | None:
        """Of all connections; None before any can come."""
        return self._acceptor.figures if self._acceptor is not None else None

    @property
    def memory(self) -> MemoryWatch:
        """Of all connections, together."""
        return self._memory

    @property
    def requests_total(self) -> Mapping[int, int]:
        """By API."""
        return self._requests_total

    async def drain(self) -> None:
        """Accept no more, let open requests finish."""
        if self._acceptor is not None:
            await self._acceptor.drain()


def _reachable(host: str) -> str:
    """What to tell clients when the node listens on every interface and nothing else was set."""
    return socket.gethostname() if host in _EVERY_INTERFACE else host
