"""Pages of a topic as the browser asks for them: newest, oldest, by offset and time, next to each other, one record."""

import json
from typing import Any

import pytest
from tests.unit.console.records.produced import produce
from tests.unit.console.scene import ConsoleClient

from hutong.console.records.seen import SeenRecord, WholeSizes, cut_record
from hutong.testing import EmbeddedNode


def values(page: Any) -> list[str]:
    return [each["value"]["text"] for each in page["records"]]


def test_the_newest_records_come_first_merged_by_time(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("newest", partitions=3)
    produce(node, "newest", [(number % 3, f"v{number}", 1_000 + number) for number in range(30)])
    page = client.value("GET", "/api/topics/newest/messages?limit=7")
    assert values(page) == [f"v{number}" for number in range(29, 22, -1)]
    first = page["records"][0]
    assert (first["partition"], first["offset"], first["timestamp_ms"], first["timestamp_type"]) == (
        2,
        9,
        1_029,
        "create",
    )
    assert page["is_partial"] is False
    seen = values(page)
    while page["older"] is not None:
        page = client.value("GET", f"/api/topics/newest/messages?limit=7&before={page['older']}")
        seen += values(page)
    assert seen == [f"v{number}" for number in range(29, -1, -1)]


def test_the_oldest_come_first_and_pages_go_both_ways(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("oldest", partitions=2)
    produce(node, "oldest", [(number % 2, f"v{number}", 1_000 + number) for number in range(20)])
    page = client.value("GET", "/api/topics/oldest/messages?from=oldest&limit=8")
    assert values(page) == [f"v{number}" for number in range(8)]
    assert page["older"] is None
    page = client.value("GET", f"/api/topics/oldest/messages?after={page['newer']}&limit=8")
    assert values(page) == [f"v{number}" for number in range(8, 16)]
    page = client.value("GET", f"/api/topics/oldest/messages?before={page['older']}&limit=8")
    assert values(page) == [f"v{number}" for number in range(7, -1, -1)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("from=offset&offset=8", ["v16", "v17", "v18", "v19"]),
        ("from=offset&offset=9&partitions=1", ["v19"]),
        ("from=offset&offset=99", []),
        ("from=time&time_ms=1017", ["v17", "v18", "v19"]),
        ("from=time&time_ms=9999999", []),
        ("partitions=0&limit=2", ["v18", "v16"]),
    ],
)
def test_places(node: EmbeddedNode, client: ConsoleClient, query: str, expected: list[str]) -> None:
    if "places" not in node.topics():
        node.create_topic("places", partitions=2)
        produce(node, "places", [(number % 2, f"v{number}", 1_000 + number) for number in range(20)])
    assert values(client.value("GET", f"/api/topics/places/messages?{query}")) == expected


def test_an_empty_topic_has_an_empty_page(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("empty", partitions=3)
    page = client.value("GET", "/api/topics/empty/messages")
    assert (page["records"], page["older"], page["ends"]) == ([], None, {"0": 0, "1": 0, "2": 0})


def test_one_record_by_its_place(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("one", partitions=1)
    large = json.dumps({"text": "x" * 100_000})
    produce(node, "one", [(0, "first", 1_000), (0, large, 2_000)], key=b"k", headers=[("h", b"\xff"), ("n", None)])
    found = client.value("GET", "/api/topics/one/messages/0/1")
    assert (found["key"]["text"], found["value"]["form"], found["value"]["is_whole"]) == ("k", "json", False)
    assert len(found["value"]["text"]) == 64 << 10
    assert [(each["name"], each["value"] and each["value"]["form"]) for each in found["headers"]] == [
        ("h", "hex"),
        ("n", None),
    ]
    assert client.value("GET", "/api/topics/one/messages/0/1?chars=200000")["value"]["is_whole"]
    raw = client.value("GET", "/api/topics/one/messages/0/0?raw=true")["raw"]
    assert raw == {"key": "aw==", "value": "Zmlyc3Q=", "headers": [["h", "/w=="], ["n", None]]}
    assert client.value("GET", "/api/topics/one/messages/0/0?value_form=hex")["value"]["text"].startswith(
        "00000000  66 69"
    )


def test_a_page_keeps_little_of_large_records(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("large", partitions=1)
    produce(
        node, "large", [(0, '{"a": "' + "x" * 900_000, 1_000)] * 3, key=b"k" * 20_000, headers=[("h", b"1" * 50_000)]
    )
    for found in client.value("GET", "/api/topics/large/messages")["records"]:
        value = found["value"]
        assert (value["form"], value["size_bytes"], value["is_whole"]) == ("text", 900_007, False)
        assert (found["key"]["size_bytes"], found["headers"], found["headers_count"]) == (20_000, [], 1)
        assert found["size_bytes"] == 900_007 + 20_000 + 50_001
    assert client.value("GET", "/api/topics/large/messages?value_form=hex")["records"][0]["value"]["form"] == "hex"
    assert len(client.value("GET", "/api/topics/large/messages/0/0")["headers"]) == 1


def test_a_record_is_cut_by_its_parts() -> None:
    headers = [("a", b"1" * 50), ("b", None), ("c", b"2" * 100)]
    record = SeenRecord("t", 0, 0, 0, None, b"v" * 300, headers, 456)
    cut = cut_record(record, 100)
    assert (cut.key, cut.value, cut.headers, cut.size_bytes) == (None, b"v" * 100, headers[:2], 456)
    assert cut.whole == WholeSizes(-1, 300, 3)
    assert cut_record(record, 456) is record


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/topics/one/messages/0/99", 404),
        ("/api/topics/one/messages/7/0", 404),
        ("/api/topics/missing/messages", 404),
        ("/api/topics/one/messages?partitions=3", 404),
        ("/api/topics/one/messages?partitions=x", 400),
        ("/api/topics/one/messages?from=somewhere", 400),
        ("/api/topics/one/messages?from=offset", 400),
        ("/api/topics/one/messages?limit=0", 400),
        ("/api/topics/one/messages?before=x", 400),
        ("/api/topics/one/messages?value_form=pickle", 400),
        ("/api/topics/one/messages?chars=99999999", 400),
    ],
)
def test_what_cannot_be_read_is_refused(node: EmbeddedNode, client: ConsoleClient, path: str, status: int) -> None:
    if "one" not in node.topics():
        node.create_topic("one", partitions=1)
    answer = client.ask("GET", path)
    assert (answer.status, "message" in answer.value["error"]) == (status, True)
