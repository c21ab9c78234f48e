"""Topics by the console's API: list, show, create, alter, add partitions, delete."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.confluent import producer, read_partition, send
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode


def rows(client: ConsoleClient) -> dict[str, dict[str, Any]]:
    answer = client.value("GET", "/api/topics?with_sizes=true")
    assert answer["truncated"] is False
    return {row["name"]: row for row in answer["topics"]}


def make(client: ConsoleClient, name: str, **body: Any) -> str:
    assert client.value("POST", "/api/topics", {"name": name, "partitions": 1, **body}) == {"name": name}
    return f"/api/topics/{name}"


def settings(client: ConsoleClient, path: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in client.value("GET", f"{path}/settings")["settings"]}


def test_a_list_has_sums_of_all_partitions(node: EmbeddedNode, client: ConsoleClient) -> None:
    make(client, "sums", partitions=2)
    send(producer(node.bootstrap), "sums", [b"x" * 100] * 3, partition=0)
    row = rows(client)["sums"]
    assert (row["partitions"], row["replication"], row["records"], row["skew"]) == (2, 1, 3, 2.0)
    assert row["size_bytes"] > 300
    assert (row["under_replicated"], row["without_leader"], row["is_internal"]) == (0, 0, False)


def test_sizes_are_left_out_where_they_are_not_asked_for(client: ConsoleClient) -> None:
    make(client, "unsized")
    answer = client.value("GET", "/api/topics?with_sizes=false")
    assert {row["size_bytes"] for row in answer["topics"]} == {None}
    assert client.ask("GET", "/api/topics?with_sizes=perhaps").status == 400


def test_a_topic_shows_its_partitions(node: EmbeddedNode, client: ConsoleClient) -> None:
    path = make(client, "shown", partitions=2)
    send(producer(node.bootstrap), "shown", [b"value"], partition=1)
    shown = client.value("GET", path)
    assert (shown["name"], shown["records"], shown["replication"], shown["is_internal"]) == ("shown", 1, 1, False)
    assert [(each["id"], each["first_offset"], each["end_offset"]) for each in shown["partitions"]] == [
        (0, 0, 0),
        (1, 0, 1),
    ]
    assert shown["partitions"][1]["replicas"] == shown["partitions"][1]["in_sync"] == [shown["partitions"][1]["leader"]]


def test_a_new_topic_has_the_settings_it_was_given(client: ConsoleClient) -> None:
    path = make(client, "set", settings={"retention.ms": "60000"})
    found = settings(client, path)
    assert (found["retention.ms"]["value"], found["retention.ms"]["source"]) == ("60000", "topic")
    assert found["cleanup.policy"]["source"] != "topic"


def test_settings_are_set_and_reset(client: ConsoleClient) -> None:
    path = make(client, "altered", settings={"retention.ms": "60000"})
    before = settings(client, path)["max.message.bytes"]["value"]
    change = {"set": {"max.message.bytes": "2000"}, "reset": ["retention.ms"]}
    assert client.ask("PATCH", f"{path}/settings", change).status == 204
    found = settings(client, path)
    assert (found["max.message.bytes"]["value"], found["retention.ms"]["source"]) == ("2000", "default")
    assert found["max.message.bytes"]["inherited"] in (before, None)


def test_partitions_are_added_and_never_taken(client: ConsoleClient) -> None:
    path = make(client, "wider")
    assert client.ask("POST", f"{path}/partitions", {"count": 3}).status == 204
    assert rows(client)["wider"]["partitions"] == 3
    for count in (0, 2, 3, 10**9, -1):
        answer = client.ask("POST", f"{path}/partitions", {"count": count})
        assert (answer.status, answer.value["error"]["code"]) == (400, 40002), answer.body


def test_a_deleted_topic_is_gone(client: ConsoleClient) -> None:
    path = make(client, "gone")
    assert client.ask("DELETE", path).status == 204
    assert "gone" not in rows(client)
    for method, rest, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/partitions", {"count": 3})):
        assert client.ask(method, path + rest, body).status == 404


def test_every_change_is_in_the_audit(node: EmbeddedNode, client: ConsoleClient) -> None:
    path = make(client, "audited")
    client.ask("PATCH", f"{path}/settings", {"set": {"retention.ms": "60000"}})
    client.ask("POST", f"{path}/partitions", {"count": 2})
    client.ask("DELETE", path)
    written = [json.loads(record.value() or b"") for record in read_partition(node.bootstrap, "__hutong_console_audit")]
    found = [(each["change"], each["before"], each["after"]) for each in written if each["target"] == "audited"]
    assert found[1:3] == [
        ("topic.settings", {"retention.ms": None}, {"retention.ms": "60000"}),
        ("topic.partitions", 1, 2),
    ]
    assert (found[0][0], found[3][0]) == ("topic.create", "topic.delete")
    assert found[3][1]["settings"]["retention.ms"] == "60000"


WRONG_BODIES = [
    b"",
    b"not json",
    b"[]",
    b"{}",
    b'{"name": 5}',
    b'{"name": "x", "partitions": "many"}',
    b'{"name": "x", "partitions": 0}',
    b'{"name": "x", "replication": 99999999999}',
    b'{"name": "x", "settings": {"retention.ms": 5}}',
    b'{"name": "x", "unknown": true}',
    b"\xff\xfe",
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", WRONG_BODIES, ids=range(len(WRONG_BODIES)))
def test_wrong_bodies_are_refused(client: ConsoleClient, body: bytes) -> None:
    assert client.ask("POST", "/api/topics", body).status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "<img src=x>"},
        {"name": "x\u0000y"},
        {"name": "n" * 300},
        {"name": "x", "settings": {"no.such.setting": "1"}},
        {"name": "x", "settings": {"retention.ms": "soon"}},
        {"name": "x", "replication": 9},
    ],
    ids=str,
)
def test_topics_that_no_broker_makes_are_refused(client: ConsoleClient, body: dict[str, Any]) -> None:
    answer = client.ask("POST", "/api/topics", body)
    assert answer.status == 400, answer.body
    assert answer.value["error"]["message"]


@pytest.mark.parametrize("change", [{}, {"set": {"retention.ms": "soon"}}, {"set": {"nothing": "1"}}, {"reset": [5]}])
def test_settings_that_do_not_fit_are_refused(client: ConsoleClient, change: dict[str, Any]) -> None:
    path = "/api/topics/refusing"
    client.ask("POST", "/api/topics", {"name": "refusing"})
    assert client.ask("PATCH", f"{path}/settings", change).status == 400


@pytest.mark.parametrize("name", ["nothing", "a%2Fb", "%3Cb%3E", "x" * 300, "%00"])
def test_a_topic_that_is_not_there(client: ConsoleClient, name: str) -> None:
    for path in (f"/api/topics/{name}", f"/api/topics/{name}/settings"):
        assert client.ask("GET", path).status in (400, 404)


@pytest.fixture(scope="module")
def read_only() -> Iterator[EmbeddedNode]:
    with node_with_console({"console.read_only": "true"}) as node:
        yield node


def test_a_read_only_console_changes_nothing(read_only: EmbeddedNode) -> None:
    client = ConsoleClient(read_only).begin()
    assert client.ask("GET", "/api/topics").status == 200
    for method, path in (("POST", ""), ("DELETE", "/x"), ("PATCH", "/x/settings"), ("POST", "/x/partitions")):
        assert client.ask(method, f"/api/topics{path}", {"name": "x"} if method != "DELETE" else None).status == 403
