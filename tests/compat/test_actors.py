"""Groups of real clients, whose fetches come on other connections than their heartbeats: whose share they read from."""

import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from bench.raw_client import create_topic
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.support.confluent import consumer, producer, read, send
from tests.support.exposition import parse
from tests.support.kafka_tools import Tools
from tests.support.node import Node
from tests.support.waiting import until

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
RECORDS = 200
SETTINGS = (
    "log.cache_bytes=1048576",
    "log.cache_region_bytes=65536",
    "metrics.listen=127.0.0.1:0",
    "group.initial_rebalance_delay_ms=0",
    "group.consumer_heartbeat_interval_ms=200",
    "group.consumer_min_heartbeat_interval_ms=100",
)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose memory holds a small part of the topic `large`, so that readers need the disk."""
    with Node(tmp_path_factory.mktemp("actors"), *SETTINGS) as running:
        create_topic(running.address, "large", records=0)
        send(producer(running.address), "large", [bytes(50_000)] * RECORDS)
        yield running


@pytest.fixture
def group() -> str:
    return f"actor-{uuid.uuid4().hex[:12]}"


def read_bytes(node: Node, group: str) -> float:
    """Bytes that the group's share of the disk has given."""
    with urllib.request.urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full", timeout=30) as page:
        samples = parse(page.read().decode())["hutong_actor_read_bytes_total"].samples.items()
    return sum(value for (_, labels), value in samples if ("consumergroup", group) in labels)


def set_suspended(node: Node, group: str, value: str) -> None:
    entry = ConfigEntry("hutong.actor.suspended", value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": node.address})
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_fetches_of_confluent_kafka_are_its_groups(forgetful: Node, group: str, protocol: str) -> None:
    settings: dict[str, Any] = {"auto.offset.reset": "earliest", "group.protocol": protocol, "group.id": group}
    reader = Consumer({"bootstrap.servers": forgetful.address, **settings})
    try:
        reader.subscribe(["large"])
        read(reader, RECORDS)
    finally:
        reader.close()
    assert read_bytes(forgetful, group) > 1_000_000


def test_fetches_of_kafka_python_are_its_groups(forgetful: Node, group: str) -> None:
    reader = kafka.KafkaConsumer(
        "large", bootstrap_servers=forgetful.address, group_id=group, auto_offset_reset="earliest"
    )
    try:
        count = 0
        while count < RECORDS:
            count += sum(map(len, reader.poll(timeout_ms=1000).values()))
    finally:
        reader.close()
    assert read_bytes(forgetful, group) > 1_000_000


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_fetches_of_kcat_are_its_groups(forgetful: Node, group: str) -> None:
    words = ["-b", forgetful.address, "-X", "auto.offset.reset=earliest", "-G", group, "-c", str(RECORDS), "large"]
    subprocess.run([str(KCAT), *words], capture_output=True, check=True, timeout=60)
    assert read_bytes(forgetful, group) > 1_000_000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_fetches_of_javas_client_are_its_groups(forgetful: Node, group: str, protocol: str) -> None:
    with Tools() as tools:
        words = ["--bootstrap-server", forgetful.address, "--topic", "large", "--group", group, "--from-beginning"]
        words += ["--max-messages", str(RECORDS), "--consumer-property", f"group.protocol={protocol}"]
        status, _, errors = tools.run("console-consumer", words, "", 120)
    assert status == "0", errors
    assert read_bytes(forgetful, group) > 1_000_000


def test_a_suspended_group_of_confluent_kafka_goes_on_where_it_was(forgetful: Node, group: str) -> None:
    reader = consumer(forgetful.address, group, fetch_wait_max_ms=50)
    try:
        reader.subscribe(["large"])
        first = read(reader, 1)
        set_suspended(forgetful, group, "true")
        before = [message.offset() for message in first]
        # What was on its way still comes; then nothing does.
        until(lambda: not _took(reader, before), what="no more records")
        assert not reader.consume(1, 1.0)
        set_suspended(forgetful, group, "false")
        rest = [message.offset() for message in read(reader, RECORDS - len(before))]
        assert before + rest == list(range(RECORDS))
    finally:
        reader.close()


def _took(reader: Any, offsets: list[int | None]) -> bool:
    taken = [message.offset() for message in reader.consume(10, 0.3)]
    offsets += taken
    return bool(taken)
