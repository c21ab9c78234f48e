"""RocketMQ's name server and broker as a part of a node, behind one port.

Decides nothing.
"""

import ipaddress
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.rocketmq.context import LISTENER, RocketIdentity, RocketParts
from hutong.broker.rocketmq.delays.schedule import DelaySchedule
from hutong.broker.rocketmq.figures import RocketFigures
from hutong.broker.rocketmq.gateway import RocketGateway
from hutong.broker.rocketmq.halves.checks import TransactionChecks
from hutong.broker.rocketmq.halves.driver import HALF_LOGS, HalfMessages
from hutong.broker.rocketmq.halves.machine import CheckRules
from hutong.broker.rocketmq.requests.pop.receipts import numbers_of
from hutong.broker.rocketmq.signatures import Signatures
from hutong.broker.topics.led_topics import LedTopics
from hutong.foundation.clock import Clock
from hutong.foundation.timers import Timer
from hutong.groups.rocketmq.clients import RocketClients
from hutong.groups.rocketmq.queue_locks import QueueLocks
from hutong.reactor.connections.handler import Peer
from hutong.remoting.server import RemotingServer, TlsMode
from hutong.runtime.verticles import Verticle
from hutong.security.principals import ANONYMOUS, Principal
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.binding import bound
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.server.listeners.exposure import check_rocketmq
from hutong.server.listeners.kafka_listeners import reachable_host
from hutong.server.rocketmq.access_key_file import AccessKeyFile
from hutong.wire.rocketmq.messages import Host

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.reactor.accept.acceptor import OpenSocket

EXPIRY_INTERVAL_MS: Final = 10_000  # as RocketMQ's scans for silent clients
_log = logging.getLogger("hutong.rocketmq")


class RocketMqPart(NodePart):
    """Serves RocketMQ's clients on the topics of `broker`."""

    def __init__(self, broker: BrokerPart, open_socket: "OpenSocket" = socket.socket) -> None:
        self._broker = broker
        self._open_socket = open_socket

    def check(self) -> None:
        check_rocketmq(self._broker.settings)

    async def open(self, node: ComposedNode) -> None:
        broker = self._broker.monitor.sources.broker
        assert broker is not None, "the broker is open"
        verticle = RocketMqVerticle(self._broker.settings, broker, node.runtime.clock, self._open_socket)
        await node.deploy("rocketmq", verticle)
        self._broker.monitor.stalls.wake_by(verticle.call_at_traffic)
        node.addresses.rocketmq = verticle.listens_at
        self._broker.monitor.sources.rocketmq = verticle.figures


class RocketMqVerticle(Verticle):
    """The listener. `listens_at` has the port that was bound, once it has started.

    Its start raises UsageError for an address that cannot be used.
    """

    listens_at: Address
    figures: RocketFigures

    def __init__(self, settings: Settings, broker: "Broker", clock: Clock, open_socket: "OpenSocket") -> None:
        self._settings = settings
        self._broker = broker
        self._clock = clock
        self._open_socket = open_socket
        self._expiring: Timer | None = None
        self._certificates: Certificates | None = None
        self._access_keys: AccessKeyFile | None = None
        self._gateway: RocketGateway | None = None  # a start that fails ends without

    async def start(self) -> None:
        section, wheel = self._settings.rocketmq, self.context.home.wheel
        assert section.listen is not None, "the part is made where the listener is asked for"
        if section.access_keys is not None:
            self._access_keys = AccessKeyFile(section.access_keys)
        self._server = RemotingServer(self.context.loop, clock=self._clock, wheel=wheel, open_socket=self._open_socket)
        self._certificates = certificates_of(section, self._clock, wheel, self._settings.tls.reload_interval_ms)
        tls = mode = None
        if self._certificates is not None:
            tls, mode = self._certificates.source(), TlsMode(section.tls_mode)
            self._certificates.watch()
        binding = self._server.listen(section.listen.host, section.listen.port, tls=tls, mode=mode)
        self.listens_at = await bound(section.listen, binding, "with --rocketmq")
        # Only now the port is known, if the settings leave it to the system (port 0).
        shown = section.advertised or Address(reachable_host(section.listen.host), self.listens_at.port)
        self._gateway = RocketGateway(await self._parts(shown), self._server)
        self.figures = self._gateway.figures
        self._gateway.serve()
        # Only now: from here on other nodes send clients to it.
        self._broker.cluster.announce(LISTENER, shown.host, shown.port)
        self._expire_clients()

    async def stop(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        if self._certificates is not None:
            self._certificates.close()
        await self._server.close()
        if self._gateway is not None:
            self._gateway.close()

    async def _parts(self, shown: Address) -> RocketParts:
        section = self._settings.rocketmq
        identity = RocketIdentity(
            section.cluster_name, section.broker_name, shown.host, shown.port, await self._store_host(shown)
        )
        clients, timers = RocketClients(), self.context.home.wheel
        listener = Listener(LISTENER, SecurityProtocol.PLAINTEXT, shown.host, shown.port)
        return RocketParts(
            self._broker,
            identity,
            listener,
            clients,
            QueueLocks(),
            DelaySchedule(self._broker, timers),
            section.delay_max_s * 1_000,
            timers,
            self._halves(clients, identity.store_host),
            self._access_keys.signatures if self._access_keys is not None else Signatures(),
            self._identify(),
            started_ms=self._clock.monotonic_ms(),
            receipt_numbers=numbers_of(self._broker.identity.node_id),
        )

    def _halves(self, clients: RocketClients, store_host: Host) -> LedTopics[HalfMessages]:
        section = self._settings.rocketmq
        rules = CheckRules(
            section.transaction_timeout_ms, section.transaction_check_interval_ms, section.transaction_checks_max
        )
        checks = TransactionChecks(clients, self._server.channel)
        make = partial(HalfMessages, self._broker, self.context.home.wheel, rules, checks, store_host)
        return LedTopics(self._broker, HALF_LOGS, make)

    def _identify(self) -> Callable[[Peer], Principal]:
        if self._settings.rocketmq.tls_client_ca is None:
            return lambda _peer: ANONYMOUS
        from hutong.security.certificate_principals import CertificatePrincipals  # late: few ask for certificates

        principals = CertificatePrincipals(self._settings.tls.principal_mapping_rules)
        return lambda peer: principals.principal_of(peer.certificate_der)

    async def _store_host(self, shown: Address) -> Host:
        """The address as it is in messages and their ids, in four bytes."""
        try:
            found = await self.context.loop.getaddrinfo(shown.host, shown.port, family=socket.AF_INET)
        # A node with IPv6 alone, or whose name is known elsewhere. Clients connect to the route, not to this.
        except OSError as error:
            _log.warning("%s has no IPv4 address (%s): ids of messages show 127.0.0.1 instead.", shown.host, error)
            return Host(ipaddress.IPv4Address("127.0.0.1").packed, shown.port)
        return Host(ipaddress.ip_address(found[0][4][0]).packed, shown.port)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that a client's connection reads."""
        self._server.call_at_traffic(callback)

    def _expire_clients(self) -> None:
        assert self._gateway is not None, "it has started"
        now_ms = self._clock.monotonic_ms()
        self._gateway.expire_clients(now_ms)
        if self._access_keys is not None:
            self._access_keys.reload_if_changed()
        self._expiring = self.context.home.wheel.add(now_ms + EXPIRY_INTERVAL_MS, self._expire_clients)
