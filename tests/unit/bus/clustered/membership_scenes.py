"""The two memberships behind one face, with the faults that both know."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from tests.support.cuttable_line import CuttableLine

from hutong.bus.clustered.membership.memory import MemoryRegistry
from hutong.bus.clustered.membership.port import Counts, Membership
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.clock import SystemClock
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.wire_versions import VERSION_1, VERSION_2, place_name


class Hearing:
    """A listener that keeps what it heard, and lets tests wait for it."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, NodeInfo] = {}
        self.counts: dict[str, Counts] = {}
        self.numbers: set[int] = set()  # of own registrations that are there
        self._heard = asyncio.Event()

    def nodes_changed(self, nodes: Mapping[str, NodeInfo]) -> None:
        self.nodes = nodes
        self._heard.set()

    def registrations_changed(self, address: str, counts: Counts) -> None:
        if counts:
            self.counts[address] = counts
        else:
            self.counts.pop(address, None)
        self._heard.set()

    def announced(self, number: int) -> None:
        self.numbers.add(number)
        self._heard.set()

    async def until(self, condition: Callable[["Hearing"], object]) -> None:
        """Wait until what was heard makes it true; the test's own timeout is the bound."""
        while not condition(self):
            self._heard.clear()
            await self._heard.wait()

    async def until_nodes(self, *nodes: str) -> None:
        await self.until(lambda heard: set(heard.nodes) == set(nodes))

    async def until_counts(self, address: str, **counts: int) -> None:
        await self.until(lambda heard: dict(heard.counts.get(address, {})) == counts)


class PlacedHearing(Hearing):
    """One that hears of places, and has the names of the nodes that listen there."""

    def __init__(self, infos: Mapping[str, NodeInfo]) -> None:
        super().__init__()
        self._names = {place_name(info): name for name, info in infos.items()}

    def nodes_changed(self, nodes: Mapping[str, NodeInfo]) -> None:
        super().nodes_changed({self._names[place]: info for place, info in nodes.items()})

    def registrations_changed(self, address: str, counts: Counts) -> None:
        super().registrations_changed(address, {self._names[place]: count for place, count in counts.items()})


class MembershipScene(Protocol):
    """A place where memberships live. The faults are of one node."""

    def hearing(self, infos: Mapping[str, NodeInfo]) -> Hearing: ...

    def counted(self, count: int) -> int:
        """What others hear of so many consumers at one node."""
        ...

    async def membership(self, node: str) -> Membership: ...
    async def cut(self, node: str) -> None: ...
    async def heal(self, node: str) -> None: ...
    async def expire(self, node: str) -> None: ...
    async def close(self) -> None: ...


class MemoryScene:
    """A registry in memory."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.registry = MemoryRegistry(lambda delay_ms, work: loop.call_later(delay_ms / 1_000, work), Random(1))

    def hearing(self, infos: Mapping[str, NodeInfo]) -> Hearing:
        return Hearing()

    def counted(self, count: int) -> int:
        return count

    async def membership(self, node: str) -> Membership:
        return self.registry.connect()

    async def cut(self, node: str) -> None:
        self.registry.cut(node)

    async def heal(self, node: str) -> None:
        self.registry.heal(node)

    async def expire(self, node: str) -> None:
        self.registry.expire(node)

    async def close(self) -> None:
        """Do nothing: it is memory."""


class ZooKeeperScene:
    """A real server, with a line of its own for each node. Each scene has a path of its own."""

    SESSION_MS = 2_000
    WIRE = VERSION_2

    def __init__(self, server: DevelopmentZooKeeper) -> None:
        self.server = server
        self.path = f"/tests/{secrets.token_hex(8)}"
        self._lines: dict[str, CuttableLine] = {}
        self._memberships: dict[str, Membership] = {}

    def hearing(self, infos: Mapping[str, NodeInfo]) -> Hearing:
        return Hearing()

    def counted(self, count: int) -> int:
        return count

    async def membership(self, node: str) -> Membership:
        from hutong.bus.clustered.membership.zookeeper.opening import make_zookeeper_membership
        from hutong.cluster.coordinator.zookeeper.address import parse_zookeeper_address
        from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings

        line = self._lines[node] = CuttableLine(self.server.port)
        await line.mend()
        address = parse_zookeeper_address(f"zk://127.0.0.1:{line.port}{self.path}")
        settings = ZooKeeperSettings(session_ms=self.SESSION_MS)
        made = make_zookeeper_membership(address, settings, SystemClock(), self.WIRE)
        self._memberships[node] = made
        return made

    async def cut(self, node: str) -> None:
        await self._lines[node].cut()

    async def heal(self, node: str) -> None:
        await self._lines[node].mend()

    async def expire(self, node: str) -> None:
        """Close the session by another client that has its number and password."""
        from kazoo.client import KazooClient

        client_id = self._memberships[node]._session._client.client_id  # type: ignore[attr-defined]

        def close() -> None:
            thief = KazooClient(self.server.address, client_id=client_id)
            thief.start()
            thief.stop()
            thief.close()

        await asyncio.to_thread(close)

    async def close(self) -> None:
        for membership in self._memberships.values():
            await membership.close()
        for line in self._lines.values():
            await line.cut()


class Vertx3Scene(ZooKeeperScene):
    """The same server, in the layout of Vert.x 3: nodes are known by places, and have one turn at an address."""

    WIRE = VERSION_1

    def hearing(self, infos: Mapping[str, NodeInfo]) -> Hearing:
        return PlacedHearing(infos)

    def counted(self, count: int) -> int:
        return min(count, 1)
