"""A node as a list of parts on one runtime. Everything that runs a node composes it here.

    faces   `serving.serve_node` (a process), `embedded.Node` (inside a program), `testing.life.Life` (inside a test)
    parts   `broker.broker_part` or `monitoring.monitor_part`, `rocketmq.rocketmq_part`, `bus.bus_part`,
            `bus.bridge_part`, `bus.cluster_part`, `bus.call_parts`

Strategy: a face makes the parts that its settings ask for, so nothing of a part that is absent is imported. Parts open
in the order of the list. Each deploys verticles, and the runtime undeploys the youngest first, so the verticles that a
program deployed end before the bus, and the bus ends before the broker that keeps its durable addresses.

Knows no part.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from hutong.rpc.idle_time import REFERENCE_IDLE_DEFAULT
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions, Verticle

if TYPE_CHECKING:  # a node without bridges starts without these
    from random import Random

    from hutong.bus.bus import EventBus
    from hutong.bus.clustered.figures import AvailabilityFigures, OtherNodeFigures
    from hutong.console.schemas.registry_api import RegistryApi
    from hutong.rest.records.schemas import RecordSchemas  # only a node with a registry needs it
    from hutong.rpc.rpc import Rpc
    from hutong.server.configuration.sections.facts import Address
    from hutong.server.listeners.plans import OpenListener
    from hutong.tracing import Tracing
    from hutong.tracing.environment import EnvironmentTracing
    from hutong.tracing.kept import KeptSpans

FIRST_LOOP: Final = 0  # all verticles of a node run here, because they read each other's figures
T = TypeVar("T", bound="EventBus | Rpc")


@dataclass(slots=True)
class NodeAddresses:
    """The addresses of a running node. Each part fills in its own; None where the part is absent."""

    listeners: "tuple[OpenListener, ...]" = ()  # for Kafka clients
    metrics: "Address | None" = None
    tcp_bridge: "Address | None" = None
    sockjs: "Address | None" = None
    rpc: "Address | None" = None
    grpc: str | None = None
    rocketmq: "Address | None" = None
    http: "Address | None" = None
    schema_registry: "Address | None" = None
    console: "Address | None" = None
    cluster: "Address | None" = None  # for the other nodes of the bus
    cluster_node: str | None = None  # the id of this one among them

    @property
    def kafka(self) -> "Address":
        """The address of the first listener for Kafka clients."""
        return self.listeners[0].bound


class NodePart:
    """One part of a node."""

    def check(self) -> None:
        """Refuse settings that no node should start with. Called before any part opens. Raises UsageError."""

    async def open(self, node: "ComposedNode") -> None:
        """Deploy the verticles of this part, and fill in `node.addresses`. Raises UsageError, StorageError."""
        raise NotImplementedError

    def all_opened(self) -> None:
        """Every part of the node is open."""

    def closing(self) -> None:
        """The node is about to close. Also called where `open` failed half way."""


class ComposedNode:
    """A node. Call `start` once, then `stop` once, also where `start` failed half way."""

    bus: "EventBus"  # set by the part that opens it

    def __init__(
        self,
        runtime: Runtime,
        parts: Sequence[NodePart],
        tracing: "Tracing | None" = None,
        reference_idle_time: float | None = REFERENCE_IDLE_DEFAULT,
        random: "Random | None" = None,
    ) -> None:
        """`stop` closes `runtime`. `tracing` is the program's own; without it OpenTelemetry's variables decide.

        `random` is for `rpc`, by default the machine's.
        """
        self.runtime = runtime
        self.addresses = NodeAddresses()
        self.bus_nodes: Callable[[], Sequence[OtherNodeFigures]] = tuple  # set by the part that joins a cluster
        self.availability: Callable[[], AvailabilityFigures | None] = lambda: None  # set by the part that has it
        self.record_schemas: RecordSchemas | None = None  # set by the part that opens the registry
        self.registry_api: RegistryApi | None = None  # the same
        self.traces_calls = False  # set by the part that opens the bus
        self._parts = parts
        self._opened: list[NodePart] = []
        self._rpc: Rpc | None = None
        self._given_tracing = tracing
        self._reference_idle_time = reference_idle_time
        self._random = random
        self._environment_tracing: EnvironmentTracing | None = None

    async def start(self) -> NodeAddresses:
        """Open all parts. Raises UsageError, StorageError."""
        for part in self._parts:
            part.check()
        for part in self._parts:
            self._opened.append(part)
            await part.open(self)
        for part in self._parts:
            part.all_opened()
        return self.addresses

    async def stop(self) -> None:
        """Let open requests finish, then close everything, the youngest first."""
        for part in self._opened:
            part.closing()
        await self.runtime.close()
        if self._environment_tracing is not None:
            await asyncio.to_thread(self._environment_tracing.close)

    async def deploy(self, name: str, verticle: Verticle) -> None:
        """Deploy a verticle of a part. Raises what its start raises."""
        await self.runtime.deploy(lambda: verticle, DeploymentOptions(name=name, loop=FIRST_LOOP))

    @property
    def rpc(self) -> "Rpc":
        """Services over `bus`, made when first used."""
        if self._rpc is None:
            from hutong.rpc.rpc import Rpc

            rpc = Rpc(self.bus, self.runtime, reference_idle_time=self._reference_idle_time, random=self._random)
            self._rpc = self.traced(rpc, by_settings=self.traces_calls, exports=False)
        return self._rpc

    @property
    def rpc_if_used(self) -> "Rpc | None":
        """`rpc`, or None while nothing has used it: for those that only report."""
        return self._rpc

    def tracing(self, *, exports: bool = True) -> "Tracing":
        """The program's tracing, else the one that OpenTelemetry's environment variables describe.

        The first that asks says whether it `exports`.
        """
        if self._given_tracing is not None:
            return self._given_tracing
        if self._environment_tracing is None:
            from hutong.tracing.environment import EnvironmentTracing

            self._environment_tracing = EnvironmentTracing(exports=exports)
        return self._environment_tracing.tracing

    @property
    def kept_spans(self) -> "KeptSpans | None":
        """The spans that its tracing keeps for the console; None where nothing is traced."""
        if self._given_tracing is not None:
            return self._given_tracing.kept
        return None if self._environment_tracing is None else self._environment_tracing.tracing.kept

    def traced(self, target: T, *, by_settings: bool = False, exports: bool = True) -> T:
        """Trace a bus or an `Rpc` where the program gave tracing, or where the settings ask for it."""
        if by_settings or self._given_tracing is not None:
            self.tracing(exports=exports).trace(target)
        return target
