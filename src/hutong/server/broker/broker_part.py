"""The broker of a node, with its metrics and health, and with the monitors of the process it is in.

Strategy: metrics and health open first, so that a node with a long recovery is seen to be alive. The collector and the
preloading belong to a process, so a node inside a program leaves them alone.

Decides nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.broker.kafka import HANDLERS
from hutong.foundation.clock import Clock
from hutong.journal.files.disk import Disk, RealDisk
from hutong.runtime.loops.collector import Collector
from hutong.runtime.runtime import Runtime
from hutong.runtime.watch.stalls import StallMonitor
from hutong.server.broker.broker_verticle import BrokerVerticle
from hutong.server.broker.preload import Preload
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.exposure import check_broker
from hutong.server.monitoring.monitor import Monitor
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.bus.bridge.bridge import Bridge
    from hutong.reactor.accept.gate import ConnectionGate


class BrokerPart(NodePart):
    """Serves Kafka clients. `users` get these passwords, by name, before anybody can connect."""

    stalls: StallMonitor
    collector: Collector

    def __init__(
        self,
        settings: Settings,
        *,
        disk: Disk | None = None,
        gate: "ConnectionGate | None" = None,
        users: Mapping[str, str] | None = None,
        is_embedded: bool = False,
    ) -> None:
        self.settings = settings
        self._disk = disk or RealDisk()
        self._gate = gate
        self._users = users
        self._is_embedded = is_embedded

    def check(self) -> None:
        check_broker(self.settings)

    async def open(self, node: ComposedNode) -> None:
        """Recover, replay, accept clients. Raises UsageError, StorageError."""
        await self.open_monitor(node)
        clock = node.runtime.clock
        broker = BrokerVerticle(self.settings, self._disk, clock, self._sources, self._gate, self._users)
        if self.settings.kafka.tracing:
            broker.tracer = node.tracing().requests
        await node.deploy("broker", broker)
        if not self._is_embedded:
            self.collector.start()
        self.stalls.wake_by(broker.call_at_traffic)
        self.stalls.start()
        node.addresses.listeners = broker.listeners

    async def open_monitor(self, node: ComposedNode) -> None:
        """Show metrics and health. The node counts as not ready until `all_opened`. Raises UsageError."""
        self._make_monitors(node.runtime, node.runtime.clock)
        await node.deploy("monitor", self._monitor)
        node.addresses.metrics = self._monitor.listens_at

    def all_opened(self) -> None:
        self._monitor.health.is_serving = True
        if not self._is_embedded:
            self._preload.start()

    def closing(self) -> None:
        self._monitor.health.is_serving = False
        self.stalls.stop()
        self._preload.stop()
        if not self._is_embedded:
            self.collector.stop()

    def show_bridge(self, bridge: "Bridge") -> None:
        """Add the figures of a bridge to the page of metrics."""
        self._sources.bridges[bridge.dialect.value] = bridge.figures
        self._sources.waits.update(bridge.waits)

    def _make_monitors(self, runtime: Runtime, clock: Clock) -> None:
        self.stalls = StallMonitor(asyncio.get_running_loop(), clock)
        self.collector = Collector(clock, runtime.wheel, self._requests_total)
        self._sources = Sources({}, self.stalls, self.collector, clock.wall_ms(), blocked=runtime.blocked_threads)
        self._monitor = Monitor(self._sources, clock, self.settings.metrics, translate.survey_limits(self.settings))
        self._preload = Preload(HANDLERS, clock, runtime.wheel)

    def _requests_total(self) -> int:
        reactor = self._sources.reactor
        return 0 if reactor is None else reactor.requests_total
