"""Opens the listeners for Kafka clients: one acceptor and one dispatch for each.

Strategy: clients learn the address of the listener they came by, which is known once its port is bound. The figures of
all acceptors are shown together.

Decides nothing of what clients may do: `broker` does.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from hutong.broker.broker import Broker
from hutong.broker.configs.network_configs import CONNECTIONS_MAX, connection_limits
from hutong.broker.dispatch.dispatcher import Dispatch, anonymous
from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.kafka import HANDLERS
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, close_longest_idle
from hutong.reactor.accept.connection_quotas import ConnectionLimits, ConnectionQuotas
from hutong.reactor.accept.gate import ConnectionGate
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.frames.framing import length_prefixed
from hutong.reactor.memory.watch import MemoryWatch
from hutong.security.principals import Principal
from hutong.server.broker.data import open_files
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.authenticators import Authenticators
from hutong.server.listeners.binding import bound
from hutong.server.listeners.plans import ListenerPlan, OpenListener, planned
from hutong.server.listeners.rules import client_auth_of

if TYPE_CHECKING:
    from hutong.server.listeners.certificates import Certificates

_EVERY_INTERFACE: Final = frozenset({"0.0.0.0", "::"})
_log = logging.getLogger("hutong.node")


class KafkaListeners:
    """All listeners of one broker. Call `open` once, then `drain` once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        clock: Clock,
        wheel: TimerWheel,
        gate: ConnectionGate | None,
        authenticators: Authenticators,
        connections_max: int,
        open_socket: Callable[[int, int, int], socket.socket],
    ) -> None:
        """`connections_max` is bounded by the process's open files, above the settings."""
        self._connections_max = connections_max
        self._open_socket = open_socket
        self._loop = loop
        self._settings = settings
        self._clock = clock
        self._wheel = wheel
        self._gate = gate
        self._memory = MemoryWatch(settings.network.memory_bytes_max, loop, clock, wheel)
        self._authenticators = authenticators
        self._plans = planned(settings.kafka)
        self._client_auth = client_auth_of(settings.tls, self._plans)
        self.certificates = self._own_certificates() if any(plan.protocol.has_tls for plan in self._plans) else None
        self._acceptors: list[Acceptor] = []
        self._peer_ids = count(1)
        self._requests_total = dict.fromkeys(HANDLERS, 0)
        self.figures = ReactorFigures()  # of all connections
        self.opened: list[OpenListener] = []
        self._logged_connections = 0

    async def open(self, broker: Broker) -> None:
        """Accept clients; `opened` has the addresses. Raises UsageError for an address that cannot be bound."""
        broker.memory = self._memory.budget
        quotas = self._share_quotas(broker, tuple(plan.name for plan in self._plans))
        self._authenticators.watch(broker.admin.node_configs)
        for plan in self._plans:
            await self._open(plan, broker, quotas)
        if self.certificates is not None:
            from hutong.server.listeners.certificate_configs import add_certificate_configs

            add_certificate_configs(broker.admin.node_configs, self._settings.tls, self.certificates)
            self.certificates.watch()

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that any connection reads."""
        self._memory.call_at_traffic(callback)

    async def _open(self, plan: ListenerPlan, broker: Broker, quotas: ConnectionQuotas) -> None:
        listener = Listener(plan.name, plan.protocol, plan.address.host, plan.address.port)
        # With SASL its user is the principal, whatever certificate the client shows.
        identify = self._by_certificate() if plan.protocol is SecurityProtocol.SSL else anonymous
        dispatch = Dispatch(broker, listener, self._requests_total, identify=identify)
        acceptor = Acceptor(
            self._loop,
            self._authenticators.before(dispatch) if plan.protocol.has_sasl else dispatch,
            length_prefixed(),
            clock=self._clock,
            wheel=self._wheel,
            limits=translate.reactor_limits(self._settings),
            gate=self._gate,
            name=listener.name,
            quotas=quotas,
            memory=self._memory,
            figures=self.figures,
            peer_ids=self._peer_ids,
            open_socket=self._open_socket,
        )
        self._acceptors.append(acceptor)
        tls = None
        if plan.protocol.has_tls and self.certificates is not None:
            tls = self.certificates.source(self._client_auth[plan.name])
        binding = acceptor.listen(plan.address.host, plan.address.port, tls)
        # Only now the port is known, if the settings leave it to the system (port 0).
        listens_at = await bound(plan.address, binding, "with --kafka")
        shown = plan.advertised or Address(reachable_host(plan.address.host), listens_at.port)
        dispatch.listener = replace(listener, host=shown.host, port=shown.port)
        self.opened.append(OpenListener(plan.name, plan.protocol, listens_at, shown))

    def _own_certificates(self) -> "Certificates":
        # Imported late: seven modules that only a node with TLS needs, a millisecond of its start for each.
        from hutong.server.listeners.certificates import Certificates

        return Certificates(self._settings.tls, self._clock, self._wheel)

    def _by_certificate(self) -> Callable[[Peer], Principal]:
        from hutong.security.certificate_principals import CertificatePrincipals

        principals = CertificatePrincipals(self._settings.tls.principal_mapping_rules)
        return lambda peer: principals.principal_of(peer.certificate_der)

    def _share_quotas(self, broker: Broker, names: Sequence[str]) -> ConnectionQuotas:
        """Bounds that all listeners share, which follow the configs."""
        configs = broker.admin.node_configs

        def limits_now() -> ConnectionLimits:
            limits = connection_limits(configs, names)
            # Whatever the configs allow, the journals keep their reserve of open files.
            return replace(limits, connections_max=min(limits.connections_max, self._connections_max))

        quotas = ConnectionQuotas(
            limits_now(),
            rate_of=broker.admin.quotas.connection_rate,
            window_ms=translate.quota_window_ms(self._settings),
        )

        def changed() -> None:
            limits = limits_now()
            self._log_bound(connection_limits(configs, names).connections_max)
            if limits != quotas.limits:
                quotas.set_limits(limits)
                # A lowered bound holds at once: connections beyond it are closed, the longest idle first.
                close_longest_idle(self._acceptors, quotas.excess)

        self._log_bound(connection_limits(configs, names).connections_max)
        configs.on_change.append(changed)
        return quotas

    def _log_bound(self, wanted: int) -> None:
        """Log once for each new value that more connections are allowed than open files remain for them."""
        if wanted <= self._connections_max or wanted == self._logged_connections:
            return
        self._logged_connections = wanted
        # The default fits most machines, so a smaller bound is no news. A user who set a bound needs to know.
        level = logging.DEBUG if wanted == CONNECTIONS_MAX else logging.WARNING
        _log.log(
            level,
            "max.connections is %d, but this process may have %d open files, some of which are for journals: from %d "
            "connections on, further ones wait; raise the limit of open files (ulimit -n, LimitNOFILE) for more.",
            wanted,
            open_files.limit(),
            self._connections_max,
        )

    @property
    def memory(self) -> MemoryWatch:
        """Of all connections, together."""
        return self._memory

    @property
    def acceptors(self) -> Mapping[str, Acceptor]:
        """By the names of their listeners."""
        return {opened.name: acceptor for opened, acceptor in zip(self.opened, self._acceptors, strict=True)}

    @property
    def requests_total(self) -> Mapping[int, int]:
        """By API."""
        return self._requests_total

    async def drain(self) -> None:
        """Accept no more, let open requests finish."""
        if self.certificates is not None:
            self.certificates.close()
        await asyncio.gather(*(acceptor.drain() for acceptor in self._acceptors))


def reachable_host(host: str) -> str:
    """The host to advertise: this machine's name where the node listens on every interface."""
    return socket.gethostname() if host in _EVERY_INTERFACE else host
