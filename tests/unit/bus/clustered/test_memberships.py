"""What every membership does: in memory, and by a real ZooKeeper."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.zookeeper import running_zookeeper
from tests.unit.bus.clustered.membership_scenes import (
    Hearing,
    MembershipScene,
    MemoryScene,
    Vertx3Scene,
    ZooKeeperScene,
)

from hutong.bus.clustered.membership.port import Membership
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import UsageError
from hutong.wire.vertx.cluster_nodes import NodeInfo

pytestmark = pytest.mark.timeout(60)
INFOS = {name: NodeInfo("127.0.0.1", port) for name, port in (("a-1", 1), ("b-2", 2), ("c-3", 3))}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


ON_ZOOKEEPER = {"zookeeper": ZooKeeperScene, "vertx 3": Vertx3Scene}


@pytest.fixture(params=["memory", *(pytest.param(kind, marks=pytest.mark.fault) for kind in ON_ZOOKEEPER)])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[MembershipScene]:
    kind = ON_ZOOKEEPER.get(request.param)
    made: MembershipScene = MemoryScene() if kind is None else kind(request.getfixturevalue("zookeeper"))
    yield made
    await made.close()


async def started(scene: MembershipScene, node: str) -> tuple[Membership, Hearing]:
    membership, heard = await scene.membership(node), scene.hearing(INFOS)
    await membership.start(node, INFOS[node], heard)
    return membership, heard


async def test_nodes_hear_of_each_other(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    await a_heard.until_nodes("a-1")
    b, b_heard = await started(scene, "b-2")
    await a_heard.until_nodes("a-1", "b-2")
    await b_heard.until_nodes("a-1", "b-2")
    assert dict(a_heard.nodes) == {name: INFOS[name] for name in ("a-1", "b-2")}
    await b.close()
    await a_heard.until_nodes("a-1")
    await a.close()


async def test_registrations_are_counted_for_each_node(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    b, b_heard = await started(scene, "b-2")
    a.announce("x", 1)
    b.announce("x", 1)
    b.announce("x", 7)
    b.announce("y", 8)
    for heard in (a_heard, b_heard):
        await heard.until_counts("x", **{"a-1": 1, "b-2": scene.counted(2)})
        await heard.until_counts("y", **{"b-2": 1})
    b.withdraw("x", 1)
    b.withdraw("y", 8)
    for heard in (a_heard, b_heard):
        await heard.until_counts("x", **{"a-1": 1, "b-2": 1})
        await heard.until_counts("y")
    # An address that has been empty is as good as new.
    a.announce("y", 9)
    for heard in (a_heard, b_heard):
        await heard.until_counts("y", **{"a-1": 1})
    await b.close()
    await a_heard.until_counts("x", **{"a-1": 1})
    await a.close()


async def test_who_comes_late_knows_all_when_it_has_started(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    for number in range(5):
        a.announce(f"address {number}", number)
    await a_heard.until(lambda heard: len(heard.counts) == 5)
    b, b_heard = await started(scene, "b-2")
    assert len(b_heard.counts) == 5
    assert set(b_heard.nodes) == {"a-1", "b-2"}
    await a.close()
    await b.close()


async def test_what_was_announced_is_found_by_who_asks_then(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    a.announce("x", 7)
    await a_heard.until(lambda heard: heard.numbers == {7})
    b, b_heard = await started(scene, "b-2")
    assert b_heard.counts == {"x": {"a-1": 1}}
    assert b_heard.numbers == set()
    await scene.cut("a-1")
    a.announce("y", 8)
    # What b announces meanwhile is there, and the other one is not.
    b.announce("z", 9)
    await b_heard.until(lambda heard: heard.numbers == {9})
    assert a_heard.numbers == {7}
    await scene.heal("a-1")
    await a_heard.until(lambda heard: heard.numbers == {7, 8})
    await b_heard.until_counts("y", **{"a-1": 1})
    await a.close()
    await b.close()


async def test_a_lost_session_loses_no_registration(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    b, b_heard = await started(scene, "b-2")
    b.announce("x", 1)
    await a_heard.until_counts("x", **{"b-2": 1})
    await scene.expire("b-2")
    # The next session alone can bring this one.
    b.announce("y", 2)
    for heard in (a_heard, b_heard):
        await heard.until_counts("y", **{"b-2": 1})
        await heard.until_nodes("a-1", "b-2")
        await heard.until_counts("x", **{"b-2": 1})
    await a.close()
    await b.close()


async def test_what_changes_during_a_cut_is_made_up_for(scene: MembershipScene) -> None:
    a, a_heard = await started(scene, "a-1")
    b, b_heard = await started(scene, "b-2")
    b.announce("old", 1)
    b.announce("kept", 2)
    a.announce("theirs", 1)
    await a_heard.until_counts("kept", **{"b-2": 1})
    await b_heard.until_counts("theirs", **{"a-1": 1})
    await scene.cut("b-2")
    b.withdraw("old", 1)
    b.announce("new", 3)
    a.withdraw("theirs", 1)
    a.announce("others", 2)
    await a_heard.until_counts("others", **{"a-1": 1})
    await a_heard.until_counts("theirs")
    await scene.heal("b-2")
    for heard in (a_heard, b_heard):
        await heard.until_counts("new", **{"b-2": 1})
        await heard.until_counts("old")
        await heard.until_counts("kept", **{"b-2": 1})
        await heard.until_counts("others", **{"a-1": 1})
        await heard.until_counts("theirs")
    await a.close()
    await b.close()


@pytest.mark.parametrize("address", ["a/b", ".", "..", "zookeeper", "a\x00", "a\ud800"])
async def test_addresses_that_zookeeper_cannot_name_are_refused(address: str) -> None:
    pytest.importorskip("kazoo")
    from hutong.bus.clustered.membership.zookeeper.layout import check_name

    with pytest.raises(UsageError, match="cannot be an address of a clustered bus"):
        check_name(address)
