"""Durable addresses, remembered calls and the sink's transactions on a cluster, while the nodes that lead them die.

What is promised on one node holds: nothing acknowledged is lost, no call is executed twice, no version counts twice.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

import pytest

import hutong
from hutong.bus.durable import PublishFailed
from hutong.bus.durable.message import DurableMessage
from hutong.rpc import Deduplication, Delivery, new_request_id, service
from hutong.testing import EmbeddedCluster, Topic

MESSAGES: Final = 300
CALLS: Final = 60
DEADLINE_S: Final = 60.0
REMEMBERED: Final = Deduplication("cluster-calls")
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics=[Topic("orders", partitions=3)]) as running:
        running.wait_until_in_sync()
        yield running


async def test_a_durable_address_loses_nothing_with_its_leaders(cluster: EmbeddedCluster) -> None:
    handled: set[int] = set()
    acknowledged: set[int] = set()
    news = asyncio.Event()
    async with hutong.Node(log=f"kafka://{cluster.bootstrap}") as node:

        def handle(message: DurableMessage) -> None:
            handled.add(message.body)
            news.set()

        async with node.bus.consumer("topic:orders", handle, group="billing"):
            for number in range(MESSAGES):
                # One leads a partition, the other the group; a majority goes on.
                if number == MESSAGES // 3:
                    await cluster.aio.kill(await cluster.aio.leader_of("orders"))
                if number == 2 * MESSAGES // 3:
                    await restart_all(cluster)
                    await cluster.aio.kill(await cluster.aio.coordinator_of("billing"))
                try:
                    await node.bus.publish("topic:orders", number)
                except PublishFailed:
                    continue
                acknowledged.add(number)
            async with asyncio.timeout(DEADLINE_S):
                while not handled >= acknowledged:
                    news.clear()
                    await news.wait()
    assert len(acknowledged) > MESSAGES // 2


@service("till")
class Till(Protocol):
    async def take(self, number: int) -> int: ...


class CountingTill:
    """Counts how often each sale was executed."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def take(self, number: int) -> int:
        self.taken.append(number)
        return number


async def test_a_remembered_call_is_not_executed_again_where_the_memory_s_leader_died(cluster: EmbeddedCluster) -> None:
    till, requests = CountingTill(), {number: new_request_id() for number in range(CALLS)}
    async with hutong.Node(log=f"kafka://{cluster.bootstrap}") as first:
        await first.rpc.bind(Till, till, deduplicate=REMEMBERED)
        proxy = first.rpc.proxy(Till, delivery=Delivery.DEDUPLICATED)
        for number, request in requests.items():
            if number == CALLS // 2:
                await cluster.aio.kill(await cluster.aio.leader_of("cluster-calls"))
            assert await hutong.rpc.with_options(proxy, request_id=request).take(number) == number
    await restart_all(cluster)
    await cluster.aio.kill(await cluster.aio.leader_of("cluster-calls"))
    async with hutong.Node(log=f"kafka://{cluster.bootstrap}") as second:
        await second.rpc.bind(Till, till, deduplicate=REMEMBERED)
        proxy = second.rpc.proxy(Till, delivery=Delivery.DEDUPLICATED)
        for number, request in requests.items():
            assert await hutong.rpc.with_options(proxy, request_id=request).take(number) == number
    assert till.taken == list(range(CALLS))


async def restart_all(cluster: EmbeddedCluster) -> None:
    await cluster.aio.start()
    await cluster.aio.wait_until_in_sync()
