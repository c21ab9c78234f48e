"""Clients that keep an incremental fetch session (KIP-227), and one that does not, seen by the node's own figures."""

import pathlib
import urllib.request
from collections.abc import Iterator

import pytest
from bench.raw_client import create_topic
from bench.targets import free_port
from kafka import KafkaConsumer
from kafka import TopicPartition as Place
from tests.support.confluent import consumer, producer, read, send
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.skipif(not IS_HUTONG, reason="looks at Hutong's own figures"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("leaked_sockets"),
]
PARTITIONS = 100
TOPIC = "watched"
PREFIX = "kafka_server_fetchsessioncache_numincrementalfetch"


class Watched:
    """A node and its metrics."""

    def __init__(self, node: Node, metrics: str) -> None:
        self.node = node
        self._metrics = metrics

    def figure(self, name: str) -> int:
        with urllib.request.urlopen(f"http://{self._metrics}/metrics?detail=full", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return int(float(next(line for line in lines if line.startswith(name + " ")).split()[1]))


@pytest.fixture
def watched(tmp_path: pathlib.Path) -> Iterator[Watched]:
    metrics = f"127.0.0.1:{free_port()}"
    with Node(tmp_path, f"metrics.listen={metrics}") as node:
        create_topic(node.address, TOPIC, partitions=PARTITIONS, records=0)
        yield Watched(node, metrics)


def test_kafka_python_reads_in_a_session(watched: Watched) -> None:
    reader = KafkaConsumer(bootstrap_servers=watched.node.address, auto_offset_reset="earliest")
    reader.assign([Place(TOPIC, index) for index in range(PARTITIONS)])
    try:
        seen: list[tuple[int, bytes]] = []

        def poll(expected: int) -> bool:
            for place, records in reader.poll(timeout_ms=100).items():
                seen.extend((place.partition, record.value) for record in records)
            return len(seen) >= expected

        to = producer(watched.node.address)
        for step, partition in enumerate([0, 99, 50, 99, 0], start=1):
            send(to, TOPIC, [b"%d" % step], partition=partition)
            until(lambda expected=step: poll(expected), what="the record")  # type: ignore[misc]
        assert seen == [(0, b"1"), (99, b"2"), (50, b"3"), (99, b"4"), (0, b"5")]
        assert watched.figure(PREFIX + "sessions") == 1
        assert watched.figure(PREFIX + "partitionscached") == PARTITIONS
        reader.assign([Place(TOPIC, 7)])  # the others are forgotten
        send(to, TOPIC, [b"7"], partition=7)
        until(lambda: poll(6), what="the record")
        until(lambda: poll(7) or watched.figure(PREFIX + "partitionscached") == 1, what="the forgetting")
    finally:
        reader.close()


def test_a_node_that_was_restarted_knows_no_sessions_and_clients_go_on(watched: Watched) -> None:
    reader = KafkaConsumer(bootstrap_servers=watched.node.address, auto_offset_reset="earliest")
    reader.assign([Place(TOPIC, index) for index in range(PARTITIONS)])
    try:
        for step in range(2):
            send(producer(watched.node.address), TOPIC, [b"v"], partition=step)
            until(lambda: reader.poll(timeout_ms=100), what="the record")
            assert watched.figure(PREFIX + "sessions") == 1
            watched.node.restart()
    finally:
        reader.close()


def test_librdkafka_asks_for_none(watched: Watched) -> None:
    reader = consumer(watched.node.address, "readers")
    reader.subscribe([TOPIC])
    try:
        send(producer(watched.node.address), TOPIC, [b"v"], partition=3)
        read(reader, 1)
        assert watched.figure(PREFIX + "sessions") == 0
    finally:
        reader.close()
