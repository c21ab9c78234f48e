"""Nodes with high availability, on a membership in memory or in a real ZooKeeper."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from types import TracebackType
from typing import Any

from tests.unit.bus.clustered.availability import verticles
from tests.unit.bus.clustered.availability.verticles import Shown, news
from tests.unit.bus.clustered.membership_scenes import Hearing, MembershipScene, MemoryScene

from hutong.bus.clustered.availability.driver import Availability
from hutong.bus.clustered.availability.machine import VerticleState
from hutong.bus.clustered.availability.messages import Event
from hutong.bus.clustered.membership.port import Membership
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import Deployment, DeploymentOptions, Verticle
from hutong.server.bus.availability_part import AvailabilityVerticle
from hutong.wire.vertx.cluster_nodes import NodeInfo


class AvailableNode:
    """One node: its runtime, and its place in the cluster."""

    def __init__(self, name: str, membership: Membership, group: str, quorum: int) -> None:
        self.name = name
        self.group = group
        self.quorum = quorum
        self.membership = membership
        self.runtime = Runtime(blocked_limits=None)
        self.is_open = True

    async def start(self) -> None:
        await self.membership.start(self.name, NodeInfo("127.0.0.1", 1), Hearing())
        verticle = AvailabilityVerticle(self.name, self.group, self.quorum, self.membership.entries, Random(self.name))
        await self.runtime.deploy(lambda: verticle)
        self.verticle = verticle
        feed = verticle.availability._feed

        def noticed(event: Event) -> None:
            feed(event)
            news.notice()

        verticle.availability._feed = noticed  # type: ignore[method-assign]

    @property
    def availability(self) -> Availability:
        return self.verticle.availability

    async def deploy(
        self, shown: str, make: Callable[[], Verticle] = Shown, *, ha: bool = True, **options: Any
    ) -> Deployment:
        return await self.runtime.deploy(make, DeploymentOptions(config={"name": shown}, ha=ha, **options))

    @property
    def names(self) -> list[str]:
        """Of the verticles that run here."""
        return sorted([shown.config["name"] for shown in verticles.running if shown.runtime is self.runtime])

    async def until(self, *names: str) -> None:
        """Wait until just these run here, and none is about to start or to stop."""
        passing = {VerticleState.STARTING, VerticleState.STOPPING}
        machine = self.availability.machine
        await news.until(lambda: self.names == sorted(names) and not passing & set(machine.states.values()))

    async def close(self) -> None:
        """Leave in order, as a node does."""
        if self.is_open:
            self.is_open = False
            self.availability.leave()
            await self.runtime.close()
            await self.membership.close()


class AvailableScene:
    """Nodes that come and go: `async with AvailableScene(scene) as cluster`."""

    def __init__(self, scene: MembershipScene) -> None:
        self.scene = scene
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> "AvailableScene":
        verticles.running.clear()
        verticles.starts.clear()
        verticles.unable.clear()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()
        await self.scene.close()

    async def node(self, name: str, group: str = "shop", quorum: int = 1) -> AvailableNode:
        node = AvailableNode(name, await self.scene.membership(name), group, quorum)
        self._exit.push_async_callback(node.close)
        await node.start()
        return node

    async def part(self, node: AvailableNode) -> None:
        """Cut the node off until its session has ended."""
        await self.scene.cut(node.name)
        # By ZooKeeper's clock, where there is one.
        if isinstance(self.scene, MemoryScene):
            self.scene.registry._remove(node.name)

    async def kill(self, node: AvailableNode) -> None:
        """End it as a process that was killed: nothing is taken back, until its session ends."""
        node.is_open = False
        await self.scene.cut(node.name)
        await node.runtime.close()
        if isinstance(self.scene, MemoryScene):
            self.scene.registry._members[node.name].vanish()
            self.scene.registry.expire(node.name)
        else:
            await node.membership.close()
