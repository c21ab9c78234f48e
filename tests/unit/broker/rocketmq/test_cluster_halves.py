"""Transactional messages at three nodes: one has them all, and another one goes on when it dies."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.waiting import turning_until
from tests.unit.broker.rocketmq.scene import RocketClient, client_of_node
from tests.unit.broker.rocketmq.test_halves import COMMIT, ROLL_BACK, end, end_checked, prepare

from hutong.testing import EmbeddedCluster, Topic
from hutong.wire.rocketmq.codes import PULL_WAITS, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages

NODES = (1, 2, 3)
SETTINGS = {
    "rocketmq.listen": "127.0.0.1:0",
    # A machine that runs all tests at once must take no node for slow, or for dead.
    "cluster.lag_ms_max": "20000",
    "cluster.session_timeout_ms": "5000",
    "rocketmq.transaction_timeout_ms": "3600000",
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=3)], settings=SETTINGS) as running:
        running.wait_until_in_sync()  # until then too few replicas may have what is sent
        yield running


@asynccontextmanager
async def producers_at(cluster: EmbeddedCluster) -> AsyncIterator[dict[int, RocketClient]]:
    """A producer's connection to each node, as Java's has them."""
    async with AsyncExitStack() as stack:
        found: dict[int, RocketClient] = {}
        for node in NODES:
            found[node] = await stack.enter_async_context(client_of_node(cluster, node))
            assert (await found[node].heartbeat("c", producers=("p",))).code == ResponseCode.SUCCESS
        yield found


@pytest.fixture
async def clients(cluster: EmbeddedCluster) -> AsyncIterator[dict[int, RocketClient]]:
    async with producers_at(cluster) as clients:
        yield clients


async def bodies(client: RocketClient, queue: int = 0) -> list[bytes]:
    answer = await client.pull(0, "t", queueId=queue, sysFlag=PULL_WAITS)
    return [bytes(message.body) for message in decode_messages(answer.body)]


async def test_any_node_takes_half_messages_and_their_ends(clients: dict[int, RocketClient]) -> None:
    for node in NODES:
        client = clients[node]
        dropped = await prepare(client, b"dropped", f"dropped-{node}")
        assert (await end(client, dropped, ROLL_BACK)).code == ResponseCode.SUCCESS
        kept = await prepare(client, b"%d" % node, f"kept-{node}")
        assert (await client.pull(node - 1)).code == ResponseCode.PULL_NOT_FOUND
        ended = await end(client, kept, COMMIT)
        assert ended.code == ResponseCode.SUCCESS, ended.remark
        # It is ended once.
        assert (await end(client, kept, COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert await bodies(clients[1]) == [b"1", b"2", b"3"]


@pytest.mark.usefixtures("elsewhere")
async def test_a_connection_without_heartbeats_ends_nothing_elsewhere(
    cluster: EmbeddedCluster, clients: dict[int, RocketClient]
) -> None:
    sent = await prepare(clients[1], b"mine")
    for node in NODES:
        async with client_of_node(cluster, node) as stranger:
            assert (await end(stranger, sent, ROLL_BACK)).code == ResponseCode.SYSTEM_ERROR
    assert (await end(clients[2], sent, COMMIT)).code == ResponseCode.SUCCESS


async def test_a_connection_ends_what_it_sent_before_its_first_heartbeat(cluster: EmbeddedCluster) -> None:
    for node in NODES:
        async with client_of_node(cluster, node) as client:
            sent = await prepare(client, b"early", f"early-{node}")
            ended = await end(client, sent, COMMIT)
            assert ended.code == ResponseCode.SUCCESS, ended.remark


async def test_the_next_leader_asks_the_producers() -> None:
    checks = {"rocketmq.transaction_timeout_ms": "300", "rocketmq.transaction_check_interval_ms": "300"}
    with EmbeddedCluster(3, topics=[Topic("t", partitions=3)], settings={**SETTINGS, **checks}) as cluster:
        await cluster.aio.wait_until_in_sync()
        async with producers_at(cluster) as clients:
            sent = await prepare(clients[2], b"undecided")
            assert sent.code == ResponseCode.SUCCESS
            first = await until_any_asks(clients)
            leader = next(node for node, client in clients.items() if client is first)
            cluster.kill(leader)
            others = {node: client for node, client in clients.items() if node != leader}
            asked = await until_any_asks(others)
            answered = await end_checked(asked, asked.asked[-1], COMMIT)
            assert answered.code == ResponseCode.SUCCESS, answered.remark
            assert await bodies(asked) == [b"undecided"]


async def until_any_asks(clients: dict[int, RocketClient]) -> RocketClient:
    """The client whose node has asked it first: that node leads the half messages."""
    await turning_until(lambda: any(client.asked for client in clients.values()))
    return next(client for client in clients.values() if client.asked)
