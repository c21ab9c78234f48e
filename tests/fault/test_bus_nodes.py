"""Nodes of a clustered bus that die under load, two of Vert.x and two of ours: killed, stopped, cut off the network.

Strategy: each has a network namespace of its own, and so has ZooKeeper. One of theirs and one of ours survive each
fault, and ask all nodes in turn without a break. A request may take thrice as long as a session. So one of ours that
ends by its timeout has waited for the dead longer than the session, and fails the test.

How long the survivors were without an answer is printed, and nothing is said about it: Vert.x waits for its timeouts.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.driven_process import DrivenProcess
from tests.support.namespaces import Namespaces
from tests.support.own_node import OwnNode
from tests.support.vertx_node import SESSION_MS, VertxNode
from tests.support.zookeeper import make_zookeeper

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
ZOOKEEPER: Final = "zk"
SURVIVORS: Final = ("their-survivor", "our-survivor")
VICTIMS: Final = ("their-victim", "our-victim")
WINDOW: Final = 8
TIMEOUT_MS: Final = 3 * SESSION_MS
NEWEST, OLDEST = "5", "4"


class Scene:
    """The network, ZooKeeper, and the nodes by their namespaces."""

    def __init__(self, network: Namespaces, zookeeper: str) -> None:
        self.network = network
        self._zookeeper = zookeeper
        self.nodes: dict[str, DrivenProcess] = {}

    async def start(self, name: str, make: Callable[..., DrivenProcess], *version: str) -> None:
        place = {"host": self.network.address(name), "prefix": self.network.prefix(name)}
        node = self.nodes[name] = make(self._zookeeper, *version, **place)
        await asyncio.to_thread(node.wait_until_ready)

    async def until_echoes(self, count: int) -> None:
        for name in SURVIVORS:
            await self.nodes[name].until_consumers("echo", count)

    async def begin_load(self) -> None:
        for name in SURVIVORS:
            await self.nodes[name].told("options", body={"timeout": TIMEOUT_MS})
            await self.nodes[name].told("load", "echo", WINDOW)

    async def end_load(self) -> dict[str, Any]:
        for name in SURVIVORS:
            await self.nodes[name].told("unload")
        return {name: await self.nodes[name].told("loaded") for name in SURVIVORS}

    async def until_answered(self, name: str, more: int) -> None:
        """Wait until the load of a survivor has so many more answers."""
        node = self.nodes[name]
        answered = (await node.told("loaded"))["ended"].get("answered", 0)
        await node.until(lambda: node.ask_now("loaded")["body"]["ended"].get("answered", 0) >= answered + more, "load")

    def close(self) -> None:
        for node in self.nodes.values():
            with contextlib.suppress(ProcessLookupError):
                node.resume()
                node.kill()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    names = (ZOOKEEPER, *SURVIVORS, *VICTIMS)
    with Namespaces(names, str(tmp_path / "wires.log")) as network:
        zookeeper = make_zookeeper(tmp_path, network.address(ZOOKEEPER), network.prefix(ZOOKEEPER))
        zookeeper.start()
        made = Scene(network, zookeeper.address)
        yield made
        made.close()
        zookeeper.stop()


def kill(scene: Scene, name: str) -> None:
    scene.nodes[name].kill()


def stop(scene: Scene, name: str) -> None:
    scene.nodes[name].pause()


def cut(scene: Scene, name: str) -> None:
    scene.network.cut(name)


@pytest.mark.parametrize(
    "fault",
    [kill, pytest.param(stop, marks=pytest.mark.thorough), pytest.param(cut, marks=pytest.mark.thorough)],
    ids=lambda each: each.__name__,
)
async def test_survivors_do_not_wait_for_the_dead(scene: Scene, fault: Callable[[Scene, str], None]) -> None:
    await asyncio.gather(
        scene.start(SURVIVORS[0], VertxNode, NEWEST),
        scene.start(VICTIMS[0], VertxNode, OLDEST),
        *[scene.start(name, OwnNode) for name in (SURVIVORS[1], VICTIMS[1])],
    )
    count = len(scene.nodes)
    await scene.until_echoes(count)
    for victim in VICTIMS:
        await scene.begin_load()
        for name in SURVIVORS:
            await scene.until_answered(name, 100)
        await asyncio.to_thread(fault, scene, victim)
        # Ours go on while the dead has its session; what theirs have open may all wait for it.
        await scene.until_answered(SURVIVORS[1], 100)
        count -= 1
        await scene.until_echoes(count)
        for name in SURVIVORS:
            await scene.until_answered(name, 100)
        found = await scene.end_load()
        for name, figures in found.items():
            print(fault.__name__, victim, "seen by", name, json.dumps(figures), flush=True)
        assert "TIMEOUT" not in found[SURVIVORS[1]]["ended"]
        for name in SURVIVORS:
            for number in range(2 * count):
                assert (await scene.nodes[name].told("request", "echo", number)) == number


@pytest.mark.parametrize("fault", [stop, cut], ids=lambda each: each.__name__)
async def test_one_of_ours_is_back_after_its_session(scene: Scene, fault: Callable[[Scene, str], None]) -> None:
    victim = VICTIMS[1]
    await asyncio.gather(
        scene.start(SURVIVORS[0], VertxNode, NEWEST), *[scene.start(name, OwnNode) for name in (SURVIVORS[1], victim)]
    )
    await scene.until_echoes(3)
    fault(scene, victim)
    await scene.until_echoes(2)
    if fault is stop:
        scene.nodes[victim].resume()
    else:
        scene.network.heal(victim)
    await scene.until_echoes(3)
    for name in (*SURVIVORS, victim):
        await scene.nodes[name].until_consumers("echo", 3)
        for number in range(6):
            assert (await scene.nodes[name].told("request", "echo", number)) == number
