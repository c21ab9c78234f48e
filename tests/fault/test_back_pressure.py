"""Producers that bring more than the disk takes: held back unread, never refused or dropped, in memory that stays flat.

What the node does meanwhile is read from its own metrics, as an operator would.
"""

import pathlib
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from bench.raw_client import create_topic
from confluent_kafka import KafkaError, Message, Producer
from tests.support.confluent import producer, read_partition, send, values
from tests.support.exposition import ParsedFamily, parse
from tests.support.faulty_node import Control, faulty_node
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_HUTONG, reason="the faults are put into Hutong's own disk port"),
]

MEBIBYTE = 1024 * 1024
VALUE = bytes(10_000)
PRODUCERS = 4
RECORDS_EACH = 24 * MEBIBYTE // len(VALUE)
DIRTY_BYTES_MAX = 16 * MEBIBYTE
REQUEST_BYTES_MAX = 1_000_000  # librdkafka's batch.size, and so what each may bring at once
GROWTH_BYTES_MAX = DIRTY_BYTES_MAX + 2 * PRODUCERS * REQUEST_BYTES_MAX + 8 * MEBIBYTE
FLUSH_MS = 700


@pytest.fixture
def slow(tmp_path: pathlib.Path) -> Iterator[tuple[Node, Control]]:
    node, control = faulty_node(tmp_path, "metrics.listen=127.0.0.1:0", "log.cache_bytes=8388608")
    with node:
        create_topic(node.address, "days", records=0)
        create_topic(node.address, "hours", configs={"retention.ms": "3600000"}, records=0)
        yield node, control
        control.heal()


class Crowd:
    """Producers with far more in hand than a node will take at once."""

    def __init__(self, address: str) -> None:
        self.delivered = 0
        self.errors: list[KafkaError] = []
        self._lock = threading.Lock()
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": address,
                    "acks": "all",
                    "request.timeout.ms": 120_000,
                    "message.timeout.ms": 240_000,
                    "queue.buffering.max.messages": 10 * RECORDS_EACH,
                }
            )
            for _ in range(PRODUCERS)
        ]

    def offer(self) -> None:
        for each in self._producers:
            for _ in range(RECORDS_EACH):
                each.produce("days", VALUE, on_delivery=self._delivered)

    def poll(self) -> None:
        for each in self._producers:
            each.poll(0.02)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        with self._lock:
            self.delivered += 1
            if error:
                self.errors.append(error)


def scrape(node: Node) -> dict[str, ParsedFamily]:
    with urllib.request.urlopen(f"http://{node.process.fields['metrics']}/metrics?detail=full", timeout=30) as page:
        return parse(page.read().decode())


def test_producers_wait_unread_while_the_disk_is_slow_and_all_they_brought_is_kept(slow: tuple[Node, Control]) -> None:
    node, control = slow
    warm = producer(node.address)
    send(warm, "days", [VALUE] * (32 * MEBIBYTE // len(VALUE)))
    begun = scrape(node)
    memory_bytes = begun["process_resident_memory_bytes"].value()
    control.plan({"operation": "flush", "pattern": "*/days/*", "latency_ms": FLUSH_MS})
    crowd = Crowd(node.address)
    crowd.offer()
    peaks = dict.fromkeys(("memory", "unreleased", "held", "congested"), 0.0)

    def watch() -> bool:
        crowd.poll()
        families = scrape(node)
        seen = {
            "memory": families["process_resident_memory_bytes"].value(),
            "unreleased": families["hutong_unreleased_bytes"].value(group="days"),
            "held": families["hutong_waits"].value(lot="held_producers"),
            "congested": families["hutong_group_congested"].value(group="days"),
        }
        for name, value in seen.items():
            peaks[name] = max(peaks[name], value)
        return crowd.delivered == PRODUCERS * RECORDS_EACH

    until(lambda: watch() or peaks["held"], what="a producer is held")
    send(producer(node.address), "hours", [b"another group goes on"])
    until(watch, deadline_s=200, what="everything is acknowledged")
    ended = scrape(node)
    assert not crowd.errors
    assert peaks["congested"] == 1
    assert peaks["unreleased"] < DIRTY_BYTES_MAX + PRODUCERS * REQUEST_BYTES_MAX * 1.1
    assert peaks["memory"] - memory_bytes < GROWTH_BYTES_MAX
    pauses = "hutong_reading_pauses_total"
    assert ended[pauses].value() > begun[pauses].value(), "held producers are not read"
    assert ended["hutong_waits"].value(lot="held_producers") == 0
    assert ended["hutong_group_congested"].value(group="days") == 0
    records = "kafka_server_brokertopicmetrics_messagesin_total"
    assert ended[records].value() - begun[records].value() == PRODUCERS * RECORDS_EACH + 1, "none lost, none doubled"


def test_a_client_that_is_told_too_late_tries_again_and_its_records_are_there_once(slow: tuple[Node, Control]) -> None:
    node, control = slow
    impatient = producer(
        node.address, acks="all", enable_idempotence=True, request_timeout_ms=400, retry_backoff_ms=50, linger_ms=0
    )
    sent = [b"%d" % number for number in range(100)]
    send(impatient, "days", sent[:1])
    control.plan({"operation": "flush", "pattern": "*/days/*", "latency_ms": 2000, "times": 3})
    send(impatient, "days", sent[1:])
    control.heal()
    expired = scrape(node)["hutong_acknowledgements_total"].value(group="days", qos="all", outcome="expired")
    assert expired > 0, "the disk was too slow for this client at least once"
    assert values(read_partition(node.address, "days")) == sent
