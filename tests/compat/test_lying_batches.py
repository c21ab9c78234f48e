"""Lying batches between sound ones, sent to a topic that confluent-kafka and kafka-python then read to its end."""

import time
from typing import Final

import pytest
from bench.kafka_bytes import ProduceReplyLayout, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from tests.support.lying_batches import lies
from tests.support.node import IS_HUTONG, Node

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not IS_HUTONG, reason="Kafka takes forged offset deltas of plain batches"),
]
TOPIC: Final = "lied-to"
NOW_MS: Final = time.time_ns() // 1_000_000
WAIT_S: Final = 30.0


@pytest.fixture
def expected(node: Node) -> list[bytes]:
    """The values of what was acknowledged: those of the sound batches alone."""
    create_topic(node.address, TOPIC, records=0)
    layout, values = ProduceReplyLayout.of(TOPIC), []
    with RawConnection(node.address) as connection:
        for number, (name, lying, code) in enumerate(lies(NOW_MS)):
            assert layout.error_code(connection.call(produce_request(TOPIC, lying))) == code, name
            value = b"sound %d" % number
            assert layout.error_code(connection.call(produce_request(TOPIC, record_batch([value])))) == 0
            values.append(value)
    return values


def test_librdkafka_reads_what_is_there(node: Node, expected: list[bytes]) -> None:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[bytes | None] = []
    give_up = time.monotonic() + WAIT_S
    while len(found) < len(expected) and time.monotonic() < give_up:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    assert found == expected


def test_kafka_python_reads_what_is_there(node: Node, expected: list[bytes]) -> None:
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=node.address, auto_offset_reset="earliest", consumer_timeout_ms=int(WAIT_S * 1000)
    )
    found = [next(consumer).value for _ in expected]
    consumer.close()
    assert found == expected
