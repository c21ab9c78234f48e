"""An empty disk in the place of a lost one, under the number that its node had: it leads nothing, and is filled."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from hutong.foundation.errors import UsageError
from hutong.testing import EmbeddedCluster, Topic

RECORDS = 300
TIMEOUT_S = 30


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics=[Topic("orders", partitions=1)]) as running:
        running.wait_until_in_sync()
        producer = Producer({"bootstrap.servers": running.bootstrap, "acks": "all", "log_level": 0})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(TIMEOUT_S) == 0
        yield running


def texts(cluster: EmbeddedCluster) -> list[str]:
    return [record.text for record in cluster.records("orders", count=RECORDS, timeout=TIMEOUT_S)]


def sent() -> list[str]:
    return [str(number) for number in range(RECORDS)]


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_node_is_filled_anew(cluster: EmbeddedCluster, *, is_leader: bool) -> None:
    leader = cluster.leader_of("orders")
    number = leader if is_leader else leader % 3 + 1
    cluster.kill(number)
    cluster.node(number).lose_disk()
    cluster.start(number)
    cluster.wait_until_in_sync()
    # It has everything again: the others are not needed to read it.
    cluster.stop(number % 3 + 1)
    cluster.wait_until_in_sync()
    assert texts(cluster) == sent()


def test_a_node_whose_disk_is_gone_founds_nothing_where_the_others_are_down(cluster: EmbeddedCluster) -> None:
    controller = cluster.controller()
    cluster.run(kill_all(cluster))
    cluster.node(controller).lose_disk()
    with pytest.raises(UsageError, match=f"has no records, and node {controller} has records of this cluster"):
        cluster.start(controller)
    others = [node.number for node in cluster.nodes if node.number != controller]
    cluster.run(start_all(cluster, others))
    assert texts(cluster) == sent()
    cluster.start(controller)
    cluster.wait_until_in_sync()
    assert texts(cluster) == sent()


async def kill_all(cluster: EmbeddedCluster) -> None:
    """At one moment: nobody leaves the set before."""
    await asyncio.gather(*(node.die() for node in cluster.nodes))


async def start_all(cluster: EmbeddedCluster, numbers: list[int]) -> None:
    """Side by side, since one alone has no majority."""
    await asyncio.gather(*(cluster.node(number).begin() for number in numbers))


def test_a_node_that_runs_keeps_its_disk(cluster: EmbeddedCluster) -> None:
    with pytest.raises(RuntimeError, match="kill it first"):
        cluster.node(1).lose_disk()
