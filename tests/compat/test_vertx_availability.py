"""High availability of real Vert.x nodes and of ours in one cluster: processes are killed, and verticles move."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.vertx_shared import MOSTLY_5, VERSIONS, SharedVertxNode
from tests.support.zookeeper import running_zookeeper

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path)


class OurNode:
    """One process of ours."""

    def __init__(self, zookeeper: str, group: str, quorum: int, *names: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.available_node", zookeeper, group, str(quorum), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def next_now(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the node has ended with {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    async def next(self) -> dict[str, Any]:
        """The next thing that it says."""
        return await asyncio.to_thread(self.next_now)

    async def kill(self) -> None:
        await asyncio.to_thread(self.kill_now)

    def kill_now(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    async def close(self) -> str:
        """Let it leave in order. Returns what else it has said."""
        said, _ = await asyncio.to_thread(self.process.communicate)
        return said


class Cluster:
    """Nodes of both kinds, which end with the test."""

    def __init__(self, zookeeper: str, exit_stack: AsyncExitStack) -> None:
        self._zookeeper = zookeeper
        self._exit = exit_stack

    async def ours(self, group: str, quorum: int, *names: str) -> OurNode:
        node = OurNode(self._zookeeper, group, quorum, *names)
        self._exit.callback(node.kill_now)
        for name in names:
            assert await node.next() == {"started": name}
        assert "node" in await node.next()
        return node

    async def theirs(self, group: str, quorum: int, version: str = VERSIONS[0]) -> SharedVertxNode:
        node = SharedVertxNode(self._zookeeper, version, availability=(group, str(quorum)))
        self._exit.callback(node.end)
        return await asyncio.to_thread(node.wait_until_ready)


@pytest.fixture
async def cluster(zookeeper: DevelopmentZooKeeper) -> Any:
    async with AsyncExitStack() as exit_stack:
        yield Cluster(zookeeper.address, exit_stack)


@pytest.mark.parametrize("version", MOSTLY_5)
async def test_each_kind_takes_over_its_own(cluster: Cluster, version: str) -> None:
    first, second = await cluster.theirs("shop", 1, version), await cluster.theirs("shop", 1, version)
    await first.ask("deploy", value={"name": "java"})
    doomed, other = await cluster.ours("shop", 1, "one", "two"), await cluster.ours("shop", 1, "three")
    await asyncio.to_thread(first.kill)
    await second.until(lambda: second.ask_now("running") == [{"name": "java"}], "the verticle of Java is there")
    await doomed.kill()
    assert [await other.next(), await other.next()] == [{"started": "one"}, {"started": "two"}]
    assert await second.ask("running") == [{"name": "java"}]
    said = await other.close()
    # Its own, and those that it had taken over.
    assert sorted(json.loads(line)["stopped"] for line in said.splitlines()) == ["one", "three", "two"]
    log = await asyncio.to_thread(second.close)
    assert "Successfully redeployed verticle" in log
    # It may find that an entry goes while it counts its quorum, of its own nodes as of ours, and says so.
    assert "Failed to handle failover" not in log, log
    assert "python:" not in log


async def test_a_quorum_of_ours_is_lost_and_comes_back(cluster: Cluster) -> None:
    doomed, other = await asyncio.gather(cluster.ours("shop", 2, "one"), cluster.ours("shop", 2, "two"))
    # A node of Java with a group of that name is in another one: it makes no quorum.
    await cluster.theirs("shop", 1)
    await doomed.kill()
    assert await other.next() == {"stopped": "two"}
    await cluster.ours("shop", 2)
    # "one" is deployed by it or by the new node, as their ids have it.
    while await other.next() != {"started": "two"}:
        pass
