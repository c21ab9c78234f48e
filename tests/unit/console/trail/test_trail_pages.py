"""A record's way over several topics, its readers, and its dead letter."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADERS: list[tuple[str, str | bytes | None]] = [("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01".encode())]


@pytest.fixture(scope="module")
def filled() -> Iterator[EmbeddedNode]:
    with node_with_console() as node:
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for topic in ("orders", "payments"):
            for number in range(20):
                producer.produce(topic, f"v{number}", f"k{number}", partition=0, headers=HEADERS if number == 7 else [])
        letter: list[tuple[str, str | bytes | None]] = [
            ("kafka_dlt-original-topic", b"orders"),
            ("kafka_dlt-original-partition", bytes(4)),
            ("kafka_dlt-original-offset", (7).to_bytes(8, "big")),
            ("kafka_dlt-exception-message", b"no stock"),
        ]
        producer.produce("orders-dlt", "v7", "k7", headers=letter)
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": node.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        while (message := consumer.poll(60)) is not None and message.value() != b"v7":
            pass
        consumer.commit(asynchronous=False)
        consumer.close()
        yield node


@pytest.fixture
def client(filled: EmbeddedNode) -> ConsoleClient:
    return ConsoleClient(filled).begin()


def trail(client: ConsoleClient, query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The hops by topic, and the last progress."""
    hops: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for name, data in client.stream(f"/api/trail?{query}"):
        if name == "hop":
            hops[data["topic"]] = data
        else:
            last = data
    return hops, last


def test_a_key_is_found_wherever_it_is(client: ConsoleClient) -> None:
    hops, last = trail(client, "key=k7")
    assert set(hops) == {"orders", "payments", "orders-dlt"}
    assert {hop["offset"] for hop in hops.values()} == {7, 0}
    assert hops["orders"]["readers"] == [{"group": "billing", "has_passed": True, "records_before": 0}]
    assert hops["orders-dlt"]["letter"]["error_text"] == "no stock"
    assert (last["is_ended"], last["topics_done"], last["is_cut"]) == (True, 3, False)


def test_a_group_that_has_not_come_so_far(client: ConsoleClient) -> None:
    hops, _ = trail(client, "key=k9&topics=orders")
    assert hops["orders"]["readers"] == [{"group": "billing", "has_passed": False, "records_before": 2}]


def test_a_trace_and_a_place(client: ConsoleClient) -> None:
    assert set(trail(client, f"trace={TRACE}")[0]) == {"orders", "payments"}
    hops, _ = trail(client, "place=orders&partition=0&offset=7")
    assert {topic: hop["reason"] for topic, hop in hops.items()} == {
        "orders": "the record",
        "orders-dlt": "its dead letter",
    }
    assert hops["orders"]["trace"] == TRACE


def test_nothing_is_found_and_said(client: ConsoleClient) -> None:
    hops, last = trail(client, "key=nobody")
    assert hops == {}
    assert last["looked_at"] == 41
    hops, last = trail(client, "key=k7&topics=not-there")
    assert (hops, last["is_ended"], last["is_cut"]) == ({}, True, True)


@pytest.mark.parametrize("query", ["", "key=a&trace=b", "trace=xyz", "header=no-colon", "place=t&offset=-1"])
def test_wrong_clues(client: ConsoleClient, query: str) -> None:
    assert client.ask("GET", f"/api/trail?{query}").status == 400
