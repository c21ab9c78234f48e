"""Several nodes of a clustered bus on the test's loop, with real connections and a membership in memory."""

import asyncio
from contextlib import AsyncExitStack
from random import Random

from tests.support.waiting import turning_until

from hutong.bus import EventBus
from hutong.bus.clustered import ClusterPermissions, ClusterTls
from hutong.bus.clustered.driver import ClusteredBus
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.membership.memory import MemoryMembership, MemoryRegistry
from hutong.bus.clustered.membership.port import MembershipListener
from hutong.bus.clustered.permissions import ClusterRights
from hutong.bus.clustered.tls import ClusterCertificates
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.wire_versions import VERSION_2, WireVersion, place_name


class AdvancedClock(SystemClock):
    """The machine's clock, and some time more."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class PlaceMembership(MemoryMembership):
    """A membership in which nodes are known by the places where they listen, as in a cluster of Vert.x 3."""

    async def start(self, node: str, info: NodeInfo, listener: MembershipListener) -> None:
        await super().start(place_name(info), info, listener)


class ClusterNode:
    """One node. `errors` are what handlers raised."""

    def __init__(
        self,
        name: str,
        membership: MemoryMembership,
        limits: ClusteredLimits,
        tls: ClusterTls | None = None,
        permissions: ClusterPermissions | None = None,
        wire: WireVersion = VERSION_2,
    ) -> None:
        self.name = name
        self.membership = membership
        self.errors: list[BaseException] = []
        self.runtime = Runtime(exception_handler=lambda _, error: self.errors.append(error))
        self.bus = EventBus(self.runtime)
        self.clock = AdvancedClock()
        context = self.runtime.context(name="cluster")
        self.clustered = ClusteredBus(
            self.bus,
            context,
            name,
            membership,
            clock=self.clock,
            wheel=context.home.wheel,
            limits=limits,
            certificates=None if tls is None else ClusterCertificates(tls, self.clock),
            rights=ClusterRights(permissions or ClusterPermissions()),
            wire=wire,
        )
        self.is_open = False

    async def start(self, port: int = 0) -> None:
        host, port = await self.clustered.listen("127.0.0.1", port)
        self.info = NodeInfo(host, port)
        await self.clustered.join(self.info)
        self.is_open = True

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            await self.clustered.close()
            await self.bus.close()
            await self.runtime.close()

    async def until_receivers(self, address: str, turns: int) -> None:
        """Wait until a send to the address has so many consumers to choose from."""
        await turning_until(lambda: sum([each.turns for each in self.bus._consumers.get(address, ())]) == turns)


class Cluster:
    """Made inside a test: `async with Cluster() as cluster`."""

    def __init__(self, limits: ClusteredLimits | None = None, wire: WireVersion = VERSION_2) -> None:
        self.wire = wire
        loop = asyncio.get_running_loop()
        self.registry = MemoryRegistry(
            lambda delay_ms, work: loop.call_later(delay_ms / 1_000, work), Random(1), delay_ms_max=1
        )
        self._limits = limits or ClusteredLimits()
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def node(
        self, name: str, tls: ClusterTls | None = None, permissions: ClusterPermissions | None = None, *, port: int = 0
    ) -> ClusterNode:
        membership = PlaceMembership(self.registry, None) if self.wire.names_places else self.registry.connect()
        node = ClusterNode(name, membership, self._limits, tls, permissions, self.wire)
        self._exit.push_async_callback(node.close)
        await node.start(port)
        return node

    async def pair(self) -> tuple[ClusterNode, ClusterNode]:
        return await self.node("a"), await self.node("b")
