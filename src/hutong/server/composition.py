"""A node: the only file that knows every room. Its parts are verticles on one runtime; it deploys and undeploys them.

Strategy: metrics and health come first, so that a node that recovers for long is seen to live, then the broker, which
accepts clients once it knows its own state. What a process has one of, the collector and the monitor of stalls, starts
when clients are accepted. Stop is the opposite order.

Decides nothing: each decision is a room's.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.broker.kafka import HANDLERS
from hutong.foundation.clock import Clock, SystemClock
from hutong.journal.files.disk import Disk, RealDisk
from hutong.reactor.door import Door
from hutong.runtime.collector import Collector
from hutong.runtime.runtime import Runtime
from hutong.runtime.stalls import StallMonitor
from hutong.runtime.verticles import Deployment, DeploymentOptions, Verticle
from hutong.server.broker.broker_verticle import BrokerVerticle
from hutong.server.broker.preload import Preload
from hutong.server.bus.bus_verticle import BusVerticle
from hutong.server.bus.client_properties import read
from hutong.server.configuration import translate
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.exposure import check_broker
from hutong.server.listeners.plans import OpenListener, address_for
from hutong.server.monitoring.monitor import Monitor
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:  # a node without bridges starts without these
    from hutong.bus.bridge.bridge import Bridge
    from hutong.bus.bus import EventBus
    from hutong.server.bus.bridge_settings import BridgeHooks
    from hutong.tracing import Tracing
    from hutong.tracing.environment import EnvironmentTracing

FIRST_LOOP: Final = 0  # where all of a node's own verticles are: they read each other's figures


@dataclass(frozen=True, slots=True)
class ReadyInfo:
    """Where a running node can be reached."""

    kafka: Address
    metrics: Address | None = None
    tcp_bridge: Address | None = None
    sockjs: Address | None = None
    listeners: tuple[OpenListener, ...] = ()  # for Kafka clients; `kafka` is where the first of them is


async def serve_node(settings: Settings, *, ready: Callable[[ReadyInfo], None], disk: Disk | None = None) -> None:
    """Run a node until SIGTERM or SIGINT, then stop it cleanly.

    Its journals are on `disk`, this machine's unless another is given. Calls `ready` once clients are accepted. Raises
    UsageError where the folder or the address cannot be used, and StorageError where the disk cannot.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(settings, disk)
    try:
        ready(await node.start())
        await stop.wait()
    finally:
        await node.stop()


class Node:
    """One node: `start` once, then `stop` once, also where `start` failed half way."""

    def __init__(
        self,
        settings: Settings,
        disk: Disk | None = None,
        *,
        door: Door | None = None,
        is_embedded: bool = False,
        runtime: Runtime | None = None,
        make_bus: "Callable[[Address], EventBus] | None" = None,
        bridge_hooks: "BridgeHooks | None" = None,
        users: Mapping[str, str] | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        """A node that is embedded shares its process, and so leaves what a process has one of (the collector) alone.

        A runtime that it is given is not its own to close. `make_bus` makes its event bus, once Kafka clients can
        connect to the address it is called with. `bridge_hooks` are asked about what passes the bridges. `users` are
        given these passwords, by name. `tracing` is the program's; without, OpenTelemetry's variables say what to do.
        """
        clock: Clock = SystemClock()
        self.runtime = runtime or translate.runtime_of(settings, clock)
        self._owns_runtime = runtime is None
        self._make_bus = make_bus or self._bus_with_log
        self._wants_bus = make_bus is not None or bool(settings.tcp_bridge.listen or settings.sockjs.listen)
        self._bus: EventBus | None = None
        self._given_tracing = tracing
        self._tracing: EnvironmentTracing | None = None
        self._bridge_hooks = bridge_hooks
        self._clock = clock
        self._settings = settings
        self._is_embedded = is_embedded
        self.stalls = StallMonitor(asyncio.get_running_loop(), clock)
        self.collector = Collector(clock, self.runtime.wheel, self._requests_total)
        self._sources = Sources({}, self.stalls, self.collector, clock.wall_ms(), blocked=self.runtime.blocked_threads)
        self._monitor = Monitor(self._sources, clock, settings.metrics, translate.survey_limits(settings))
        self._broker = BrokerVerticle(settings, disk or RealDisk(), clock, self._sources, door, users)
        self._preload = Preload(HANDLERS, clock, self.runtime.wheel)
        self._deployments: list[Deployment] = []

    @property
    def bus(self) -> "EventBus":
        """The event bus of this process: of a node with bridges that has started, or one that was told how to make it.

        Its durable addresses are topics of this node, unless `bus.log` says where else.
        """
        assert self._bus is not None, "a node without bridges starts without a bus"
        return self._bus

    async def start(self) -> ReadyInfo:
        """Recover, replay, accept clients; returns where they connect. Raises UsageError, StorageError."""
        check_broker(self._settings)
        await self._deploy("monitor", self._monitor)
        if self._settings.kafka.tracing:
            self._broker.tracer = self._own_tracing().requests
        await self._deploy("broker", self._broker)
        if not self._is_embedded:
            self.collector.start()
        self.stalls.wake_by(self._broker.call_at_traffic)
        self.stalls.start()
        if self._wants_bus:
            protocol = self._bus_properties().get("security.protocol", SecurityProtocol.PLAINTEXT)
            self._bus = self._make_bus(address_for(self._broker.listeners, protocol))
            if self._settings.bus.tracing and self._given_tracing is None:  # else the program has seen to it
                self._own_tracing().trace(self._bus)
            await self._deploy("bus", BusVerticle(self._bus))
        tcp_bridge = await self._open_tcp_bridge()
        sockjs = await self._open_sockjs_bridge()
        self._monitor.health.is_serving = True
        if not self._is_embedded:
            self._preload.start()
        return ReadyInfo(self._broker.listens_at, self._monitor.listens_at, tcp_bridge, sockjs, self._broker.listeners)

    async def stop(self) -> None:
        """Let open requests finish, then close everything in the opposite order of start."""
        self._monitor.health.is_serving = False
        self.stalls.stop()
        self._preload.stop()
        if not self._is_embedded:
            self.collector.stop()
        while self._deployments:
            await self.runtime.undeploy(self._deployments.pop())
        if self._owns_runtime:
            await self.runtime.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    async def _deploy(self, name: str, verticle: Verticle) -> None:
        options = DeploymentOptions(name=name, loop=FIRST_LOOP)
        self._deployments.append(await self.runtime.deploy(lambda: verticle, options))

    def _bus_with_log(self, kafka: Address) -> "EventBus":
        from hutong.bus.bus import EventBus
        from hutong.server.bus.node_log import NodeLog, bootstrap_of

        log = self._settings.bus.log
        bootstrap = bootstrap_of(log) if log else str(kafka)
        return EventBus(self.runtime, log=NodeLog(bootstrap, self._bus_properties()))

    def _bus_properties(self) -> Mapping[str, str]:
        """Of the bus as a client of its log."""
        file = self._settings.bus.client_config
        return {} if file is None else read(file)

    def _own_tracing(self) -> "Tracing":
        if self._given_tracing is not None:
            return self._given_tracing
        if self._tracing is None:
            from hutong.tracing.environment import EnvironmentTracing

            self._tracing = EnvironmentTracing()
        return self._tracing.tracing

    async def _open_tcp_bridge(self) -> Address | None:
        if self._settings.tcp_bridge.listen is None:
            return None
        from hutong.server.bus.bridges import TcpBridgeVerticle

        verticle = TcpBridgeVerticle(self._settings, self.bus, self._clock, self._show_bridge, self._bridge_hooks)
        await self._deploy("tcp-bridge", verticle)
        self.stalls.wake_by(verticle.call_at_traffic)
        return verticle.listens_at

    async def _open_sockjs_bridge(self) -> Address | None:
        if self._settings.sockjs.listen is None:
            return None
        from hutong.server.bus.sockjs_bridge import SockJSBridgeVerticle

        verticle = SockJSBridgeVerticle(self._settings, self.bus, self._clock, self._show_bridge, self._bridge_hooks)
        await self._deploy("sockjs-bridge", verticle)
        self.stalls.wake_by(verticle.call_at_traffic)
        return verticle.listens_at

    def _show_bridge(self, bridge: "Bridge") -> None:
        """A bridge is opened: its figures are on the page of metrics from now on."""
        self._sources.bridges[bridge.dialect.value] = bridge.figures
        self._sources.waits.update(bridge.waits)

    def _requests_total(self) -> int:
        reactor = self._sources.reactor
        return 0 if reactor is None else reactor.requests_total
