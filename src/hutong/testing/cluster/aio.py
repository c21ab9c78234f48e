"""The helpers of an embedded cluster for tests that run on an event loop: the same names, to be awaited.

Knows nothing of what the helpers do.
"""

from typing import TYPE_CHECKING

from hutong.testing.cluster.watching import ELECTION_S_MAX, IN_SYNC_S_MAX, Coordinated
from hutong.testing.node.aio import AsyncWaits
from hutong.testing.node.helpers import to_ms

if TYPE_CHECKING:
    from hutong.testing.cluster.embedded import EmbeddedCluster


class AsyncClusterHelpers(AsyncWaits):
    """`await cluster.aio.kill(2)` is what `cluster.kill(2)` is without a loop, and so for the others."""

    def __init__(self, cluster: "EmbeddedCluster") -> None:
        super().__init__(cluster)
        self._cluster = cluster

    async def start(self, number: int | None = None) -> None:
        await self._run(self._cluster.begin(number))

    async def stop(self, number: int) -> None:
        await self._run(self._cluster.node(number).end())

    async def kill(self, number: int) -> None:
        await self._run(self._cluster.node(number).die())

    async def restart(self, number: int) -> None:
        await self._run(self._cluster.renew(number))

    async def leader_of(self, topic: str, partition: int = 0, *, timeout: float = ELECTION_S_MAX) -> int:
        __tracebackhide__ = True
        return await self._run(self._cluster.watch.leader_of(topic, partition, to_ms(timeout)))

    async def controller(self, *, timeout: float = ELECTION_S_MAX) -> int:
        __tracebackhide__ = True
        return await self._run(self._cluster.watch.controller(to_ms(timeout)))

    async def coordinator_of(self, name: str, kind: Coordinated = "group", *, timeout: float = ELECTION_S_MAX) -> int:
        __tracebackhide__ = True
        return await self._run(self._cluster.watch.coordinator_of(name, kind, to_ms(timeout)))

    async def wait_until_in_sync(self, *, timeout: float = IN_SYNC_S_MAX) -> None:
        __tracebackhide__ = True
        await self._run(self._cluster.watch.wait_until_in_sync(to_ms(timeout)))
