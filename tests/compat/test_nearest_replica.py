"""Consumers that name their rack read from the follower there (KIP-392), and go on when that one dies.

Three real nodes in racks of their own. The nodes' metrics say who has served the bytes. Skips where ZooKeeper's jars
or a Java are missing.
"""

import pathlib
import secrets
import urllib.request
from collections.abc import Iterator

import pytest
from bench.cluster_processes import ClusterProcess
from bench.targets import free_port
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.cluster import Cluster
from tests.support.confluent import consumer
from tests.support.exposition import parse
from tests.support.kafka_tools import Shell, Tools
from tests.support.waiting import until

TOPIC = "orders"
RECORDS = 500
VALUE = b"v" * 1000
READ_S_MAX = 30.0
FETCHED = "kafka_server_brokertopicmetrics_bytesout_total"
pytestmark = pytest.mark.timeout(180)


class RackedCluster(Cluster):
    """Node N is in rack `rack-N`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._metrics: dict[int, str] = {}
        super().__init__(folder)

    def make_node(self, number: int) -> ClusterProcess:
        self._metrics[number] = f"127.0.0.1:{free_port()}"
        own = ["--rack", f"rack-{number}", "--metrics", self._metrics[number]]
        return ClusterProcess(number, self.folder / f"node-{number}", [*self.arguments, *own])

    def follower(self) -> int:
        """A node that does not lead the topic."""
        leader = self.leader_of(TOPIC)
        return next(number for number in self.nodes if number != leader)

    def all_served_bytes(self) -> dict[int, float]:
        return {number: self.served_bytes(number) for number in self.nodes}

    def served_bytes(self, number: int) -> float:
        """The bytes of the topic that consumers have got from this node."""
        with urllib.request.urlopen(f"http://{self._metrics[number]}/metrics?detail=full") as page:
            family = parse(page.read().decode())[FETCHED]
        return family.value(topic=TOPIC)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RackedCluster]:
    """The topic has RECORDS. The tests share the cluster in the order they are written in."""
    with RackedCluster(tmp_path_factory.mktemp("cluster")) as running:
        running.create_topic(TOPIC, 1)
        _send(running.bootstrap)
        yield running


def test_javas_consumer_reads_from_the_follower_in_its_rack(cluster: RackedCluster, tmp_path: pathlib.Path) -> None:
    follower, served = cluster.follower(), cluster.all_served_bytes()
    with Tools() as tools:
        shell = Shell(tools, cluster.bootstrap, secrets.token_hex(3), tmp_path)
        read = ("--topic", TOPIC, "--from-beginning", "--max-messages", str(RECORDS))
        rack = ("--command-property", f"client.rack=rack-{follower}")
        assert shell("console-consumer", *read, *rack).count(VALUE.decode()) == RECORDS
    gained = {number: now - served[number] for number, now in cluster.all_served_bytes().items()}
    assert gained.pop(follower) >= RECORDS * len(VALUE)
    assert set(gained.values()) == {0}


def test_a_consumer_reads_from_the_follower_in_its_rack(cluster: RackedCluster) -> None:
    follower, served = cluster.follower(), cluster.all_served_bytes()
    rack = {"client.rack": f"rack-{follower}", "auto.offset.reset": "earliest"}
    reader = consumer(cluster.bootstrap, "near", **rack)
    try:
        reader.assign([TopicPartition(TOPIC, 0, 0)])
        values = _read(reader, RECORDS)
        gained = {number: now - served[number] for number, now in cluster.all_served_bytes().items()}
        assert values == [b"%d:" % number + VALUE for number in range(RECORDS)]
        assert gained.pop(follower) >= RECORDS * len(VALUE)
        assert set(gained.values()) == {0}
        cluster.kill([follower])
        _send(cluster.bootstrap)
        assert len(_read(reader, RECORDS)) == RECORDS, "others serve what comes after the death of the follower"
    finally:
        reader.close()


def _send(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d:" % number + VALUE)
    assert producer.flush(READ_S_MAX) == 0


def _read(reader: Consumer, wanted: int) -> list[bytes]:
    values: list[bytes] = []

    def has_all() -> bool:
        values.extend(message.value() or b"" for message in reader.consume(wanted, 0.2) if message.error() is None)
        return len(values) >= wanted

    until(has_all, deadline_s=READ_S_MAX, what=f"{wanted} records")
    return values
