"""The metrics and health of a node: a part of its own, or the first thing that a broker opens.

Decides nothing.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.clock import thread_processor_us
from hutong.runtime.loops.collector import Collector
from hutong.runtime.watch.stalls import StallMonitor
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.exposure import check_metrics
from hutong.server.monitoring.monitor import Monitor
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.bus.bridge.bridge import Bridge


class MonitorPart(NodePart):
    """Shows metrics and health at `metrics.listen`. Other parts add the objects with their figures to `sources`."""

    stalls: StallMonitor
    collector: Collector
    sources: Sources

    def __init__(self, settings: Settings, processor_us: Callable[[], int] = thread_processor_us) -> None:
        """`processor_us` returns the processor time of the loop's thread."""
        self._settings = settings
        self._processor_us = processor_us

    def check(self) -> None:
        check_metrics(self._settings)

    async def open(self, node: ComposedNode) -> None:
        """The node counts as not ready until `all_opened`. Raises UsageError."""
        self._node = node
        runtime, clock = node.runtime, node.runtime.clock
        self.collector = Collector(clock, runtime.wheel, self._requests_total)
        self.stalls = StallMonitor(
            asyncio.get_running_loop(), clock, processor_us=self._processor_us, checked=self.collector.check
        )
        self.sources = Sources(
            {},
            self.stalls,
            self.collector,
            clock.wall_ms(),
            blocked=runtime.blocked_threads,
            runtime=runtime,
            rpc=lambda: node.rpc_if_used,
            bus_nodes=lambda: node.bus_nodes(),
            availability=lambda: node.availability(),
        )
        settings = self._settings
        limits, reload_interval_ms = translate.survey_limits(settings), settings.tls.reload_interval_ms
        self._monitor = Monitor(self.sources, clock, settings.metrics, limits, reload_interval_ms)
        await node.deploy("monitor", self._monitor)
        node.addresses.metrics = self._monitor.listens_at

    def all_opened(self) -> None:
        self.stalls.start()
        self.sources.bus = getattr(self._node, "bus", None)  # a node of a broker alone opens no bus
        self._monitor.health.is_serving = True

    def closing(self) -> None:
        self._monitor.health.is_serving = False
        self.stalls.stop()

    @property
    def monitor(self) -> Monitor:
        """The part's verticle, once it is open."""
        return self._monitor

    def show_bridge(self, bridge: "Bridge") -> None:
        """Add the figures of a bridge to the page of metrics."""
        self.sources.bridges[bridge.dialect.value] = bridge.figures
        self.sources.waits.update(bridge.waits)

    def _requests_total(self) -> int:
        reactor = self.sources.reactor
        return 0 if reactor is None else reactor.requests_total
