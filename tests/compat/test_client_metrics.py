"""Clients' metrics (KIP-714): asked for by Kafka's own tool, pushed by librdkafka and Java, received by a collector."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from tests.support.kafka_tools import Tools
from tests.support.node import IS_HUTONG, Node
from tests.support.otlp import OtlpReceiver, attributes_of

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_HUTONG, reason="starts a node with its own settings"),
]
TOOL_S: Final = 40.0
DEADLINE_S: Final = 20.0
INTERVAL_MS: Final = 500


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as started:
        yield started


@pytest.fixture
def node(collector: OtlpReceiver, tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, f"telemetry.endpoint={collector.url}/v1/metrics") as started:
        yield started


@pytest.fixture
def metrics(node: Node) -> Iterator[Callable[..., str]]:
    """Kafka's tool for subscriptions."""
    with Tools() as tools:

        def run(*words: str, tool: str = "client-metrics", given: str = "") -> str:
            status, out, err = tools.run(tool, [*words, "--bootstrap-server", node.address], given, TOOL_S)
            assert status == "0", out + err
            return out

        yield run


def labels_of(collector: OtlpReceiver, client: str) -> dict[str, Any]:
    """Labels of a push of this client, once one is there."""
    found = collector.wait_for_resource(lambda resource: attributes_of(resource).get("client_id") == client)
    return attributes_of(found)


def test_clients_push_what_the_tool_asks_for(
    node: Node, collector: OtlpReceiver, metrics: Callable[..., str], tmp_path: Path
) -> None:
    asked = ("--alter", "--name", "all", "--metrics", "*", "--interval", str(INTERVAL_MS))
    metrics(*asked, "--match", "client_software_name=confluent-kafka-python|apache-.*")
    shown = metrics("--describe", "--name", "all")
    assert f"interval.ms={INTERVAL_MS}" in shown
    assert metrics("--list").split() == ["all"]

    producer = Producer({"bootstrap.servers": node.address, "client.id": "in-c", "enable.metrics.push": True})
    producer.produce("orders", b"value")
    assert producer.flush(DEADLINE_S) == 0
    labels = labels_of(collector, "in-c")
    assert labels["client_software_name"] == "confluent-kafka-python"
    assert (labels["principal"], labels["client_source_address"], labels["broker_id"]) == (
        "User:ANONYMOUS",
        "127.0.0.1",
        "1",
    )
    del producer

    file = tmp_path / "java.properties"
    file.write_text("client.id=in-java\nenable.metrics.push=true\n")
    # A consumer that finds nothing more for a while: a producer of a few lines may end before it has subscribed.
    reading = ("--topic", "orders", "--from-beginning", "--timeout-ms", str(6 * INTERVAL_MS))
    metrics(*reading, "--command-config", str(file), tool="console-consumer")
    assert labels_of(collector, "in-java")["client_software_name"] == "apache-kafka-java"
    assert any(name.startswith("org.apache.kafka.consumer.") for name in collector.metric_names), json.dumps(
        sorted(collector.metric_names)
    )

    metrics("--delete", "--name", "all")
    assert metrics("--list").split() == []
