"""What nodes with high availability do: in memory, and by a real ZooKeeper. Vert.x's scenarios have its names."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.zookeeper import running_zookeeper
from tests.unit.bus.clustered.availability import verticles
from tests.unit.bus.clustered.availability.scenes import AvailableNode, AvailableScene
from tests.unit.bus.clustered.availability.verticles import NoVerticle, Outer, Shown, Stubborn, news
from tests.unit.bus.clustered.membership_scenes import MembershipScene, MemoryScene, ZooKeeperScene

from hutong.bus.clustered.availability.entries import MAP, HaVerticle, encode_entry, path_of
from hutong.bus.shared.values import encode_pair
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import LimitExceeded, OwnerGone, UsageError
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.fault)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[AvailableScene]:
    is_memory = request.param == "memory"
    made: MembershipScene = MemoryScene() if is_memory else ZooKeeperScene(request.getfixturevalue("zookeeper"))
    async with AvailableScene(made) as scene:
        yield scene


@pytest.fixture
async def in_memory() -> AsyncIterator[AvailableScene]:
    async with AvailableScene(MemoryScene()) as scene:
        yield scene


def anywhere() -> list[str]:
    return sorted([shown.config["name"] for shown in verticles.running])


async def seen(*nodes: AvailableNode) -> None:
    """Wait until all of them see all of them."""
    names = {node.name for node in nodes}
    await news.until(lambda: all(names <= set(node.availability.machine._members()) for node in nodes))


async def test_simple_failover(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    await a.deploy("one", instances=2)
    await a.deploy("two")
    await b.deploy("three")
    await cluster.kill(a)
    await b.until("one", "one", "two", "three")
    figures = b.availability.figures
    assert (figures.has_quorum, figures.failovers_total, figures.verticles["running"]) == (
        True,
        1,
        3,
    )  # one of them with two instances
    assert verticles.starts["one"] == 4
    await news.until(lambda: set(b.availability.machine._entries) == {"b-2"})


async def test_of_many_nodes_exactly_one_takes_over(cluster: AvailableScene) -> None:
    nodes = [await cluster.node(f"node-{number}") for number in range(4)]
    await seen(*nodes)
    doomed, *others = nodes
    for number in range(5):
        await doomed.deploy(f"v{number}")
    await cluster.kill(doomed)
    await news.until(lambda: len(anywhere()) == 5)
    await news.until(lambda: all(set(node.availability.machine._entries) == {"node-1", "node-2", "node-3"}
                                    for node in others))  # fmt: skip
    assert sorted(len(node.names) for node in others) == [0, 0, 5]
    assert set(verticles.starts.values()) == {2}


async def test_a_node_that_leaves_in_order_is_taken_over_by_nobody(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    await a.deploy("one")
    await a.close()
    await news.until(lambda: set(b.availability.machine._entries) == {"b-2"})
    assert anywhere() == []


async def test_quorum(cluster: AvailableScene) -> None:
    a = await cluster.node("a-1", quorum=2)
    deploying = asyncio.ensure_future(a.deploy("one"))
    await news.until(lambda: a.availability.machine.states)
    assert not deploying.done()
    b = await cluster.node("b-2", quorum=2)
    deployment = await deploying
    assert a.names == ["one"]
    assert deployment.name == "Shown"
    await b.deploy("two")


async def test_quorum_lost(cluster: AvailableScene) -> None:
    """The verticles are undeployed, and deployed again when it is back."""
    a, b = await cluster.node("a-1", quorum=2), await cluster.node("b-2", quorum=2)
    deployment = await a.deploy("one")
    await a.deploy("local", ha=False)
    await cluster.kill(b)
    await a.until("local")
    c = await cluster.node("c-3", quorum=2)
    await a.until("local", "one")
    # The deployment that the program has still means the verticle, which has another one by now.
    await a.runtime.undeploy(deployment)
    await a.until("local")
    assert c.names == []


async def test_what_waits_for_a_quorum_is_taken_over_when_it_is_back(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1", quorum=2), await cluster.node("b-2", quorum=2)
    await a.deploy("one")
    await b.deploy("two")
    await cluster.kill(b)
    await a.until()
    c = await cluster.node("c-3", quorum=2)
    await news.until(lambda: anywhere() == ["one", "two"])
    assert sorted(a.names + c.names) == ["one", "two"]


async def test_failure_in_failover(cluster: AvailableScene) -> None:
    """The node that takes over cannot start them, and dies: the next one takes them over."""
    a, b, c = [await cluster.node(name) for name in ("a-1", "b-2", "c-3")]
    await seen(a, b, c)
    await a.deploy("one")
    await a.deploy("two")
    verticles.unable.update((b.runtime, c.runtime))
    await cluster.kill(a)
    await news.until(lambda: any("failed" in [state.value for state in node.availability.machine.states.values()]
                                    for node in (b, c)))  # fmt: skip
    assert anywhere() == []
    failed, other = (b, c) if b.availability.machine.states else (c, b)
    verticles.unable.clear()
    await cluster.kill(failed)
    await other.until("one", "two")


async def test_ha_groups(cluster: AvailableScene) -> None:
    a, b, c = await cluster.node("a-1", "shop"), await cluster.node("b-2", "bank"), await cluster.node("c-3", "shop")
    await seen(a, c)
    await a.deploy("one")
    await b.deploy("two")
    await cluster.kill(a)
    await c.until("one")
    await cluster.kill(b)
    await news.until(lambda: set(c.availability.machine._nodes) == {"c-3"})
    assert c.names == ["one"]
    # It waits for a node of its own group.
    d = await cluster.node("d-4", "bank")
    await d.until("two")


async def test_verticles_without_ha_stay(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    await a.deploy("one", ha=False)
    await a.deploy("two")
    await cluster.kill(a)
    await b.until("two")


async def test_what_was_taken_over_is_taken_over_again(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    await a.deploy("one", kind=ContextKind.WORKER, name="first")
    await cluster.kill(a)
    await b.until("one")
    c = await cluster.node("c-3")
    await seen(b, c)
    await cluster.kill(b)
    await c.until("one")
    (shown,) = verticles.running
    assert shown.context.kind is ContextKind.WORKER
    assert shown.context.name.startswith("first-")


async def test_a_node_whose_session_was_lost_gives_up_what_others_have(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    deployment = await a.deploy("one")
    await cluster.part(a)
    await b.until("one")
    # Nobody could tell it: with a quorum of one it goes on.
    assert a.names == ["one"]
    await cluster.scene.heal("a-1")
    await a.until()
    assert b.names == ["one"]
    await news.until(lambda: not a.availability.has(deployment))
    # It takes part again.
    await seen(a, b)
    await cluster.kill(b)
    await a.until("one")


async def test_a_node_that_is_cut_off_undeploys_what_needs_a_quorum(cluster: AvailableScene) -> None:
    a, b, c = [await cluster.node(name, quorum=2) for name in ("a-1", "b-2", "c-3")]
    await seen(a, b, c)
    await a.deploy("one")
    await cluster.scene.expire("a-1") if isinstance(cluster.scene, MemoryScene) else await cluster.scene.cut("a-1")
    await news.until(lambda: verticles.starts["one"] == 2 and len(anywhere()) == 1)


async def test_it_is_undeployed_everywhere(cluster: AvailableScene) -> None:
    a, b = await cluster.node("a-1"), await cluster.node("b-2")
    await seen(a, b)
    deployment = await a.deploy("one")
    await a.runtime.undeploy(deployment)
    assert a.names == []
    await a.runtime.undeploy(deployment)
    await news.until(lambda: b.availability.machine._entries["a-1"][0].verticles == ())
    await cluster.kill(a)
    await news.until(lambda: set(b.availability.machine._entries) == {"b-2"})
    assert anywhere() == []


async def test_an_entry_that_somebody_has_spoilt_is_repaired(in_memory: AvailableScene) -> None:
    a, b = await in_memory.node("a-1"), await in_memory.node("b-2")
    await seen(a, b)
    await a.deploy("one")
    assert await b.membership.entries.write(path_of("a-1"), b"spoilt")
    await news.until(lambda: b.availability.machine._group_of("a-1") is None)
    await seen(a, b)
    assert verticles.starts["one"] == 1
    await in_memory.kill(a)
    await b.until("one")


async def test_a_failed_start_is_told_to_the_program(in_memory: AvailableScene) -> None:
    a = await in_memory.node("a-1")
    verticles.unable.add(a.runtime)
    with pytest.raises(RuntimeError, match="not on this node"):
        await a.deploy("one")
    assert a.availability.machine.states == {}


async def test_a_failed_stop_is_told_to_the_program(in_memory: AvailableScene) -> None:
    a = await in_memory.node("a-1")
    deployment = await a.deploy("one", Stubborn)
    with pytest.raises(RuntimeError, match="would not stop"):
        await a.runtime.undeploy(deployment)
    assert a.availability.machine.states == {}


async def test_who_waits_for_a_quorum_hears_of_the_end(in_memory: AvailableScene) -> None:
    a = await in_memory.node("a-1", quorum=2)
    deploying = asyncio.ensure_future(a.deploy("one"))
    await news.until(lambda: a.availability.machine.states)
    await a.close()
    with pytest.raises(OwnerGone):
        await deploying


async def test_a_node_without_a_cluster_deploys_it_as_any_other() -> None:
    async with Runtime(blocked_limits=None) as runtime:
        deployment = await runtime.deploy(Shown, DeploymentOptions(config={"name": "one"}, ha=True))
        assert deployment.options.ha
        await runtime.undeploy(deployment)


def main_verticle() -> type[Shown]:
    return type("Main", (Shown,), {"__module__": "__main__"})


@pytest.mark.parametrize(
    ("make", "options", "text"),
    [
        (lambda: Shown(), {}, "must be a class of verticles"),
        (NoVerticle, {}, "must be a class of verticles"),
        (main_verticle(), {}, "from the program's main file"),
        (Shown, {"config": {"bytes": b"1"}}, "must be JSON"),
        (Shown, {"config": {"pair": (1, 2)}}, "must be JSON"),
        (Shown, {"config": {"number": float("nan")}}, "must be JSON"),
    ],
)
async def test_what_another_node_cannot_make_is_refused(
    in_memory: AvailableScene, make: Any, options: dict[str, Any], text: str
) -> None:
    a = await in_memory.node("a-1")
    with pytest.raises(UsageError, match=text):
        await a.runtime.deploy(make, DeploymentOptions(ha=True, **options))


async def test_a_configuration_has_a_bound(in_memory: AvailableScene) -> None:
    a = await in_memory.node("a-1")
    with pytest.raises(LimitExceeded, match="verticle_bytes_max"):
        await a.runtime.deploy(Shown, DeploymentOptions(config={"name": "x" * 5_000}, ha=True))


async def test_a_class_within_a_class_can_be_made(in_memory: AvailableScene) -> None:
    a, b = await in_memory.node("a-1"), await in_memory.node("b-2")
    await seen(a, b)
    await a.deploy("one", Outer.Inner)
    await in_memory.kill(a)
    await b.until("one")


@pytest.mark.parametrize(
    "verticle",
    [
        HaVerticle("1", "no.such.module:Shown", {}),
        HaVerticle("1", "tests.unit.bus.clustered.availability.verticles:Nobody", {}),
        HaVerticle("1", "tests.unit.bus.clustered.availability.verticles:NoVerticle", {}),
        HaVerticle("1", "", {}),
        HaVerticle("1", ":", {}),
        HaVerticle("1", "tests.unit.bus.clustered.availability.verticles:Shown", {"instances": 0}),
        HaVerticle("1", "tests.unit.bus.clustered.availability.verticles:Shown", {"config": 5}),
        HaVerticle("1", "tests.unit.bus.clustered.availability.verticles:Shown", {"loop": 99}),
    ],
)
async def test_verticles_that_this_node_cannot_make_are_logged(
    in_memory: AvailableScene, verticle: HaVerticle, caplog: pytest.LogCaptureFixture
) -> None:
    a = await in_memory.node("a-1")
    caplog.set_level(logging.ERROR)
    await a.membership.entries.create(path_of("dead"), encode_entry("dead", "shop", (verticle,)))
    await news.until(lambda: "failed" in [state.value for state in a.availability.machine.states.values()])
    assert "could not be started here" in caplog.text
    await a.deploy("one")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xac\xed\x00\x05",
        encode_pair("dead", "no JSON"),
        encode_pair("dead", "[]"),
        encode_pair("dead", '{"group": 5, "verticles": []}'),
        encode_pair("dead", '{"group": "python:shop", "verticles": [{"dep_id": 1}]}'),
        encode_pair("dead", '{"group":"python:shop","verticles":' + "[" * 10_000),
        encode_pair("dead", '{"group": "shop", "verticles": [{"dep_id": "1", "verticle_name": "com.shop.Cart"}]}'),
    ],
)
async def test_entries_that_are_not_ours_are_left_alone(in_memory: AvailableScene, content: bytes) -> None:
    a = await in_memory.node("a-1")
    assert await a.membership.entries.create(path_of("dead"), content)
    await a.deploy("one")
    await news.until(lambda: a.availability.machine.states)
    assert await a.membership.entries.names(MAP) == ["a-1", "dead"]
