"""The image and the compose file in a container engine: `testcontainers` starts one node, a compose program three.

HUTONG_TEST_CONTAINERS names the engine's command, `docker` or `podman`, where an image `hutong` and one of ZooKeeper
are there; HUTONG_TEST_COMPOSE its compose program (`docker compose`). `testcontainers` itself reads DOCKER_HOST.
"""

import base64
import os
import secrets
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from hutong.testing.container import HutongContainer

ROOT: Final = Path(__file__).parents[2]
ENGINE: Final = os.environ.get("HUTONG_TEST_CONTAINERS", "")
COMPOSE: Final = shlex.split(os.environ.get("HUTONG_TEST_COMPOSE", f"{ENGINE} compose"))
NODES: Final = "localhost:9092,localhost:9093,localhost:9094"
RECORDS: Final = 6_000
KILLED_AFTER: Final = 2_000
PARTITIONS: Final = 6
WAIT_SECONDS: Final = 60
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not ENGINE, reason="no container engine: name its command in HUTONG_TEST_CONTAINERS"),
]


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The values of `topic`, at least `count` unless the wait ends before."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            messages = consumer.consume(count, timeout=WAIT_SECONDS)
            if not messages:
                break
            values += [message.value() or b"" for message in messages if message.error() is None]
    finally:
        consumer.close()
    return values


def test_a_suite_with_testcontainers_gets_a_node() -> None:
    with HutongContainer(settings={"topic.default_partitions": "5"}) as node:
        producer = Producer({"bootstrap.servers": node.get_bootstrap_server()})
        producer.produce("orders", b"tea")
        assert producer.flush(WAIT_SECONDS) == 0
        assert read_all(node.get_bootstrap_server(), "orders", 1) == [b"tea"]
        topics = AdminClient({"bootstrap.servers": node.get_bootstrap_server()}).list_topics().topics
        assert len(topics["orders"].partitions) == 5
        with urllib.request.urlopen(node.get_metrics_url(), timeout=WAIT_SECONDS) as page:
            assert page.read().startswith(b"# HELP hutong_")


@pytest.fixture
def three_nodes(tmp_path: Path) -> Iterator[list[str]]:
    """The containers of the compose file's nodes, by name. Its ports must be free."""
    deploy = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    (deploy / "cluster-secret").write_bytes(base64.b64encode(secrets.token_bytes(32)))
    command = [*COMPOSE, "-f", str(deploy / "compose.yml")]
    subprocess.run([*command, "up", "-d", "--no-build"], check=True)
    try:
        listed = subprocess.run([ENGINE, "ps", "--format", "{{.Names}}"], check=True, capture_output=True, text=True)
        yield sorted(name for name in listed.stdout.split() if "hutong-" in name)
    finally:
        subprocess.run([*command, "down", "-v"], check=True)


def test_three_nodes_of_the_compose_file_lose_nothing_when_one_is_killed(three_nodes: list[str]) -> None:
    assert len(three_nodes) == 3
    admin = AdminClient({"bootstrap.servers": NODES})
    while len(admin.list_topics(timeout=WAIT_SECONDS).brokers) < len(three_nodes):  # bounded by the test's own limit
        pass
    admin.create_topics([NewTopic("orders", PARTITIONS, 3)], operation_timeout=WAIT_SECONDS)["orders"].result()
    acknowledged: list[bytes] = []

    def reported(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message.value() or b"")

    producer = Producer({"bootstrap.servers": NODES, "enable.idempotence": True})
    for number in range(RECORDS):
        if number == KILLED_AFTER:
            producer.flush(WAIT_SECONDS)
            subprocess.run([ENGINE, "kill", "--signal", "KILL", three_nodes[1]], check=True)
        producer.produce("orders", str(number).encode(), on_delivery=reported)
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    assert len(acknowledged) == RECORDS
    assert sorted(read_all(NODES, "orders", RECORDS)) == sorted(acknowledged)
