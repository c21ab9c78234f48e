"""RocketMQ's Java client on a cluster of three nodes, each of which takes all commands; then one node is killed.

Skips where ZooKeeper's jars are missing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.confluent import consumer
from tests.support.dev_cluster import DevCluster
from tests.support.rocketmq import NEW, SOURCE, TRANSACTION_SOURCE, RocketPeer
from tests.support.waiting import until

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
FOUNDER: Final = 1  # leads all queues at first
TOPIC: Final = "Cluster"
DELAY_SOURCE: Final = SOURCE.with_name("DelayPeer.java")
POP_SOURCE: Final = SOURCE.with_name("PopPeer.java")
ILLEGAL: Final = 13
ILLEGAL_OPERATION: Final = 604
SENT: Final = 1 + 1 + 4 + 3 + 1 + 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with DevCluster(tmp_path_factory.mktemp("cluster"), 3, "--rocketmq-port", "0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(NEW, tmp_path_factory.mktemp("offsets"))


@pytest.fixture(scope="module")
def survivor(cluster: DevCluster) -> str:
    """The name server of a node that lives on, after the founder is gone."""
    if FOUNDER not in cluster.down:
        cluster.kill(FOUNDER)
    return cluster.rocketmq.split(";")[-1]


def committed(cluster: DevCluster, group: str, topic: str) -> int:
    """The offsets that Kafka's coordinator has for a group of RocketMQ's, added up."""
    with consumer(cluster.address, group) as asking:
        found = asking.committed([TopicPartition(topic, index) for index in range(4)], timeout=20)
    return sum(max(0, each.offset) for each in found)


def test_any_node_takes_messages_for_all(cluster: DevCluster, java: RocketPeer) -> None:
    last = cluster.rocketmq.split(";")[-1]
    produced = java.run("produce", last, TOPIC)
    assert {each["status"] for each in produced} == {"SEND_OK"}
    found = java.run("push", cluster.rocketmq, TOPIC, "readers", "*", str(SENT))
    assert len(found) == SENT
    until(lambda: committed(cluster, "readers", TOPIC) == SENT, what="the offsets at Kafka's coordinator")


def test_one_node_has_the_locks_of_queues_in_order(cluster: DevCluster, java: RocketPeer) -> None:
    found = java.run("orderly", cluster.rocketmq, TOPIC, "orderly", "*", str(SENT))
    ordered = [each["body"] for each in found if each["body"].startswith("ordered")]
    assert ordered == [f"ordered-{number}" for number in range(4)]


def test_messages_come_again_and_later(cluster: DevCluster, java: RocketPeer) -> None:
    (sent,) = java.run("delay", cluster.rocketmq, "Later", "1")
    assert sent["status"] == "SEND_OK"
    first, second = java.run("retry", cluster.rocketmq, "Later", "again", "*", "2")
    assert (first["times"], second["times"]) == (0, 1)


def test_transactions_are_ended_by_any_node(cluster: DevCluster, java: RocketPeer, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("Decided", 4, 3)])["Decided"].result(30)
    for address in cluster.addresses.values():
        knows = AdminClient({"bootstrap.servers": address})
        until(lambda knows=knows: "Decided" in knows.list_topics(timeout=20).topics, what="the topic at each node")  # type: ignore[misc]
    group = RocketPeer(java.version, tmp_path, source=TRANSACTION_SOURCE)
    told = group.run(cluster.rocketmq, "Decided", "deciding", "12", "6")
    # The others it ends at once, at a node that has no heartbeat of it yet.
    asked = {each["number"] for each in told if each["what"] == "asked"}
    assert asked == {number for number in range(12) if number % 4 >= 2}
    found = java.run("push", cluster.rocketmq, "Decided", "decided", "*", "6")
    assert sorted(int(each["body"]) for each in found) == [number for number in range(12) if number % 4 in (0, 2)]


@pytest.mark.thorough
def test_a_message_comes_at_its_time(cluster: DevCluster, java: RocketPeer, tmp_path: Path) -> None:
    *sent, late = RocketPeer(NEW, tmp_path, source=DELAY_SOURCE).run("times", cluster.rocketmq, "Times", "1500")
    assert late["code"] == ILLEGAL
    assert [each["status"] for each in sent] == ["SEND_OK"] * 4
    found = java.run("push", cluster.rocketmq, "Times", "timed", "*", "4")
    assert {each["body"] for each in found} == {"until", "milliseconds", "seconds", "past"}


def produce(cluster: DevCluster, topic: str, *bodies: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.address})
    for number, body in enumerate(bodies):
        producer.produce(topic, body, partition=number % 4)
    assert producer.flush(30) == 0


def test_a_group_pops_at_each_node(cluster: DevCluster, java: RocketPeer, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("Popped", 4, 3)])["Popped"].result(30)
    plain = [f"plain-{number}" for number in range(40)]
    produce(cluster, "Popped", *plain, "failing")
    popping = RocketPeer(NEW, tmp_path, source=POP_SOURCE)
    found = popping.run("pop", cluster.rocketmq, "Popped", "poppers", "*", "42", "failing")
    # What was in hand at a node that leads no more comes again.
    assert {each["body"] for each in found} == {*plain, "failing"}
    assert {each["times"] > 0 for each in found if each["body"] == "failing"} == {False, True}
    assert {each["queue"] for each in found} == {*range(4)}


def test_a_recall_and_what_waits_survive_the_leader(
    cluster: DevCluster, java: RocketPeer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("Recalls", 1, 3)])["Recalls"].result(30)
    delays = RocketPeer(NEW, tmp_path, source=DELAY_SOURCE)
    recalled, kept, past, other = delays.run("recall", cluster.rocketmq, "Recalls", "8000")
    assert recalled["recalled"] == recalled["id"]
    assert kept["status"] == "SEND_OK"
    assert (past["code"], other["code"]) == (ILLEGAL_OPERATION, ILLEGAL_OPERATION)
    survivor: str = request.getfixturevalue("survivor")
    (message,) = java.run("push", survivor, "Recalls", "recalling", "*", "1")
    assert message["body"] == "kept"


def test_the_others_go_on_without_the_leader(cluster: DevCluster, java: RocketPeer, survivor: str) -> None:
    produced = java.run("produce", survivor, TOPIC)
    assert {each["status"] for each in produced} == {"SEND_OK"}
    # The group goes on where it was.
    found = java.run("push", survivor, TOPIC, "readers", "*", str(SENT))
    assert len(found) == SENT
    delayed = java.run("delay", survivor, "LaterStill", "1")
    assert [each["status"] for each in delayed] == ["SEND_OK"]
    assert len(java.run("push", survivor, "LaterStill", "later", "*", "1")) == 1


def test_a_group_pops_without_the_leader(cluster: DevCluster, tmp_path: Path, survivor: str) -> None:
    bodies = [f"later-{number}" for number in range(40)]
    produce(cluster, "Popped", *bodies)
    found = RocketPeer(NEW, tmp_path, source=POP_SOURCE).run("pop", survivor, "Popped", "others", "*", "81")
    assert {each["body"] for each in found} == {*bodies, *(f"plain-{number}" for number in range(40)), "failing"}


def test_kafkas_producers_and_rocketmqs_consumers_share_it(
    cluster: DevCluster, java: RocketPeer, survivor: str
) -> None:
    produce(cluster, TOPIC, *(f"kafka-{number}" for number in range(100)))
    found = java.run("push", survivor, TOPIC, "readers", "*", "100")
    assert {each["body"] for each in found} == {f"kafka-{number}" for number in range(100)}
