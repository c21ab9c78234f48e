"""POP at three nodes: a client pops at each node that leads queues, and goes on when one dies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import msgspec
import pytest
from tests.support.waiting import turning_until
from tests.unit.broker.rocketmq.pops import Popped, pop, receipts_of
from tests.unit.broker.rocketmq.scene import PatientClient, client_of_node
from tests.unit.broker.rocketmq.test_cluster_times import NODES, SETTINGS

from hutong.testing import EmbeddedCluster, Topic
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode

QUEUES = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=QUEUES)], settings=SETTINGS) as running:
        running.wait_until_in_sync()  # until then too few replicas may have what is sent
        yield running


@pytest.fixture
async def clients(cluster: EmbeddedCluster) -> AsyncIterator[dict[int, PatientClient]]:
    async with AsyncExitStack() as stack:
        yield {node: await stack.enter_async_context(client_of_node(cluster, node)) for node in NODES}


async def assigned(client: PatientClient, group: str, topic: str = "t") -> set[int]:
    """The nodes at which a group shall pop a topic."""
    asked = {"topic": topic, "consumerGroup": group, "clientId": "c", "messageModel": "CLUSTERING"}
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, msgspec.json.encode(asked))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    found = msgspec.json.decode(answer.body)["messageQueueAssignments"]
    assert {(each["mode"], each["messageQueue"]["queueId"]) for each in found} == {("POP", -1)}
    return {int(each["messageQueue"]["brokerName"].removeprefix("hutong-")) for each in found}


async def popped_at(client: PatientClient, **fields: object) -> list[Popped]:
    """The messages of one pop, none where there are none within its time."""
    answer = await pop(client, **{"pollTime": 0, **fields})
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return receipts_of(answer)


async def test_a_client_pops_at_each_node_that_leads_queues(clients: dict[int, PatientClient]) -> None:
    for queue in range(QUEUES):
        assert (await clients[1].send(b"%d" % queue, queueId=queue)).code == ResponseCode.SUCCESS
    places = [await assigned(clients[node], "g") for node in NODES]
    assert places[0] == places[1] == places[2]
    found: list[Popped] = []
    while len(found) < QUEUES:
        for node in places[0]:
            found += await popped_at(clients[node])
    assert sorted(each.body for each in found) == [b"%d" % queue for queue in range(QUEUES)]
    # Acknowledged at any node.
    for number, each in enumerate(found):
        assert await each.acknowledge(clients[number % 3 + 1]) == ResponseCode.SUCCESS


async def test_the_first_pop_at_any_node_writes_the_groups_settings(
    cluster: EmbeddedCluster, clients: dict[int, PatientClient]
) -> None:
    for queue in range(QUEUES):
        await clients[1].send(b"x", queueId=queue)
    for node in NODES:
        # None has asked where to pop, and no administrator has set anything.
        assert await popped_at(clients[node], consumerGroup=f"new-{node}", initMode=0, pollTime=20_000)
    assert {f"new-{node}" for node in NODES} <= {*await asyncio.to_thread(cluster.groups)}


async def test_a_group_that_pulls_does_not_pop(clients: dict[int, PatientClient]) -> None:
    place = {"consumerGroup": "pulling", "topic": "t", "queueId": 0, "commitOffset": 0}
    assert (await clients[1].ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, place)).code == ResponseCode.SUCCESS
    for node in NODES:
        answer = await pop(clients[node], consumerGroup="pulling")
        assert answer.code == ResponseCode.SYSTEM_ERROR, answer.remark
        assert "offsets of pulls" in (answer.remark or "")


async def test_others_go_on_without_a_leader() -> None:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=QUEUES)], settings=SETTINGS) as cluster:
        await cluster.aio.wait_until_in_sync()
        leader = await cluster.aio.leader_of("t")
        survivor = leader % 3 + 1
        async with client_of_node(cluster, leader) as client:
            for number in range(2 * QUEUES):
                sent = await client.send(b"%d" % number, queueId=number % QUEUES)
                assert sent.code == ResponseCode.SUCCESS
            taken = await popped_at(client, pollTime=20_000)
            # The rest is in hand when the node dies. Leaders of a young cluster still move, and then nothing is held.
            half = taken[: len(taken) // 2]
            done = [each for each in half if await each.acknowledge(client) == ResponseCode.SUCCESS]
        async with client_of_node(cluster, survivor) as member, client_of_node(cluster, survivor % 3 + 1) as third:
            await member.heartbeat("c", "g")
            member.asked.clear()
            await cluster.aio.kill(leader)
            # Members hear that others lead.
            others = {survivor: member, survivor % 3 + 1: third}
            await turning_until(lambda: member.asked)
            found: set[bytes] = set()
            wanted = {b"%d" % number for number in range(2 * QUEUES)} - {each.body for each in done}
            while found < wanted:
                for node in await assigned(member, "g"):
                    # A coordinator that knows the dead one as the leader still.
                    if node in others:
                        found |= {each.body for each in await popped_at(others[node], pollTime=500)}
            assert found == wanted
