"""A node as a process, and the composition of nodes with a broker.

Knows nothing of commands: `cli/node/serve.py` calls this.
"""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from hutong.foundation.clock import SystemClock
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.composition import ComposedNode, NodeAddresses, NodePart
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Settings
from hutong.server.monitoring.monitor_part import MonitorPart

if TYPE_CHECKING:
    from hutong.console.outer_ports import OuterPorts


async def serve_node(
    settings: Settings,
    *,
    ready: Callable[[NodeAddresses], None],
    ports: SystemPorts | None = None,
    outer: "OuterPorts | None" = None,
) -> None:
    """Run a node until SIGTERM or SIGINT, then stop it cleanly.

    It touches the machine through `ports`, if they are given. Its console has the ports `outer`. `ready` is called once
    clients are accepted. Raises UsageError where the folder or the address cannot be used, and StorageError where the
    disk cannot.
    """
    await _run_until_signal(node_of(BrokerPart(settings, ports=ports), outer), ready)


async def serve_console(
    settings: Settings, *, ready: Callable[[NodeAddresses], None], outer: "OuterPorts | None" = None
) -> None:
    """Run a console alone, in front of the brokers in `console.log`, until SIGTERM or SIGINT. Raises UsageError."""
    from hutong.server.http.console_part import ConsolePart

    node = ComposedNode(translate.runtime_of(settings, SystemClock()), [ConsolePart(settings, outer=outer)])
    await _run_until_signal(node, ready)


async def _run_until_signal(node: ComposedNode, ready: Callable[[NodeAddresses], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        ready(await node.start())
        await stop.wait()
    finally:
        await node.stop()


def node_of(broker: BrokerPart, outer: "OuterPorts | None" = None) -> ComposedNode:
    """A node with this broker, and with the bridges and the runtime that its settings ask for."""
    settings = broker.settings
    parts: list[NodePart] = [broker]
    if settings.rocketmq.listen is not None:
        from hutong.server.rocketmq.rocketmq_part import RocketMqPart

        parts.append(RocketMqPart(broker))
    if settings.http.listen is not None:
        from hutong.server.http.rest_part import RestPart

        parts.append(RestPart(settings, broker.monitor))
    parts += registry_parts(broker)
    if settings.tcp_bridge.listen is not None or settings.sockjs.listen is not None:
        from hutong.server.bus.bus_part import bus_parts

        parts += bus_parts(settings, broker.monitor)
    parts += console_parts(settings, broker.monitor, outer)
    return ComposedNode(translate.runtime_of(settings, SystemClock()), parts)


def console_parts(settings: Settings, monitor: MonitorPart, outer: "OuterPorts | None" = None) -> list[NodePart]:
    """The console of a node, where its settings ask for one, and the spans that it and consoles elsewhere show."""
    parts: list[NodePart] = []
    console = settings.console
    is_shown_elsewhere = console.tracing and settings.cluster.coordinator is not None
    if is_shown_elsewhere or (console.listen is not None and not console.log):
        from hutong.server.spans.span_part import SpanPart

        parts.append(SpanPart(monitor))
    if console.listen is not None:
        from hutong.server.http.console_part import ConsolePart

        parts.append(ConsolePart(settings, monitor, outer))
    return parts


def registry_parts(broker: BrokerPart) -> list[NodePart]:
    """The schema registry of a node, where its settings ask for one."""
    if broker.settings.schema_registry.listen is None:
        return []
    from hutong.server.registry.registry_part import RegistryPart

    return [RegistryPart(broker)]
