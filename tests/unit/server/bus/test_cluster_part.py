"""A node of a clustered bus by its arguments: what is refused, and a pair that finds each other."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cuttable_line import CuttableLine
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import UsageError

NOBODY = "zk://127.0.0.1:1"


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def refused(
    cluster: str, listen: str = "127.0.0.1:0", *, advertised: str | None = None, allow_plain: tuple[str, ...] = ()
) -> str:
    with pytest.raises(UsageError) as caught:
        async with hutong.Node(
            cluster=cluster, cluster_listen=listen, cluster_advertised=advertised, allow_plain=allow_plain
        ):
            pass
    return str(caught.value)


async def test_arguments_that_cannot_be_used_are_refused() -> None:
    assert "does not begin with zk://" in await refused("127.0.0.1:2181")
    assert "cluster_listen" in await refused(NOBODY, "nowhere")
    assert "without TLS" in await refused(NOBODY, "10.0.0.1:0")
    assert "where other nodes cannot connect" in await refused(NOBODY, "0.0.0.0:0", allow_plain=("bus",))


@pytest.mark.parametrize("advertised", ["nowhere", "0.0.0.0:7000", "[::]:7000", ":7000", "bus.example:0", "a:b:1", ""])
async def test_what_nobody_can_connect_to_is_not_advertised(advertised: str) -> None:
    sentence = await refused(NOBODY, "0.0.0.0:0", advertised=advertised, allow_plain=("bus",))
    assert sentence.startswith("cluster_advertised is ")
    assert sentence.count(". ") == 0


def test_an_advertised_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="cluster_advertised is for a node of a cluster"):
        hutong.Node(cluster_advertised="bus.example:7000")


@pytest.mark.parametrize("version", [0, 3, -1, "1", None])
def test_another_wire_version_is_refused(version: Any) -> None:
    with pytest.raises(UsageError, match=r"cluster_wire_version is .*: set 2"):
        hutong.Node(cluster=NOBODY, cluster_wire_version=version)


def test_version_1_goes_with_a_cluster_and_without_high_availability() -> None:
    with pytest.raises(UsageError, match="cluster_wire_version is for a node of a cluster"):
        hutong.Node(cluster_wire_version=1)
    with pytest.raises(UsageError, match="leave it out with cluster_wire_version=1"):
        hutong.Node(cluster=NOBODY, cluster_wire_version=1, ha_group="shop")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.mark.fault
async def test_two_nodes_find_each_other(zookeeper: DevelopmentZooKeeper) -> None:
    cluster = f"zk://{zookeeper.address}"
    async with hutong.Node(cluster=cluster) as one, hutong.Node(cluster=cluster) as other:
        assert None is not one.cluster_node != other.cluster_node
        assert one.cluster_address != other.cluster_address
        await other.bus.consumer("greet", lambda message: f"hello, {message.body}").ready()
        await turning_until(lambda: "greet" in one.bus._consumers)
        assert (await one.bus.request("greet", "lane")).body == "hello, lane"
        # Who comes now knows it from the start.
        async with hutong.Node(cluster=cluster) as third:
            assert (await third.bus.request("greet", "yu")).body == "hello, yu"
        with pytest.raises(UsageError, match="cannot be an address of a clustered bus"):
            one.bus.consumer("a/b", print)
        one.bus.consumer("a/b", lambda message: message.reply(1), local_only=True)
        assert (await one.bus.request("a/b")).body == 1


@pytest.mark.fault
async def test_others_connect_where_a_node_is_advertised(zookeeper: DevelopmentZooKeeper) -> None:
    cluster = f"zk://{zookeeper.address}/advertised"
    line = CuttableLine(port := unused_port())
    await line.mend()
    advertised = f"127.0.0.1:{line.port}"
    async with (
        hutong.Node(
            cluster=cluster, cluster_listen=f":{port}", cluster_advertised=advertised, allow_plain=["bus"]
        ) as behind,
        hutong.Node(cluster=cluster) as one,
    ):
        assert behind.cluster_address == advertised
        behind.bus.consumer("greet", lambda message: "through the line")
        await turning_until(lambda: "greet" in one.bus._consumers)
        assert (await one.bus.request("greet")).body == "through the line"
        # Nothing else leads there.
        await line.cut()
        await turning_until(lambda: "greet" not in one.bus._consumers)


@pytest.mark.fault
async def test_another_path_is_another_cluster(zookeeper: DevelopmentZooKeeper) -> None:
    cluster = f"zk://{zookeeper.address}"
    async with hutong.Node(cluster=cluster) as one, hutong.Node(cluster=f"{cluster}/else/where") as other:
        other.bus.consumer("greet", lambda message: 1)
        one.bus.consumer("own", lambda message: 1)
        await asyncio.sleep(0)
        with pytest.raises(hutong.ReplyError, match="no handlers"):
            await one.bus.request("greet")


async def test_a_node_alone_knows_no_cluster() -> None:
    async with hutong.Node() as node:
        assert node.cluster_address is node.cluster_node is None
        assert node.bus.consumer("place", print).ready().done()
