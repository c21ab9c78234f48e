"""The v2 API of a node: producing, and consumers of groups between requests."""

import base64
import socket
from typing import Any

import pytest
from tests.support.http_json import Answered
from tests.support.waiting import until
from tests.unit.rest.scene import RestClient

from hutong.testing import EmbeddedNode

V2 = "application/vnd.kafka.v2+json"
OF_JSON = "application/vnd.kafka.json.v2+json"
OF_BINARY = "application/vnd.kafka.binary.v2+json"


def produce(client: RestClient, topic: str, *values: Any) -> Answered:
    return client.call("POST", f"/topics/{topic}", {"records": [{"value": value} for value in values]}, OF_JSON)


def make(client: RestClient, group: str, **settings: Any) -> str:
    body = {"format": "json", "auto.offset.reset": "earliest", **settings}
    answer = client.call("POST", f"/consumers/{group}", body, V2)
    assert answer.status == 200, answer.body
    base = answer.value["base_uri"]
    assert base.startswith(f"http://{client.address}/consumers/{group}/instances/")
    return str(base.removeprefix(f"http://{client.address}"))


def read(client: RestClient, instance: str, count: int) -> list[Any]:
    found: list[Any] = []

    def has_all() -> bool:
        answer = client.call("GET", f"{instance}/records?timeout=500")
        assert answer.status == 200, answer.body
        found.extend(answer.value)
        return len(found) >= count

    until(has_all, what=f"{count} records")
    return found


def test_a_member_of_a_group_reads_and_commits(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("shared", partitions=2)
    answer = produce(client, "shared", {"n": 1}, {"n": 2}, {"n": 3})
    assert [each["error_code"] for each in answer.value["offsets"]] == [None] * 3
    one = make(client, "team", **{"auto.commit.enable": "false"})
    assert client.call("POST", f"{one}/subscription", {"topics": ["shared"]}, V2).status == 204
    assert client.call("GET", f"{one}/subscription").value == {"topics": ["shared"]}
    found = read(client, one, 3)
    assert sorted(record["value"]["n"] for record in found) == [1, 2, 3]
    assert len(client.call("GET", f"{one}/assignments").value["partitions"]) == 2
    assert client.call("POST", f"{one}/offsets").status == 200
    places = {"partitions": [{"topic": "shared", "partition": number} for number in (0, 1)]}
    committed = client.call("GET", f"{one}/offsets", places, V2).value["offsets"]
    assert sum(each["offset"] for each in committed) == 3
    assert client.call("DELETE", one).status == 204
    assert client.call("DELETE", one).status == 404
    # The next member goes on behind what was committed.
    produce(client, "shared", {"n": 4})
    other = make(client, "team")
    client.call("POST", f"{other}/subscription", {"topic_pattern": "sh.*"}, V2)
    assert [record["value"]["n"] for record in read(client, other, 1)] == [4]
    client.call("DELETE", other)


def test_a_consumer_reads_what_it_assigned_itself(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("assigned", partitions=1)
    produce(client, "assigned", *range(5))
    one = make(client, "alone", format="binary", name="me")
    places = {"partitions": [{"topic": "assigned", "partition": 0}]}
    assert client.call("POST", f"{one}/assignments", places, V2).status == 204
    encoded = [base64.b64encode(b"%d" % number).decode() for number in range(5)]
    assert [record["value"] for record in read(client, one, 5)] == encoded
    back = {"offsets": [{"topic": "assigned", "partition": 0, "offset": 3}]}
    assert client.call("POST", f"{one}/positions", back, V2).status == 204
    assert [record["value"] for record in read(client, one, 2)] == encoded[3:]
    assert client.call("POST", f"{one}/positions/beginning", places, V2).status == 204
    assert [record["offset"] for record in read(client, one, 5)] == list(range(5))
    assert client.call("POST", f"{one}/positions/end", places, V2).status == 204
    assert client.call("GET", f"{one}/records?timeout=100").value == []
    # A record that is done is named, and the next one is the position.
    done = {"offsets": [{"topic": "assigned", "partition": 0, "offset": 1}]}
    assert client.call("POST", f"{one}/offsets", done, V2).status == 200
    assert client.call("GET", f"{one}/offsets", places, V2).value["offsets"][0]["offset"] == 2
    client.call("DELETE", one)


def test_an_answer_has_no_more_bytes_than_asked_for(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("large", partitions=1)
    produce(client, "large", *["x" * 1_000] * 5)
    one = make(client, "small-bites")
    client.call("POST", f"{one}/assignments", {"partitions": [{"topic": "large", "partition": 0}]}, V2)
    offsets: list[int] = []
    until(lambda: _read_some(client, one, offsets) >= 5, what="all records")
    assert offsets == list(range(5))
    client.call("DELETE", one)


def _read_some(client: RestClient, instance: str, offsets: list[int]) -> int:
    found = client.call("GET", f"{instance}/records?timeout=500&max_bytes=2100").value
    assert len(found) <= 2
    offsets += [record["offset"] for record in found]
    return len(offsets)


def test_a_client_that_goes_while_it_waits_costs_no_record(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("left", partitions=1)
    one = make(client, "leavers")
    client.call("POST", f"{one}/assignments", {"partitions": [{"topic": "left", "partition": 0}]}, V2)
    host, _, port = client.address.rpartition(":")
    for number in range(3):
        with socket.create_connection((host, int(port))) as leaving:
            leaving.sendall(f"GET {one}/records?timeout=20000 HTTP/1.1\r\nHost: {client.address}\r\n\r\n".encode())
            # It waits once a second read is refused.
            until(lambda: client.call("GET", f"{one}/records?timeout=0").status == 409, what="the read to begin")
        produce(client, "left", number)
    assert sorted({record["value"] for record in read(client, one, 3)}) == [0, 1, 2]
    client.call("DELETE", one)


def test_topics_and_brokers_are_listed(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("listed", partitions=2)
    assert "listed" in client.call("GET", "/topics").value
    shown = client.call("GET", "/topics/listed").value
    assert [each["partition"] for each in shown["partitions"]] == [0, 1]
    assert client.call("GET", "/topics/listed/partitions").value == shown["partitions"]
    assert client.call("GET", "/brokers").value == {"brokers": [1]}
    assert client.call("GET", "/topics/not-there").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("POST", "/topics/refused", {"records": []}, OF_JSON, 422),
        ("POST", "/topics/refused", {"records": [{"value": "%"}]}, OF_BINARY, 422),
        ("POST", "/topics/refused", {"records": [{"value": 1, "partition": -1}]}, OF_JSON, 422),
        ("POST", "/topics/refused", {"records": [{"value": 1}]}, "text/plain", 415),
        ("POST", "/topics/refused", {}, OF_JSON, 400),
        ("POST", "/consumers/g", {"format": "avro"}, V2, 422),
        ("POST", "/consumers/g", {"auto.offset.reset": "middle"}, V2, 422),
        ("POST", "/consumers/g", {"auto.commit.enable": "maybe"}, V2, 422),
        ("POST", "/consumers/g", {"name": "n" * 201}, V2, 422),
        ("POST", "/consumers/g", {"name": "a\nb"}, V2, 422),
        ("GET", "/consumers/g/instances/none/records", None, V2, 404),
    ],
)
def test_wrong_requests_are_refused(
    client: RestClient, method: str, path: str, body: Any, kind: str, status: int
) -> None:
    answer = client.call(method, path, body, kind)
    assert answer.status == status, answer.body
    assert answer.value["message"]


def test_subscriptions_that_cannot_be_are_refused(client: RestClient) -> None:
    one = make(client, "subscribing", name="once")
    taken = client.call("POST", "/consumers/subscribing", {"name": "once"}, V2)
    assert (taken.status, taken.value["error_code"]) == (409, 40902)
    for body in (
        {},
        {"topics": ["a"], "topic_pattern": "b"},
        {"topics": ["t"] * 1_001},
        {"topic_pattern": "x" * 1_001},
    ):
        assert client.call("POST", f"{one}/subscription", body, V2).status == 422
    assert client.call("DELETE", f"{one}/subscription").status == 204
    client.call("DELETE", one)
