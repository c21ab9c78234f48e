"""RocketMQ's requests at three nodes: each takes all of them, whoever leads the queue or coordinates the group."""

import re
from collections.abc import Iterator

import msgspec
import pytest
from tests.unit.broker.rocketmq.scene import GROUP, RocketClient, client_of_node

from hutong.testing import EmbeddedCluster, Topic
from hutong.wire.rocketmq.bodies import LockBatchRequest, RocketQueue
from hutong.wire.rocketmq.codes import PULL_WAITS, RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages, encode_properties

QUEUES = 3
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # A machine that runs all tests at once must take no node for slow, or for dead.
    settings = {"rocketmq.listen": "127.0.0.1:0", "cluster.lag_ms_max": "20000", "cluster.session_timeout_ms": "20000"}
    with EmbeddedCluster(3, topics=[Topic("t", partitions=QUEUES)], settings=settings) as running:
        running.wait_until_in_sync()  # until then too few replicas may have what is sent
        yield running


async def brokers_at(client: RocketClient) -> dict[str, dict[str, str]]:
    """The addresses of the brokers in a route, once the node has heard of all."""
    while True:
        answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        brokers = msgspec.json.decode(answer.body)["brokerDatas"]
        if len(brokers) == 1 + len(NODES):
            return {each["brokerName"]: each["brokerAddrs"] for each in brokers}


async def test_a_route_reads_at_one_broker_and_writes_at_each_node(cluster: EmbeddedCluster) -> None:
    async with client_of_node(cluster, 2) as client:
        brokers = await brokers_at(client)
        answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="t")
        own = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="hutong-3")
    addresses = {node: cluster.node(node).rocketmq for node in NODES}
    assert brokers["hutong"] == {"0": addresses[2], "2": addresses[1], "3": addresses[2], "4": addresses[3]}
    for node in NODES:
        assert brokers[f"hutong-{node}"] == {"0": addresses[node]}
    assert [each["brokerAddrs"] for each in msgspec.json.decode(own.body)["brokerDatas"]] == [{"0": addresses[3]}]
    queues = {each["brokerName"]: each for each in msgspec.json.decode(answer.body)["queueDatas"]}
    assert queues["hutong"]["perm"] == 4
    assert queues["hutong-1"]["perm"] == 2
    # Clients take the smaller of both numbers for a topic that they create by sending.
    assert {each["readQueueNums"] for each in queues.values()} == {QUEUES}
    assert {each["writeQueueNums"] for each in queues.values()} == {QUEUES}


@pytest.mark.parametrize("node", NODES)
async def test_each_node_takes_sends_pulls_and_offsets(cluster: EmbeddedCluster, node: int) -> None:
    topic = f"all-{node}"
    async with client_of_node(cluster, node) as client:
        # A topic that is missing is created, wherever the controller is.
        for queue in range(QUEUES):
            sent = await client.send(b"%d" % queue, topic, queueId=queue, defaultTopicQueueNums=QUEUES)
            assert (sent.code, sent.ext().get("queueOffset")) == (ResponseCode.SUCCESS, "0"), sent.remark
        leaders = set()
        for queue in range(QUEUES):
            answer = await client.pull(0, topic, queueId=queue)
            (message,) = decode_messages(answer.body)
            assert bytes(message.body) == b"%d" % queue
            leaders.add(answer.ext()["suggestWhichBrokerId"])
        assert leaders <= {"2", "3", "4"}
        place = {"consumerGroup": GROUP, "topic": topic, "queueId": 0}
        begun = await client.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, place)
        assert begun.ext() == {"offset": "0"}, begun.remark
        stored = await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": 1})
        assert stored.code == ResponseCode.SUCCESS, stored.remark
    async with client_of_node(cluster, node % 3 + 1) as other:
        found = await other.ask_with(RequestCode.QUERY_CONSUMER_OFFSET, place)
        assert found.ext() == {"offset": "1"}, found.remark


async def test_one_node_has_the_locks_of_a_group(cluster: EmbeddedCluster) -> None:
    async def lock(client: RocketClient, name: str) -> int:
        request = LockBatchRequest("locking", name, [RocketQueue("t", "hutong", 0)])
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, msgspec.json.encode(request))
        return len(msgspec.json.decode(answer.body)["lockOKMQSet"])

    async with client_of_node(cluster, 1) as one, client_of_node(cluster, 3) as other:
        assert await lock(one, "a") == 1
        assert await lock(other, "b") == 0
        assert await lock(other, "a") == 1


@pytest.mark.parametrize("node", NODES)
async def test_a_message_waits_at_whichever_node_leads_its_level(cluster: EmbeddedCluster, node: int) -> None:
    topic = f"later-{node}"
    cluster.create_topic(topic, partitions=1)
    async with client_of_node(cluster, node) as client:
        sent = await client.send(b"later", topic, properties=encode_properties({"DELAY": "1"}))
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        answer = await client.pull(0, topic, sysFlag=PULL_WAITS)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        (message,) = decode_messages(answer.body)
        assert bytes(message.body) == b"later"


async def test_a_command_is_handed_over_once(cluster: EmbeddedCluster) -> None:
    async with client_of_node(cluster, 1) as client:
        answer = await client.pull(0, "t", queueId=QUEUES)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        missing = await client.pull(0, "no-such-topic")
        assert missing.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("node", NODES)
async def test_each_node_takes_an_administrators_changes(cluster: EmbeddedCluster, node: int) -> None:
    topic = f"made-{node}"
    async with client_of_node(cluster, node) as client:
        fields = {"topic": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
        made = await client.ask_with(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert made.code == ResponseCode.SUCCESS, made.remark
        for queue in range(2):
            sent = await client.send(b"x", topic, queueId=queue)
            assert sent.code == ResponseCode.SUCCESS, sent.remark
        place = {"consumerGroup": "lagging", "topic": topic, "queueId": 1, "commitOffset": 1}
        assert (await client.ask_with(RequestCode.UPDATE_CONSUMER_OFFSET, place)).code == ResponseCode.SUCCESS
    # As the tools do: they ask each node for the queues that it leads.
    ends: dict[int, tuple[int, int]] = {}
    for each in NODES:
        async with client_of_node(cluster, each) as client:
            stats = await client.ask(RequestCode.GET_CONSUME_STATS, consumerGroup="lagging", topic=topic)
            assert stats.code == ResponseCode.SUCCESS, stats.remark
            body = bytes(stats.body)
            found = re.findall(rb'"queueId":(\d+).*?"brokerOffset":(\d+),"consumerOffset":(\d+)', body)
            ends |= {int(queue): (int(end), int(at)) for queue, end, at in found}
    assert ends == {0: (1, 0), 1: (1, 1)}


async def test_messages_are_found_by_any_node(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("searched", partitions=QUEUES)
    found: list[bytes] = []
    async with client_of_node(cluster, 2) as client:
        for queue in range(QUEUES):
            properties = encode_properties({"KEYS": "order-9", "UNIQ_KEY": f"0{queue}"})
            sent = await client.send(b"%d" % queue, "searched", queueId=queue, properties=properties)
            # By its id, at whichever node.
            seen = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, offset=int(sent.ext()["msgId"][-16:], 16))
            (message,) = decode_messages(seen.body)
            assert bytes(message.body) == b"%d" % queue
    # By its key: clients ask each node, which looks through the queues that it leads.
    for node in NODES:
        async with client_of_node(cluster, node) as client:
            answer = await client.ask(RequestCode.QUERY_MESSAGE, topic="searched", key="order-9", maxNum=10)
            found += [bytes(message.body) for message in decode_messages(answer.body)]
    assert sorted(found) == [b"0", b"1", b"2"]
