"""Buses that share data: in one tree in memory, and by a real ZooKeeper. The faults are of one node."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from tests.support.waiting import turning_until
from tests.unit.bus.clustered.membership_scenes import Hearing, MembershipScene, ZooKeeperScene

from hutong.bus import EventBus
from hutong.bus.clustered.membership.port import Membership
from hutong.bus.shared.port import EntryStore
from hutong.foundation.clock import SystemClock
from hutong.runtime.runtime import Runtime
from hutong.wire.vertx.cluster_nodes import NodeInfo


class SharingNode:
    """A bus whose shared data are those of the scene."""

    def __init__(self, name: str, membership: Membership) -> None:
        self.name = name
        self.membership = membership
        self.runtime = Runtime(SystemClock(), blocked_limits=None)
        self.bus = EventBus(self.runtime)
        self.shared = self.bus.shared
        self.heard = Hearing()

    @property
    def entries(self) -> EntryStore:
        return self.membership.entries

    async def start(self) -> None:
        await self.membership.start(self.name, NodeInfo("127.0.0.1", 1), self.heard)
        self.shared.use(self.entries)

    async def close(self) -> None:
        await self.membership.close()
        await self.bus.close()
        await self.runtime.close()


class SharingScene:
    """Nodes that share data: `async with SharingScene(scene) as shared`."""

    def __init__(self, scene: MembershipScene) -> None:
        self.scene = scene
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> "SharingScene":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()
        await self.scene.close()

    async def node(self, name: str) -> SharingNode:
        node = SharingNode(name, await self.scene.membership(name))
        self._exit.push_async_callback(node.close)
        await node.start()
        return node

    async def pair(self) -> tuple[SharingNode, SharingNode]:
        return await self.node("a-1"), await self.node("b-2")

    async def cut(self, node: SharingNode) -> None:
        """Cut the node off, and wait until it has noticed."""
        await self.scene.cut(node.name)
        entries: Any = node.entries
        if isinstance(self.scene, ZooKeeperScene):
            await turning_until(lambda: entries._client is None)

    async def heal(self, node: SharingNode) -> None:
        await self.scene.heal(node.name)
        await self.until_reached(node)

    async def until_reached(self, node: SharingNode) -> None:
        """Wait until the node has a session again."""
        entries: Any = node.entries
        if isinstance(self.scene, ZooKeeperScene):
            await turning_until(lambda: entries._client is not None)
