"""RocketMQ's clients on a node, and Kafka's on the same topics: what one side writes, the other reads.

Java's client in versions 4.9 and 5.3, and the Go client (rocketmq-client-go v2).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Message, Producer
from tests.support.pem_files import PemFiles
from tests.support.rocketmq import NEW, OLD, RocketPeer, peer_program, told
from tests.support.waiting import until

from hutong.testing import EmbeddedNode

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]
QUEUES: Final = 4
SENT: Final = 1 + 1 + 4 + 3 + 1 + 5


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"rocketmq.listen": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture(scope="module", params=[pytest.param(OLD, marks=pytest.mark.thorough), NEW])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RocketPeer:
    return RocketPeer(request.param, tmp_path_factory.mktemp("offsets"))


@pytest.fixture(scope="module")
def topic(java: RocketPeer) -> str:
    return f"Java-{java.version}".replace(".", "_")


@pytest.fixture(scope="module")
def produced(node: EmbeddedNode, java: RocketPeer, topic: str) -> list[dict[str, Any]]:
    """What became of the messages that Java's producer sent in all its ways."""
    assert node.rocketmq is not None
    return java.run("produce", node.rocketmq, topic)


def read(node: EmbeddedNode, topic: str, count: int) -> list[Message]:
    """All records of a topic, as confluent-kafka reads them."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    found: list[Message] = []

    def has_all() -> bool:
        # A topic that is created a moment later is an error until then.
        found.extend(message for message in consumer.consume(count, 0.5) if message.error() is None)
        return len(found) >= count

    try:
        consumer.subscribe([topic])
        until(has_all, what=f"{count} records")
        return found
    finally:
        consumer.close()


def test_java_sends_in_every_way(produced: list[dict[str, Any]]) -> None:
    assert [each["status"] for each in produced] == ["SEND_OK"] * len(produced)
    ways = [each["way"] for each in produced]
    assert {way: ways.count(way) for way in ways} == {"sync": 1, "large": 1, "ordered": 4, "batch": 1, "async": 5}
    ordered = [each["offset"] for each in produced if each["way"] == "ordered"]
    assert ordered == sorted(ordered)
    assert {each["queue"] for each in produced if each["way"] == "ordered"} == {1}


def test_what_java_sends_kafka_reads(node: EmbeddedNode, topic: str, produced: list[dict[str, Any]]) -> None:
    found = {message.value(): message for message in read(node, topic, SENT)}
    plain = found[b"hello"]
    headers = dict(plain.headers() or ())
    assert plain.key() == b"order-1"
    assert (headers["TAGS"], headers["color"]) == (b"red", "grün".encode())
    sent = next(each for each in produced if each["way"] == "sync")
    assert (plain.partition(), plain.offset()) == (sent["queue"], sent["offset"])
    assert headers["UNIQ_KEY"] == sent["id"].encode()
    assert bytes(10_000) in found, "it came compressed"
    assert {b"batch-0", b"batch-1", b"batch-2", b"oneway", b"async-4", b"ordered-3"} <= found.keys()


@pytest.mark.parametrize("kind", ["push", "orderly", "litepull", "broadcast"])
def test_java_reads_what_it_sent(
    node: EmbeddedNode, java: RocketPeer, topic: str, produced: list[dict[str, Any]], kind: str
) -> None:
    found = java.run(kind, node.rocketmq or "", topic, f"{kind}-{topic}", "*", str(SENT))
    assert len(found) == SENT
    plain = next(each for each in found if each["body"] == "hello")
    sent = next(each for each in produced if each["way"] == "sync")
    assert (plain["queue"], plain["offset"], plain["id"], plain["stored"]) == (
        sent["queue"], sent["offset"], sent["id"], sent["stored"],
    )  # fmt: skip
    assert (plain["flag"], plain["tags"], plain["keys"]) == (7, "red", "order-1")
    assert plain["properties"] == {"color": "grün"}
    ordered = [each["body"] for each in found if each["body"].startswith("ordered")]
    # Several threads consume at a time, except by queue.
    if kind in ("push", "broadcast"):
        ordered.sort()
    assert ordered == [f"ordered-{number}" for number in range(4)]


def test_java_reads_by_tag(node: EmbeddedNode, java: RocketPeer, topic: str, produced: list[dict[str, Any]]) -> None:
    assert produced
    count = 1 + 3 + 1
    found = java.run("push", node.rocketmq or "", topic, f"red-{topic}", "red || none", str(count))
    assert sorted(each["body"] for each in found) == ["batch-0", "batch-1", "batch-2", "hello", "oneway"]


def test_java_reads_what_kafka_sends(node: EmbeddedNode, java: RocketPeer) -> None:
    topic = f"FromKafka-{java.version}".replace(".", "_")
    node.create_topic(topic, partitions=QUEUES)
    producer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    for number in range(200):
        headers: list[tuple[str, str | bytes | None]] = [("TAGS", ("even", "odd")[number % 2]), ("n", str(number))]
        producer.produce(topic, b"%d" % number, key=b"key-%d" % number, headers=headers, partition=number % QUEUES)
    assert producer.flush(30) == 0
    found = java.run("push", node.rocketmq or "", topic, f"all-{topic}", "even", "100")
    assert sorted(int(each["body"]) for each in found) == [*range(0, 200, 2)]
    for each in found:
        number = int(each["body"])
        assert (each["keys"], each["queue"], each["offset"]) == (f"key-{number}", number % QUEUES, number // QUEUES)
        assert each["properties"] == {"n": str(number)}


def test_a_message_comes_after_its_delay(node: EmbeddedNode, java: RocketPeer) -> None:
    topic = f"Delay-{java.version}".replace(".", "_")
    (sent,) = java.run("delay", node.rocketmq or "", topic, "2")
    assert sent["status"] == "SEND_OK"
    (message,) = java.run("push", node.rocketmq or "", topic, f"all-{topic}", "*", "1")
    assert (message["body"], message["tags"], message["times"]) == ("delayed", "red", 0)
    (record,) = read(node, topic, 1)
    assert record.timestamp()[1] - message["born"] >= 5_000, "level 2 is five seconds"


def test_a_message_that_fails_comes_again_and_at_last_to_the_dead_letters(node: EmbeddedNode, java: RocketPeer) -> None:
    topic = f"Failing-{java.version}".replace(".", "_")
    group = f"group-{topic}"
    node.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, b"again", key=b"k")
    assert producer.flush(30) == 0
    first, second = java.run("retry", node.rocketmq or "", topic, group, "*", "2")
    assert (first["times"], second["times"]) == (0, 1)
    # The client gives it the name of its first topic.
    assert (second["topic"], second["body"], second["keys"]) == (topic, "again", "k")
    producer.produce(topic, b"poison")
    assert producer.flush(30) == 0
    (failed,) = java.run("dead", node.rocketmq or "", topic, group, "*", "1")
    assert failed["body"] == "poison"
    (letter,) = read(node, f"DLQ.{group}", 1)
    assert letter.value() == b"poison"
    assert dict(letter.headers() or ())["RETRY_TOPIC"] == topic.encode()


def test_the_offsets_of_a_group_are_seen_by_kafka(node: EmbeddedNode, java: RocketPeer, topic: str) -> None:
    committed = [each.committed for each in node.standings(f"push-{topic}", topic)]
    assert sum(offset or 0 for offset in committed) == SENT


def test_two_members_share_the_queues(node: EmbeddedNode, java: RocketPeer) -> None:
    topic, group = f"Shared-{java.version}".replace(".", "_"), f"shared-{java.version}".replace(".", "_")
    node.create_topic(topic, partitions=QUEUES)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    members = [java.start("push", node.rocketmq or "", topic, group, "*", "30") for _ in range(2)]
    try:
        number = 0
        # Until both have their share: who comes first has all queues for a moment.
        while any(member.poll() is None for member in members):
            producer.produce(topic, b"%d" % number, partition=number % QUEUES)
            producer.poll(0.02)
            number += 1
        first, second = map(told, members)
    finally:
        for member in members:
            member.kill()
    # Some come twice, as from RocketMQ: who gets a queue begins at the offset that was committed last.
    assert min(len(first), len(second)) >= 30
    assert {each["queue"] for each in first + second} == {*range(QUEUES)}


def test_java_comes_by_tls(java: RocketPeer, tmp_path: Path) -> None:
    files = PemFiles(tmp_path / "files", "127.0.0.1")
    settings = {
        "rocketmq.listen": "127.0.0.1:0",
        "rocketmq.tls_certificate": str(files.certificate),
        "rocketmq.tls_key": str(files.key),
    }
    options = ("-Dtls.enable=true", "-Dtls.client.authServer=true", "-Dtls.test.mode.enable=false")
    secret = RocketPeer(java.version, tmp_path, *options, f"-Dtls.client.trustCertPath={files.ca}")
    with EmbeddedNode(settings=settings) as node:
        assert {each["status"] for each in secret.run("produce", node.rocketmq or "", "Secret")} == {"SEND_OK"}
        assert len(secret.run("push", node.rocketmq or "", "Secret", "secret", "*", str(SENT))) == SENT


@pytest.mark.thorough
def test_the_go_client_sends_and_reads(node: EmbeddedNode) -> None:
    out = peer_program(
        "go", "-n", node.rocketmq or "", "-topic", "Go", "-sync", "100", "-async", "1000", "-seconds", "60"
    )
    assert "consume messages=1100 lost=0 duplicates=0" in out


@pytest.mark.thorough
def test_rocketmqs_own_benchmark_fails_no_send(node: EmbeddedNode) -> None:
    words = ["tool", "producer-bench", "-n", node.rocketmq or "", "-t", "Bench", "-w", "8", "-s", "128", "-q", "4000"]
    out = peer_program(*words)
    assert "Send Total: 4000" in out
    # It prints bars between the figures where it ran for a second or more.
    assert re.search(r"Send Failed: 0\b[ |]+Response Failed: 0\b", out.splitlines()[-1]), json.dumps(out[-500:])
