"""Delays to a time at three nodes: any of them takes such messages, one has them, and another goes on when it dies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from tests.unit.broker.rocketmq.scene import PatientClient, client_of_node
from tests.unit.broker.rocketmq.test_recall import delay, now_ms, recall

from hutong.broker.topics.internal_topics import DELAYED_TOPIC
from hutong.testing import EmbeddedCluster, Topic
from hutong.wire.rocketmq.codes import PULL_WAITS, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages, encode_properties

NODES = (1, 2, 3)
SETTINGS = {
    "rocketmq.listen": "127.0.0.1:0",
    # A machine that runs all tests at once must take no node for slow, or for dead.
    "cluster.lag_ms_max": "20000",
    "cluster.session_timeout_ms": "5000",
}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=3)], settings=SETTINGS) as running:
        running.wait_until_in_sync()  # until then too few replicas may have what is sent
        yield running


@pytest.fixture
async def clients(cluster: EmbeddedCluster) -> AsyncIterator[dict[int, PatientClient]]:
    async with AsyncExitStack() as stack:
        yield {node: await stack.enter_async_context(client_of_node(cluster, node)) for node in NODES}


async def received(client: PatientClient, topic: str, count: int, queue: int = 0) -> list[bytes]:
    """The bodies in a queue, once there are so many."""
    found: list[bytes] = []
    while len(found) < count:
        answer = await client.pull(len(found), topic, queueId=queue, sysFlag=PULL_WAITS)
        found += [bytes(message.body) for message in decode_messages(answer.body)]
    return found


async def test_any_node_takes_a_message_for_a_time(clients: dict[int, PatientClient]) -> None:
    for node in NODES:
        properties = encode_properties({"TIMER_DELAY_MS": "1200", "TAGS": "x"})
        sent = await clients[node].send(b"%d" % node, queueId=node - 1, properties=properties)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
    for node in NODES:
        assert await received(clients[node], "t", 1, node - 1) == [b"%d" % node]


async def test_any_node_takes_a_recall(cluster: EmbeddedCluster, clients: dict[int, PatientClient]) -> None:
    await asyncio.to_thread(cluster.create_topic, "recalled", partitions=1)
    for node in NODES:
        handle = await delay(clients[node], f"R{node}", now_ms() + 1_500, "recalled")
        assert await recall(clients[node % 3 + 1], handle, "recalled") == (ResponseCode.SUCCESS, f"R{node}")
    await delay(clients[1], "kept", now_ms() + 2_000, "recalled")
    assert await received(clients[1], "recalled", 1) == [b"kept"]


async def test_an_inbox_works_at_whichever_node_leads_it(cluster: EmbeddedCluster) -> None:
    await asyncio.to_thread(cluster.create_topic, "orders", partitions=3, config={"hutong.delay": "true"})
    await asyncio.to_thread(cluster.create_topic, "orders.delayed", partitions=3)
    for partition in range(3):
        for delay_ms in (0, 1_500):
            headers = [("hutong.delay.ms", b"%d" % delay_ms)]
            await cluster.aio.produce("orders.delayed", b"%d" % delay_ms, headers=headers, partition=partition)
    found = await cluster.aio.records("orders", 6)
    assert sorted((each.partition, each.value) for each in found) == [
        (partition, value) for partition in range(3) for value in (b"0", b"1500")
    ]


async def test_nothing_acknowledged_is_lost_with_the_leader() -> None:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=1)], settings=SETTINGS) as cluster:
        await cluster.aio.wait_until_in_sync()
        async with client_of_node(cluster, 1) as client:
            await delay(client, "first", now_ms() + 300)
            leader = await cluster.aio.leader_of(DELAYED_TOPIC)
            recalled = await delay(client, "recalled", now_ms() + 4_000)
            for number in range(60):
                await delay(client, f"{number}", now_ms() + 1_000 + number * 60)
            assert (await recall(client, recalled))[0] == ResponseCode.SUCCESS
        await cluster.aio.kill(leader)
        async with client_of_node(cluster, leader % 3 + 1) as client:
            wanted = {b"first", *(b"%d" % number for number in range(60))}
            found: set[bytes] = set()
            offset = 0
            while found < wanted:
                answer = await client.pull(offset, sysFlag=PULL_WAITS)
                messages = [*decode_messages(answer.body)]
                found |= {bytes(message.body) for message in messages}
                offset += len(messages)
            # What comes after the recalled one's time tells that it does not come.
            await delay(client, "last", now_ms() + 4_500)
            assert b"recalled" not in await received(client, "t", offset + 1)
