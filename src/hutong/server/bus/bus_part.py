"""The event bus of a node. Its durable addresses are topics of the node's own broker, or of another Kafka.

Decides nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hutong.bus.bus import EventBus
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import Verticle
from hutong.server.bus.client_properties import read
from hutong.server.bus.node_log import NodeLog, bootstrap_of
from hutong.server.composition import ComposedNode, NodePart

if TYPE_CHECKING:
    from hutong.server.bus.bridge_settings import BridgeHooks
    from hutong.server.configuration.settings import Settings
    from hutong.server.monitoring.monitor_part import MonitorPart


def event_bus(runtime: Runtime, bootstrap: str | None, properties: Mapping[str, str]) -> EventBus:
    """A bus whose durable addresses are topics at `bootstrap`, reached with these properties of librdkafka."""
    return EventBus(runtime, log=NodeLog(bootstrap, properties) if bootstrap else None)


class BusVerticle(Verticle):
    """Closes the bus when it is stopped: after what uses it, before the log that durable addresses are kept in."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    async def stop(self) -> None:
        await self._bus.close()


class BusPart(NodePart):
    """Opens `node.bus`. `log` is `kafka://HOST:PORT[,HOST:PORT...]`; without it the log is the node's own broker."""

    def __init__(
        self, log: str = "", client_config: Path | None = None, *, is_traced: bool = False, is_kept: bool = False
    ) -> None:
        """`client_config` is a file of librdkafka's properties for the log. `is_kept`: for the console's spans."""
        self._log = log
        self._client_config = client_config
        self._is_traced = is_traced
        self._is_kept = is_kept
        self.own_kafka: str | None = None  # the listener of the node's own broker that speaks the bus's protocol

    async def open(self, node: ComposedNode) -> None:
        properties = {} if self._client_config is None else read(self._client_config)
        if node.addresses.listeners:
            from hutong.server.listeners.plans import address_for

            protocol = properties.get("security.protocol", "PLAINTEXT")
            self.own_kafka = str(address_for(node.addresses.listeners, protocol))
        bootstrap = bootstrap_of(self._log) if self._log else self.own_kafka
        bus = event_bus(node.runtime, bootstrap, properties)
        node.bus = node.traced(bus, by_settings=self._is_traced or self._is_kept, exports=self._is_traced)
        node.traces_calls = self._is_kept
        node.runtime.provide(EventBus, node.bus)
        await node.deploy("bus", BusVerticle(node.bus))


def bus_parts(
    settings: "Settings", monitor: "MonitorPart | None" = None, hooks: "BridgeHooks | None" = None
) -> list[NodePart]:
    """The event bus as the settings have it, and its bridges, whose figures `monitor` shows."""
    section = settings.bus
    parts: list[NodePart] = [
        BusPart(section.log, section.client_config, is_traced=section.tracing, is_kept=settings.console.tracing)
    ]
    if monitor is None or settings.tcp_bridge.listen is not None or settings.sockjs.listen is not None:
        from hutong.server.bus.bridge_part import BridgePart

        parts.append(BridgePart(settings, hooks, monitor))
    return parts
