"""The two coordinators behind one face, with the faults that both know."""

import asyncio
import random
import secrets
from typing import Protocol

from tests.support.cuttable_line import CuttableLine

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.cluster.coordinator.memory_node import MemoryCoordinator
from hutong.cluster.coordinator.port import Coordinator
from hutong.foundation.clock import SystemClock


class CoordinatorScene(Protocol):
    """Where coordinators live. The faults are of one node, `stop` and `start` of the whole."""

    async def coordinator(self, node: int) -> Coordinator: ...
    async def suspend(self, node: int) -> None: ...
    async def resume(self, node: int) -> None: ...
    async def expire(self, node: int) -> None: ...
    async def vanish(self, node: int) -> None: ...
    async def stop(self) -> None: ...
    async def start(self) -> None: ...
    async def close(self) -> None: ...


class MemoryScene:
    """An ensemble in memory with short sessions, in real time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ensemble = MemoryEnsemble(
            lambda delay_ms, callback: loop.call_later(delay_ms / 1_000, callback), random.Random(1), session_ms=100
        )
        self._loop = loop
        self._handles: dict[int, MemoryCoordinator] = {}

    async def coordinator(self, node: int) -> Coordinator:
        handle = self._handles[node] = self.ensemble.connect(node, self._loop.call_soon)
        return handle

    async def suspend(self, node: int) -> None:
        self.ensemble.suspend(node)

    async def resume(self, node: int) -> None:
        self.ensemble.resume(node)

    async def expire(self, node: int) -> None:
        self.ensemble.expire(node)

    async def vanish(self, node: int) -> None:
        self._handles[node].vanish()

    async def stop(self) -> None:
        self.ensemble.stop()

    async def start(self) -> None:
        self.ensemble.start()

    async def close(self) -> None:
        pass


class ZooKeeperScene:
    """A real server, with a line of its own for each coordinator. Each scene has a path of its own."""

    SESSION_MS = 2_000  # twice the least that the server grants: a busy machine must not lose them in a restart

    def __init__(self, server: DevelopmentZooKeeper) -> None:
        self._server = server
        self.path = f"/tests/{secrets.token_hex(8)}"
        self._lines: dict[int, list[CuttableLine]] = {}
        self._coordinators: list[Coordinator] = []

    async def coordinator(self, node: int) -> Coordinator:
        from hutong.cluster.coordinator.zookeeper.address import parse_zookeeper_address
        from hutong.cluster.coordinator.zookeeper.opening import make_zookeeper_coordinator
        from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings

        line = CuttableLine(self._server.port)
        await line.mend()
        self._lines.setdefault(node, []).append(line)
        address = parse_zookeeper_address(f"zk://127.0.0.1:{line.port}{self.path}")
        made = make_zookeeper_coordinator(address, ZooKeeperSettings(session_ms=self.SESSION_MS), SystemClock())
        self._coordinators.append(made)
        return made

    async def suspend(self, node: int) -> None:
        for line in self._lines[node]:
            await line.cut()

    async def resume(self, node: int) -> None:
        for line in self._lines[node]:
            await line.mend()

    async def expire(self, node: int) -> None:
        """Close the session by another client that has its number and password."""
        from kazoo.client import KazooClient

        coordinator: object = next(made for made in self._coordinators if self._node_of(made) == node)
        client_id = coordinator._session._client.client_id  # type: ignore[attr-defined]

        def close() -> None:
            thief = KazooClient(self._server.address, client_id=client_id)
            thief.start()
            thief.stop()
            thief.close()

        await asyncio.to_thread(close)

    async def vanish(self, node: int) -> None:
        """Leave the process without a line: that is how the server sees its death."""
        await self.suspend(node)
        self._lines[node].clear()

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.stop)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        for coordinator in self._coordinators:
            await coordinator.close()
        for lines in self._lines.values():
            for line in lines:
                await line.cut()

    @staticmethod
    def _node_of(coordinator: object) -> int:
        node: int = coordinator._session._registration.node  # type: ignore[attr-defined]
        return node
