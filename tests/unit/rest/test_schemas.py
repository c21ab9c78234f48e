"""Records with schemas by HTTP: each way to name a schema, refusals, rights, and other nodes of a cluster."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.http_json import Answered, JsonClient
from tests.support.sockjs import WebSocketClient
from tests.unit.rest.scene import RestClient, node_with_http

from hutong.rest.limits import SCHEMAS_OF_REQUEST_MAX
from hutong.testing import EmbeddedCluster, EmbeddedNode, Topic

SETTINGS = {"schema_registry.listen": "127.0.0.1:0"}
USER = json.dumps({"type": "record", "name": "a.User", "fields": [{"name": "name", "type": "string"}]})
LARGER = json.dumps(
    {"type": "record", "name": "a.User", "fields": [{"name": "name", "type": "string"},
     {"name": "age", "type": ["null", "int"], "default": None}]}
)  # fmt: skip
ANN, ANN_BYTES = {"name": "ann"}, b"\x06ann"


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_http(SETTINGS) as node:
        yield node


def post(client: RestClient, topic: str, **value: Any) -> Answered:
    return client.of("POST", f"/topics/{topic}/records", {"value": value})


def code_of(answer: Answered) -> tuple[int, int]:
    return answer.status, answer.value["error_code"]


def stored(client: RestClient, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of the topic's only partition."""
    found = client.of("GET", f"/topics/{topic}/partitions/0/records?format=binary").value["data"]
    return [(bytes_of(record["key"]), bytes_of(record["value"])) for record in found]


def bytes_of(shown: dict[str, str] | None) -> bytes | None:
    return None if shown is None else base64.b64decode(shown["data"])


def test_a_schema_is_named_by_text_id_version_or_subject(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("users", partitions=1)
    first = post(client, "users", type="AVRO", schema=USER, data=ANN).value["value"]
    assert (first["type"], first["subject"], first["schema_version"], first["size"]) == ("AVRO", "users-value", 1, 9)
    number = first["schema_id"]
    post(client, "users", type="AVRO", schema=LARGER, data=ANN | {"age": {"int": 1}})
    answers = [
        post(client, "users", schema_id=number, data=ANN),
        post(client, "users", schema_version=1, data=ANN),
        post(client, "users", subject="users-value", schema_version=1, data=ANN),
        post(client, "users", type="AVRO", subject_name_strategy="TOPIC_NAME", schema_id=number, data=ANN),
    ]
    assert [answer.value["value"] for answer in answers] == [first] * 4
    latest = post(client, "users", subject_name_strategy="TOPIC_NAME", data=ANN | {"age": None}).value["value"]
    assert (latest["schema_version"], latest["schema_id"]) == (2, number + 1)
    old, new = b"\0" + number.to_bytes(4, "big"), b"\0" + (number + 1).to_bytes(4, "big")
    expected = [old + ANN_BYTES, new + ANN_BYTES + b"\x02\x02", *[old + ANN_BYTES] * 4, new + ANN_BYTES + b"\x00"]
    assert [value for _, value in stored(client, "users")] == expected


def test_strategies_make_the_subject(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("named", partitions=1)
    message = 'syntax = "proto3"; package p; message M { int32 x = 1; }'
    titled = '{"title": "T", "type": "object"}'
    for kind, schema, data, name in (
        ("AVRO", USER, ANN, "a.User"),
        ("PROTOBUF", message, {"x": 1}, "p.M"),
        ("JSONSCHEMA", titled, {}, "T"),
    ):
        for strategy, subject in (("RECORD_NAME", name), ("TOPIC_RECORD_NAME", f"named-{name}")):
            answer = post(client, "named", type=kind, schema=schema, subject_name_strategy=strategy, data=data)
            assert answer.value["value"]["subject"] == subject
    number = answer.value["value"]["schema_id"]
    by_id = post(client, "named", schema_id=number, subject_name_strategy="RECORD_NAME", data={})
    assert by_id.value["value"]["subject"] == "T"
    for refused in ({"schema_version": 1}, {}, {"type": "AVRO", "schema": '"int"'}):
        answer = post(client, "named", subject_name_strategy="RECORD_NAME", data=1, **refused)
        assert code_of(answer) == (400, 400), answer.body
        assert "needs a schema with a name" in answer.value["message"]


def test_keys_have_schemas_and_null_has_none(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("keys", partitions=1)
    key = {"type": "AVRO", "schema": '"string"', "data": "k"}
    (answer,) = client.produce("keys", {"key": key, "value": {"type": "AVRO", "data": None}})
    assert (answer["key"]["subject"], answer["value"]) == ("keys-key", None)
    ((found, value),) = stored(client, "keys")
    assert (found, value) == (b"\0" + answer["key"]["schema_id"].to_bytes(4, "big") + b"\x02k", None)


def test_each_record_is_stored_or_refused_by_itself(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("mixed", partitions=1)
    users = {"type": "AVRO", "subject": "mixed-value", "schema": USER}
    answers = client.produce(
        "mixed",
        {"value": users | {"data": ANN}},
        {"value": users | {"data": {"name": 1}}},
        {"value": {"schema_id": 999_999, "data": ANN}},
        {"value": {"type": "STRING", "data": "plain"}},
    )
    assert [answer["error_code"] for answer in answers] == [200, 400, 42207, 200]
    assert answers[1]["message"].endswith("at /name: it is no string")
    body = {"entries": [{"id": "a", "value": users | {"data": ANN}}, {"id": "b", "value": users | {"data": 5}}]}
    batch = client.of("POST", "/topics/mixed/records:batch", body).value
    assert ([each["id"] for each in batch["successes"]], [each["id"] for each in batch["failures"]]) == (["a"], ["b"])
    assert batch["successes"][0]["value"]["schema_version"] == 1


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ({"type": "STRING", "schema": USER}, (400, 400), "takes no schema"),
        ({"type": "JSON", "subject": "s"}, (400, 400), "takes no schema"),
        ({"type": "XML"}, (400, 400), "BINARY, STRING, JSON, AVRO, JSONSCHEMA, PROTOBUF"),
        ({"schema": USER}, (400, 400), "needs its type"),
        ({"subject": "s", "subject_name_strategy": "TOPIC_NAME"}, (400, 400), "Only one of"),
        ({"schema_id": 1, "schema_version": 1}, (400, 400), "Only one of"),
        ({"type": "AVRO", "schema": USER, "schema_id": 1}, (400, 400), "Only one of"),
        ({"subject_name_strategy": "OTHER", "schema_id": 1}, (400, 400), "is one of TOPIC_NAME"),
        ({"schema_id": "1"}, (400, 400), "Expected `int | null`"),
        ({"type": "AVRO", "schema": "{"}, (422, 42205), "Invalid schema"),
        ({"type": "PROTOBUF", "schema": "message"}, (422, 42205), "Invalid schema"),
        ({"type": "JSONSCHEMA", "schema": '{"type": "text"}'}, (422, 42205), "Invalid schema"),
        ({"type": "AVRO", "schema": '{"type":"array","items":"b.Missing"}'}, (422, 42205), "is not known"),
        ({"type": "AVRO"}, (422, 42207), "'refused-value' not found"),
        ({"subject": "nobody's"}, (422, 42207), "not found"),
        ({"schema_id": 999_999}, (422, 42207), "Schema 999999 not found"),
        ({"schema_id": -1}, (422, 42207), "not found"),
        ({"subject": ""}, (422, 42207), "subject is not valid"),
        ({"subject": "taken", "schema_version": 2}, (400, 400), "Version 2 not found"),
        ({"subject": "taken", "type": "PROTOBUF"}, (400, 400), "has the type AVRO"),
        ({"subject": "taken", "type": "AVRO", "schema": '"int"'}, (422, 42207), "incompatible"),
        ({"subject": "taken", "type": "AVRO", "data": {"name": "x", "more": 1}}, (400, 400), "no field 'more'"),
    ],
)
def test_wrong_choices_are_refused(
    node: EmbeddedNode, client: RestClient, value: dict[str, Any], code: tuple[int, int], words: str
) -> None:
    if "refused" not in [each["topic_name"] for each in client.of("GET", "/topics").value["data"]]:
        node.create_topic("refused", partitions=1)
        assert post(client, "refused", type="AVRO", subject="taken", schema=USER, data=ANN).status == 200
    answer = post(client, "refused", **({"data": 1} | value))
    assert code_of(answer) == code, answer.body
    assert words in answer.value["message"]


RICH = {
    "AVRO": (
        json.dumps({"type": "record", "name": "R", "fields": [
            {"name": "u", "type": ["null", "string", {"type": "fixed", "name": "n.F", "size": 1}]},
            {"name": "b", "type": "bytes"}, {"name": "d", "type": {"type": "array", "items": "double"}}]}),
        {"u": {"n.F": "\u00ff"}, "b": "\u0000", "d": [1.5, "NaN", "-Infinity"]},
    ),
    "JSONSCHEMA": ('{"type": "object"}', {"a": [1, None]}),
    "PROTOBUF": ('syntax = "proto3"; message M { int64 big_one = 1; bytes b = 2; }', {"bigOne": "5", "b": "/w=="}),
}  # fmt: skip


@pytest.mark.parametrize("kind", RICH)
def test_values_are_read_as_they_were_given(node: EmbeddedNode, client: RestClient, kind: str) -> None:
    schema, data = RICH[kind]
    topic = f"read-{kind.lower()}"
    node.create_topic(topic, partitions=1)
    made = post(client, topic, type=kind, schema=schema, data=data).value["value"]
    client.produce(topic, {"key": {"data": "AAAAB9A="}, "value": {"type": "STRING", "data": "plain"}})
    path = f"/topics/{topic}/partitions/0/records?format=schema"
    first, other = client.of("GET", path).value["data"]
    assert first["value"] == {"type": kind, "schema_id": made["schema_id"], "data": data}
    assert (other["key"], other["value"]) == (
        {"type": "BINARY", "data": "AAAAB9A="},
        {"type": "STRING", "data": "plain"},
    )


def subjects(node: EmbeddedNode) -> list[str]:
    return [*JsonClient(str(node.schema_registry_url).removeprefix("http://")).call("GET", "/subjects").value]


def test_a_wrong_value_leaves_no_schema_in_the_subject(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("wrong-first", partitions=1)
    given = {"type": "AVRO", "schema": USER}
    answer = post(client, "wrong-first", **given, data={"nam": "ann"})
    assert code_of(answer) == (400, 400)
    assert "not of its schema for wrong-first-value: at /: the field name is missing" in answer.value["message"]
    kept = client.of(
        "POST", "/topics/wrong-first/records", {"key": {"data": "no base64"}, "value": given | {"data": ANN}}
    )
    assert code_of(kept) == (400, 400)
    body = {"value_schema": USER, "records": [{"value": ANN}, {"value": 5}]}
    refused = client.call("POST", "/topics/wrong-first", body, "application/vnd.kafka.avro.v2+json")
    assert code_of(refused) == (422, 42203)
    assert "wrong-first-value" not in subjects(node)
    answers = client.produce("wrong-first", *[{"value": given | {"data": data}} for data in (5, ANN)])
    assert [answer["error_code"] for answer in answers] == [400, 200]
    assert answers[1]["value"]["schema_version"] == 1
    assert "wrong-first-value" in subjects(node)


def test_streams_show_values_by_their_schemas(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("streamed", partitions=1)
    made = post(client, "streamed", type="AVRO", schema=USER, data=ANN).value["value"]
    client.produce("streamed", {"value": {"type": "STRING", "data": "plain"}})
    shown = [
        {"type": "AVRO", "schema_id": made["schema_id"], "data": ANN},
        {"type": "STRING", "data": "plain"},
    ]
    path = f"{client.path('/topics/streamed/records')}?from=earliest&format=schema"
    events = client.events(path)
    assert [json.loads(next(events)["data"])["value"] for _ in range(2)] == shown
    events.close()
    with WebSocketClient(int(client.address.rpartition(":")[2]), path) as socket:
        assert [json.loads(socket.receive())["record"]["value"] for _ in range(2)] == shown


V2 = "application/vnd.kafka.v2+json"


@pytest.mark.parametrize("kind", RICH)
def test_v2_produces_and_consumes_with_schemas(node: EmbeddedNode, client: RestClient, kind: str) -> None:
    schema, data = RICH[kind]
    form = kind.lower()
    topic, content = f"v2-{form}", f"application/vnd.kafka.{form}.v2+json"
    node.create_topic(topic, partitions=1)
    made = client.call("POST", f"/topics/{topic}", {"value_schema": schema, "records": [{"value": data}]}, content)
    assert (made.status, made.value["offsets"][0]["offset"], made.value["key_schema_id"]) == (200, 0, None), made.body
    number = made.value["value_schema_id"]
    again = {"value_schema_id": number, "records": [{"value": data}, {"value": None}]}
    assert client.call("POST", f"/topics/{topic}/partitions/0", again, content).value["value_schema_id"] == number
    settings = {"name": "i", "format": form, "auto.offset.reset": "earliest"}
    assert client.call("POST", f"/consumers/{topic}", settings, V2).status == 200
    one = f"/consumers/{topic}/instances/i"
    client.call("POST", f"{one}/assignments", {"partitions": [{"topic": topic, "partition": 0}]}, V2)
    found = client.call("GET", f"{one}/records?timeout=20000")
    assert [record["value"] for record in found.value] == [data, data, None]
    assert found.headers["content-type"] == content


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"records": [{"value": 1}]}, 42202),
        ({"records": [{"key": 1}], "value_schema": '"int"'}, 42201),
        ({"records": [{"value": "x"}], "value_schema": '"int"'}, 42203),
        ({"records": [{"value": 1}], "value_schema": "{"}, 42205),
        ({"records": [{"value": 1}], "value_schema_id": 999_999}, 42207),
    ],
)
def test_v2_refuses_the_whole_request(client: RestClient, body: dict[str, Any], code: int) -> None:
    answer = client.call("POST", "/topics/v2-refused", body, "application/vnd.kafka.avro.v2+json")
    assert code_of(answer) == (422, code), answer.body


def test_v2_tells_of_records_without_a_schema(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("v2-plain", partitions=1)
    client.produce("v2-plain", {"value": {"type": "STRING", "data": "plain"}})
    client.call("POST", "/consumers/plain", {"name": "i", "format": "avro", "auto.offset.reset": "earliest"}, V2)
    place = {"partitions": [{"topic": "v2-plain", "partition": 0}]}
    client.call("POST", "/consumers/plain/instances/i/assignments", place, V2)
    answer = client.call("GET", "/consumers/plain/instances/i/records?timeout=20000")
    assert code_of(answer) == (500, 50002)
    assert "read it with the format binary" in answer.value["message"]


def test_an_id_of_another_subject_is_refused(node: EmbeddedNode, client: RestClient) -> None:
    node.create_topic("one", partitions=1)
    number = post(client, "one", type="AVRO", schema=USER, data=ANN).value["value"]["schema_id"]
    answer = post(client, "other", schema_id=number, data=ANN)
    assert code_of(answer) == (422, 42207)
    assert "no version of subject other-value" in answer.value["message"]


def test_a_request_names_a_bounded_number_of_schemas(client: RestClient) -> None:
    records = [{"value": {"schema_id": number, "data": 1}} for number in range(1, SCHEMAS_OF_REQUEST_MAX + 2)]
    body = "".join(map(json.dumps, records)).encode()
    answer = client.call("POST", client.path("/topics/any/records"), body)
    assert code_of(answer) == (413, 41301)


def test_text_and_numbers_that_json_does_not_have_are_refused_in_streams(client: RestClient) -> None:
    for data in (b'"\\ud800"', b"NaN", b"1e999"):
        body = b'{"value": {"type": "JSON", "data": 1}} {"value": {"type": "JSON", "data": %b}}' % data
        answer = client.call("POST", client.path("/topics/any/records"), body)
        assert code_of(answer) == (400, 400), answer.body


def test_without_a_registry_schemas_are_refused_clearly() -> None:
    with node_with_http() as node:
        client = RestClient(node.http or "").begin()
        for value in ({"type": "AVRO", "schema": USER}, {"schema_id": 1}, {"subject": "s"}):
            answer = post(client, "t", data=ANN, **value)
            assert code_of(answer) == (422, 42206)
            assert "Schema Registry must be configured when using schemas" in answer.value["message"]
        assert code_of(client.of("GET", "/topics/t/partitions/0/records?format=schema")) == (422, 42206)
        assert code_of(client.of("GET", "/topics/t/records?format=schema")) == (422, 42206)
        assert code_of(client.call("POST", "/consumers/g", {"format": "avro"}, V2)) == (422, 42206)
        body = {"value_schema": USER, "records": [{"value": ANN}]}
        assert code_of(client.call("POST", "/topics/t", body, "application/vnd.kafka.avro.v2+json")) == (422, 42206)


def test_rights_to_subjects_are_those_of_the_registry() -> None:
    secured = {
        "kafka.protocol": "SASL_PLAINTEXT",
        "sasl.allow_without_tls": "true",
        "security.authorize": "true",
        "security.super_users": "User:ann",
        **SETTINGS,
    }
    with node_with_http(secured, ann="secret-of-ann", bob="secret-of-bob") as node:
        ann = RestClient(node.http or "", "ann", "secret-of-ann").begin()
        bob = RestClient(node.http or "", "bob", "secret-of-bob")
        bob.cluster = ann.cluster
        for topic in ("hers", "his"):
            ann.of("POST", "/topics", {"topic_name": topic, "partitions_count": 1})
        number = post(ann, "hers", type="AVRO", schema=USER, data=ANN).value["value"]["schema_id"]
        write = {"resource_type": "TOPIC", "resource_name": "his", "pattern_type": "LITERAL", "principal": "User:bob",
                 "host": "*", "operation": "WRITE", "permission": "ALLOW"}  # fmt: skip
        assert ann.of("POST", "/acls", write).status == 201
        for value in (
            {"schema_id": number, "subject": "hers-value"},
            {"subject": "hers-value"},
            {"subject": "hers-value", "type": "AVRO", "schema": USER},
            {"subject": "new", "type": "AVRO", "schema": USER},
        ):
            assert code_of(post(bob, "his", data=ANN, **value)) == (403, 40301)
        assert post(bob, "his", type="AVRO", schema=USER, data=ANN).status == 200
        # Now a subject that he may see has it.
        assert post(bob, "his", schema_id=number, data=ANN).status == 200


def test_any_node_of_a_cluster_takes_what_another_has_registered() -> None:
    settings = {
        "http.listen": "127.0.0.1:0",
        # A machine that runs all tests at once must take no node for slow, or for dead.
        "cluster.lag_ms_max": "20000",
        "cluster.session_timeout_ms": "5000",
        **SETTINGS,
    }
    with EmbeddedCluster(3, topics=[Topic("t", partitions=1)], settings=settings) as cluster:
        clients = [RestClient(node.http or "").begin() for node in cluster.nodes]
        made = [post(client, "t", type="AVRO", schema=USER, data=ANN).value["value"] for client in clients]
        assert len({each["schema_id"] for each in made}) == 1
        number = post(clients[0], "t", type="AVRO", schema=LARGER, data=ANN | {"age": None}).value["value"]
        for client in clients:
            answer = post(client, "t", schema_id=number["schema_id"], data=ANN | {"age": {"int": 3}})
            assert answer.value["value"]["schema_version"] == 2
