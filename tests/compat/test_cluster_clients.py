"""Other people's clients on a cluster of three nodes, one of which is killed: the one that leads and controls.

The whole table runs on a cluster with TEST_COMPAT_CLUSTER (see conftest.py). Skips where ZooKeeper's jars are missing.
"""

import json
import pathlib
import re
import secrets
from collections.abc import Iterator

import pytest
from bench.raw_client import create_topic
from confluent_kafka import Producer, TopicPartition
from tests.compat.test_aiokafka import started_consumer, started_producer
from tests.support.confluent import consumer
from tests.support.dev_cluster import DevCluster
from tests.support.kafka_tools import Shell, Tools
from tests.support.waiting import until

NODES = 3
FOUNDER = 1  # leads every partition group at first
ANSWER_S = 30.0
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """All nodes run; the tests of this file share it in the order they are written in."""
    with DevCluster(tmp_path_factory.mktemp("cluster"), NODES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def survivors(cluster: DevCluster) -> str:
    """Where clients connect first after the founder is gone."""
    if FOUNDER not in cluster.down:
        cluster.kill(FOUNDER)
    return cluster.address


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as tools:
        yield tools


def test_tools_describe_the_cluster(cluster: DevCluster, tools: Tools, tmp_path: pathlib.Path) -> None:
    shell = Shell(tools, cluster.address, secrets.token_hex(3), tmp_path)
    topic = shell.name("orders")
    shell("topics", "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "3")
    described = re.findall(r"Replicas: (\S+)\s+Isr: (\S+)", shell("topics", "--describe", "--topic", topic))
    assert [sorted(replicas.split(",")) for replicas, _ in described] == [["1", "2", "3"]] * 3
    endpoints = shell("cluster", "list-endpoints").splitlines()[1:]
    assert [line.split()[0] for line in endpoints] == ["1", "2", "3"]
    assert "from brokers 1,2,3" in shell("log-dirs", "--describe", "--topic-list", topic)


def test_tools_reassign_whole_groups(cluster: DevCluster, tools: Tools, tmp_path: pathlib.Path) -> None:
    """Assert what the tool says. Only this test has compacted topics, so its partitions are all of their groups."""
    shell = Shell(tools, cluster.address, secrets.token_hex(3), tmp_path)
    topic = shell.name("orders")
    shell("topics", "--create", "--topic", topic, "--partitions", "4", "--config", "cleanup.policy=compact")
    listed = shell.file("topics", json.dumps({"topics": [{"topic": topic}], "version": 1}))
    shell("reassign-partitions", "--topics-to-move-json-file", listed, "--broker-list", "1,2,3", "--generate")
    before = _replicas_of(shell, topic)
    wanted = {index: [*replicas[1:], replicas[0]] for index, replicas in before.items()}
    every = shell.file("all", _assignment(topic, wanted))
    asked = ("--reassignment-json-file", every)
    started = shell("reassign-partitions", *asked, "--execute", "--throttle", "10000000")
    assert "The inter-broker throttle limit was set to 10000000 B/s" in started
    assert "Successfully started partition reassignments" in started
    until(lambda: "is still in progress" not in shell("reassign-partitions", *asked, "--verify"), what="the moves")
    assert _replicas_of(shell, topic) == wanted
    verified = shell("reassign-partitions", *asked, "--verify")
    assert verified.count("is completed") == len(wanted)
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    assert "Clearing topic-level throttles on topic" in verified
    for kind, name in (("brokers", "1"), ("topics", topic)):
        described = shell("configs", "--describe", "--entity-type", kind, "--entity-name", name)
        assert "throttled" not in described
    assert "No partition reassignments found" in shell("reassign-partitions", "--list")
    assert "None of the specified partition reassignments are active" in shell(
        "reassign-partitions", *asked, "--cancel"
    )


def test_tools_reassign_single_partitions(cluster: DevCluster, tools: Tools, tmp_path: pathlib.Path) -> None:
    """Assert that others of the same group stay, and that nothing which was sent is lost or moved."""
    shell = Shell(tools, cluster.address, secrets.token_hex(3), tmp_path)
    topic, partitions = shell.name("orders"), 6
    shell("topics", "--create", "--topic", topic, "--partitions", str(partitions))
    before = _replicas_of(shell, topic)
    producer = Producer({"bootstrap.servers": cluster.address, "enable.idempotence": True})
    for number in range(120):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(ANSWER_S) == 0
    wanted = {0: [*before[0][1:], before[0][0]], 4: [*before[4][2:], *before[4][:2]]}
    asked = ("--reassignment-json-file", shell.file("some", _assignment(topic, wanted)))
    assert "Successfully started partition reassignments" in shell("reassign-partitions", *asked, "--execute")
    for number in range(120, 240):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(ANSWER_S) == 0
    until(lambda: "is still in progress" not in shell("reassign-partitions", *asked, "--verify"), what="the moves")
    assert shell("reassign-partitions", *asked, "--verify").count("is completed") == len(wanted)
    assert _replicas_of(shell, topic) == {**before, **wanted}
    reader = consumer(cluster.address, topic, **{"auto.offset.reset": "error"})
    try:
        for index in range(partitions):
            reader.assign([TopicPartition(topic, index, 0)])
            found = [message for message in reader.consume(40, ANSWER_S) if message.error() is None]
            sent = [str(number).encode() for number in range(240) if number % partitions == index]
            assert [(message.offset(), message.value()) for message in found] == list(enumerate(sent))
    finally:
        reader.close()


def test_confluent_with_a_node_down(survivors: str) -> None:
    topic = _topic(survivors)
    producer = Producer({"bootstrap.servers": survivors, "transactional.id": topic})
    producer.init_transactions(ANSWER_S)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(topic, str(commits).encode())
        producer.flush(ANSWER_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(ANSWER_S)
    reader = consumer(survivors, topic, **{"isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    try:
        reader.subscribe([topic])
        message = reader.poll(ANSWER_S)
        assert message
        assert (message.error(), message.value()) == (None, b"True")
        reader.commit(message=message, asynchronous=False)
        assert reader.committed([TopicPartition(topic, 0)], ANSWER_S)[0].offset == 1
    finally:
        reader.close()


async def test_aiokafka_with_a_node_down(survivors: str) -> None:
    topic = _topic(survivors)
    async with started_producer(survivors, enable_idempotence=True) as producer:
        await producer.send_and_wait(topic, b"first")
    async with started_consumer(survivors, topic, group_id=topic) as reader:
        assert (await reader.getone()).value == b"first"
        await reader.commit()


def test_tools_describe_the_survivors(
    cluster: DevCluster, survivors: str, tools: Tools, tmp_path: pathlib.Path
) -> None:
    shell = Shell(tools, survivors, secrets.token_hex(3), tmp_path)
    topic = shell.name("orders")
    shell("topics", "--create", "--topic", topic, "--partitions", "3")
    assert shell("topics", "--describe", "--topic", topic, "--unavailable-partitions").strip() == ""
    described = shell("topics", "--describe", "--topic", topic, "--under-replicated-partitions")
    assert len(re.findall(r"Leader: [23]\b", described)) == 3, described


def _replicas_of(shell: Shell, topic: str) -> dict[int, list[int]]:
    described = re.findall(r"Partition: (\d+)\s.*Replicas: (\S+)", shell("topics", "--describe", "--topic", topic))
    return {int(index): [int(node) for node in replicas.split(",")] for index, replicas in described}


def _assignment(topic: str, replicas: dict[int, list[int]]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in replicas.items()]
    return json.dumps({"partitions": partitions, "version": 1})


def _topic(bootstrap: str) -> str:
    name = f"cluster-{secrets.token_hex(4)}"
    create_topic(bootstrap, name, records=0)
    return name
