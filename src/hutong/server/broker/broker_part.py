"""The broker of a node, with its metrics and health, and with the monitors of the process it is in.

Strategy: metrics and health open first, so that a node with a long recovery is seen to be alive. The collector and the
preloading belong to a process, so a node inside a program leaves them alone.

Decides nothing.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hutong.broker.kafka import HANDLERS
from hutong.server.broker.broker_verticle import BrokerVerticle
from hutong.server.broker.preload import Preload
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.exposure import check_broker
from hutong.server.monitoring.monitor_part import MonitorPart

if TYPE_CHECKING:
    from hutong.reactor.accept.gate import ConnectionGate
    from hutong.server.listeners.web_users import WebUsers


class BrokerPart(NodePart):
    """Serves Kafka clients, on this machine unless `ports` are others.

    `users` get these passwords, by name, before anybody can connect.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        ports: SystemPorts | None = None,
        gate: "ConnectionGate | None" = None,
        users: Mapping[str, str] | None = None,
        is_embedded: bool = False,
    ) -> None:
        self.settings = settings
        self.web_users: Callable[[], WebUsers]  # the admission of HTTP's requests by the node's users, once it is open
        self.ports = ports or SystemPorts()
        self.monitor = MonitorPart(settings, self.ports.processor_us)
        self._gate = gate
        self._users = users
        self._is_embedded = is_embedded

    def check(self) -> None:
        check_broker(self.settings)
        self.monitor.check()

    async def open(self, node: ComposedNode) -> None:
        """Recover, replay, accept clients. Raises UsageError, StorageError."""
        clock = node.runtime.clock
        self._preload = Preload(HANDLERS, clock, node.runtime.wheel)
        await self.monitor.open(node)
        self._broker = broker = self._verticle()(
            self.settings, self.ports, clock, self.monitor.sources, self._gate, self._users
        )
        if self.settings.kafka.tracing:
            broker.tracer = node.tracing().requests
        await node.deploy("broker", broker)
        if not self._is_embedded:
            self.monitor.collector.start()
        self.monitor.stalls.wake_by(broker.call_at_traffic)
        node.addresses.listeners = broker.listeners
        self.web_users = broker.web_users

    def _verticle(self) -> type[BrokerVerticle]:
        if self.settings.cluster.coordinator is None:
            return BrokerVerticle
        from hutong.server.cluster.cluster_verticle import ClusterBrokerVerticle  # late: a node alone never needs it

        return ClusterBrokerVerticle

    def all_opened(self) -> None:
        self._broker.has_served = True
        self.monitor.all_opened()
        if not self._is_embedded:
            self._preload.start()

    def closing(self) -> None:
        self.monitor.closing()
        self._preload.stop()
        if not self._is_embedded:
            self.monitor.collector.stop()
