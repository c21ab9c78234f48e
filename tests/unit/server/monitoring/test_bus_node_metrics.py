"""Metrics of the other nodes of a clustered bus: two real ones on their pages, and a bound for any number."""

from collections.abc import Iterator

import pytest
from tests.support.exposition import ParsedFamily, parse
from tests.support.monitored import get
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus.clustered.figures import OtherNodeFigures
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.server.configuration.settings import Address
from hutong.server.monitoring.rows.bus_nodes import METRICS, NODES_SHOWN_MAX
from hutong.server.monitoring.sources import MessagingFigures

ANY_PORT = "127.0.0.1:0"
MESSAGES = "hutong_bus_node_messages_total"
BYTES = "hutong_bus_node_bytes_total"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


async def scraped(node: hutong.Node) -> dict[str, ParsedFamily]:
    assert node.metrics is not None
    host, _, port = node.metrics.rpartition(":")
    status, body = await get(Address(host, int(port)), "/metrics?detail=full")
    assert status == 200
    return parse(body)


@pytest.mark.fault
async def test_each_node_shows_what_went_to_and_came_from_the_other(zookeeper: DevelopmentZooKeeper) -> None:
    cluster = f"zk://{zookeeper.address}"
    async with (
        hutong.Node(cluster=cluster, metrics=ANY_PORT) as one,
        hutong.Node(cluster=cluster, metrics=ANY_PORT) as other,
    ):
        assert one.cluster_node is not None
        assert other.cluster_node is not None
        other.bus.consumer("echo", lambda message: message.body)
        await turning_until(lambda: "echo" in one.bus._consumers)
        before = await scraped(one)
        assert before["hutong_bus_node_connected"].value(node=other.cluster_node) == 0
        for number in range(5):
            assert (await one.bus.request("echo", number)).body == number
        mine, theirs = await scraped(one), await scraped(other)
        for page, node in ((mine, other.cluster_node), (theirs, one.cluster_node)):
            assert page["hutong_bus_node_connected"].value(node=node) == 1
            for direction in ("in", "out"):
                assert page[MESSAGES].value(node=node, direction=direction) == 5
            assert page["hutong_bus_node_queued"].value(node=node) == 0
            assert page["hutong_bus_node_queued_bytes"].value(node=node) == 0
        # What one of them has sent, the other has received.
        for sender, receiver in ((mine, theirs), (theirs, mine)):
            sent = next(value for (_, labels), value in sender[BYTES].samples.items() if ("direction", "out") in labels)
            got = next(value for (_, labels), value in receiver[BYTES].samples.items() if ("direction", "in") in labels)
            assert sent == got > 0


@pytest.mark.fault
async def test_a_node_with_high_availability_shows_its_quorum(zookeeper: DevelopmentZooKeeper) -> None:
    cluster = f"zk://{zookeeper.address}/ha"
    async with hutong.Node(cluster=cluster, ha_group="shop", ha_quorum=2, metrics=ANY_PORT) as one:
        page = await scraped(one)
        assert page["hutong_bus_ha_quorum"].value() == 0
        assert page["hutong_bus_ha_verticles"].value(state="running") == 0
        assert page["hutong_bus_ha_failovers_total"].value() == 0


async def test_a_node_alone_shows_no_others_and_what_it_shares() -> None:
    async with hutong.Node(metrics=ANY_PORT) as node:
        async with node.bus.shared.lock("door"):
            page = await scraped(node)
        assert not page[MESSAGES].samples
        assert not page["hutong_bus_ha_quorum"].samples
        assert page["hutong_bus_locks_held"].value() == 1
        assert page["hutong_bus_shared_operations_total"].value() == 1
        assert page["hutong_bus_shared_failed_total"].value() == 0


def test_nodes_above_a_bound_are_summed() -> None:
    nodes = [OtherNodeFigures(f"n{number}", True, 1, 2, 3, 4, 5, 6) for number in range(NODES_SHOWN_MAX + 3)]
    figures = MessagingFigures(None, None, {}, nodes, None, None)
    found = {metric.family.name: dict(metric.read(figures)) for metric in METRICS}
    assert all(len(samples) in (NODES_SHOWN_MAX + 1, 2 * NODES_SHOWN_MAX + 2) for samples in found.values())
    assert found["hutong_bus_node_connected"][("(other)",)] == 3
    assert found[MESSAGES][("(other)", "in")] == 9
    assert found[MESSAGES][("(other)", "out")] == 3
    assert found["hutong_bus_node_queued_bytes"][("(other)",)] == 18
    assert found["hutong_bus_node_queued_bytes"][("n0",)] == 6
