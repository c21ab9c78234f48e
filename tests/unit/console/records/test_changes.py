"""Records written from the console: produced, sent again, copied; refusals; the audit."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.unit.console.records.produced import produce
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.console.audit import TOPIC
from hutong.console.limits import COPY_RECORDS_MAX
from hutong.testing import EmbeddedNode


def stored(node: EmbeddedNode, topic: str, count: int, partitions: int = 1) -> list[Any]:
    """The first records of a topic, as any client reads them."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        return consumer.consume(count, 10)
    finally:
        consumer.close()


def changes(node: EmbeddedNode, client: ConsoleClient, change: str) -> list[Any]:
    page = client.value("GET", f"/api/topics/{TOPIC}/messages?limit=50&chars=10000")
    return [found for each in page["records"] if (found := json.loads(each["value"]["text"]))["change"] == change]


def test_a_record_is_produced_as_it_was_typed(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("typed", partitions=2)
    body = {
        "key": {"text": "k"},
        "value": {"text": '{"a": 1.10}', "form": "json"},
        "headers": [
            {"name": "raw", "value": {"text": "ff 00", "form": "hex"}},
            {"name": "none"},
            {"name": "b", "value": {"text": "AQI=", "form": "base64"}},
        ],
        "partition": 1,
    }
    answer = client.ask("POST", "/api/topics/typed/messages", body)
    assert (answer.status, answer.value["partition"], answer.value["offset"]) == (201, 1, 0)
    (message,) = stored(node, "typed", 1, 2)
    assert (message.key(), message.value(), message.partition()) == (b"k", b'{"a": 1.10}', 1)
    assert message.headers() == [("raw", b"\xff\x00"), ("none", None), ("b", b"\x01\x02")]
    assert changes(node, client, "record.produce")[0]["after"]["value_bytes"] == 11


def test_a_tombstone_is_a_record_without_a_value(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("tombs", partitions=1)
    client.value("POST", "/api/topics/tombs/messages", {"key": {"text": "k"}, "value": None})
    assert stored(node, "tombs", 1)[0].value() is None
    assert client.value("GET", "/api/topics/tombs/messages/0/0")["value"] is None


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"value": {"text": "{", "form": "json"}}, 400, "The value is no JSON"),
        ({"value": {"text": "f", "form": "hex"}}, 400, "pairs of hex digits"),
        ({"key": {"text": "#", "form": "base64"}}, 400, "The key is not base64"),
        ({"value": {"text": "x", "form": "avro"}}, 400, "there are text, json, hex, base64"),
        ({"value": {"text": "x"}, "partition": -1}, 400, "no number of a partition"),
        ({"value": {"text": "x"}, "partition": 9}, 404, ""),
        ({"value": "x"}, 400, "Expected `object"),
        ({"valeu": {"text": "x"}}, 400, "unknown field"),
        ({"headers": [{"name": "n"}] * 1_001}, 400, "at most 1000 headers"),
        ({"value": {"text": "x" * 1_100_000}}, 413, ""),
    ],
)
def test_what_cannot_be_produced_says_why(
    node: EmbeddedNode, client: ConsoleClient, body: Any, status: int, why: str
) -> None:
    if "strict" not in node.topics():
        node.create_topic("strict", partitions=1)
    answer = client.ask("POST", "/api/topics/strict/messages", body)
    assert answer.status == status, answer.body
    assert why in answer.value["error"]["message"]


def test_a_topic_that_is_not_there_is_not_made(node: EmbeddedNode, client: ConsoleClient) -> None:
    assert client.ask("POST", "/api/topics/nowhere/messages", {"value": {"text": "x"}}).status == 404
    assert "nowhere" not in node.topics()


def test_a_record_is_sent_again_byte_by_byte(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("source", partitions=1)
    node.create_topic("target", partitions=1)
    produce(node, "source", [(0, b"\xff\x00", 1_000)], key=b"\x01", headers=[("h", b"\x02"), ("n", None)])
    assert client.ask("POST", "/api/topics/source/messages/0/0/resend", {"target": "target"}).status == 201
    (message,) = stored(node, "target", 1)
    assert (message.key(), message.value(), message.headers()) == (b"\x01", b"\xff\x00", [("h", b"\x02"), ("n", None)])
    assert client.value("POST", "/api/topics/source/messages/0/0/resend", {})["offset"] == 1
    record = changes(node, client, "record.resend")[0]
    assert (record["target"], record["before"]) == ("source", {"topic": "source", "partition": 0, "offset": 0})
    assert client.ask("POST", "/api/topics/source/messages/0/7/resend", {}).status == 404


def test_a_range_is_counted_and_copied(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("from", partitions=2)
    node.create_topic("to", partitions=2)
    produce(node, "from", [(number % 2, f"v{number}", 1_000 + number) for number in range(40)], headers=[("h", b"1")])
    spans = [{"partition": 0, "begin": 5, "end": 9}, {"partition": 1, "begin": 15, "end": 1_000}]
    body = {"target": "to", "spans": spans, "keeps_partitions": True, "keeps_times": True}
    told = client.value("POST", "/api/topics/from/messages/copy/preview", body)
    assert (told["records"], told["partitions"][1]) == (9, {"partition": 1, "begin": 15, "end": 20})
    done = client.value("POST", "/api/topics/from/messages/copy", body)
    assert (done["copied"], done["failed"], done["next_offsets"]) == (9, None, {})
    found = {(each.partition(), each.value(), each.timestamp()[1]) for each in stored(node, "to", 9, 2)}
    expected = {(0, f"v{2 * place}".encode(), 1_000 + 2 * place) for place in range(5, 9)}
    expected |= {(1, f"v{2 * place + 1}".encode(), 1_001 + 2 * place) for place in range(15, 20)}
    assert found == expected
    assert [each["after"] for each in changes(node, client, "record.copy")][1:] == ["begun"]


def test_a_copy_that_fails_says_where_it_goes_on(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("wide", partitions=2)
    node.create_topic("narrow", partitions=1)
    produce(node, "wide", [(1, f"v{number}", 1_000) for number in range(3)])
    body = {"target": "narrow", "spans": [{"partition": 1, "begin": 0, "end": 3}], "keeps_partitions": True}
    done = client.value("POST", "/api/topics/wide/messages/copy", body)
    assert (done["copied"], done["next_offsets"]) == (0, {"1": 0})
    assert done["failed"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"target": "wide"}, 400),
        ({"target": "nowhere"}, 404),
        ({"spans": []}, 400),
        ({"spans": [{"partition": 0, "begin": 5, "end": 4}]}, 400),
        ({"spans": [{"partition": 0, "begin": 0, "end": 1}] * 2}, 400),
        ({"spans": [{"partition": 8, "begin": 0, "end": 1}]}, 404),
        ({"spans": [{"partition": 0, "begin": 0, "end": 10**30}]}, 400),
    ],
)
def test_a_copy_that_is_wrong_is_refused(
    node: EmbeddedNode, client: ConsoleClient, change: dict[str, Any], status: int
) -> None:
    for name in {"wide", "narrow"} - set(node.topics()):
        node.create_topic(name, partitions=2)
    body = {"target": "narrow", "spans": [{"partition": 0, "begin": 0, "end": 1}], **change}
    assert client.ask("POST", "/api/topics/wide/messages/copy", body).status == status
    assert client.ask("POST", "/api/topics/wide/messages/copy/preview", body).status == status


def test_a_copy_of_too_many_is_refused(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("many", partitions=1)
    node.create_topic("few", partitions=1)
    produce(node, "many", [(0, "", 1_000)] * (COPY_RECORDS_MAX + 1))
    body = {"target": "few", "spans": [{"partition": 0, "begin": 0, "end": 10**6}]}
    assert client.value("POST", "/api/topics/many/messages/copy/preview", body)["records"] == COPY_RECORDS_MAX + 1
    assert client.ask("POST", "/api/topics/many/messages/copy", body).status == 422


def test_a_read_only_console_writes_nothing() -> None:
    with node_with_console({"console.read_only": "true"}) as node:
        node.create_topic("kept", partitions=1)
        client = ConsoleClient(node).begin()
        for path in ("", "/0/0/resend", "/copy"):
            assert client.ask("POST", f"/api/topics/kept/messages{path}", {}).status == 403
