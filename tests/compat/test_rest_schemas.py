"""Records that came by HTTP with schemas, read by deserializers that this project did not write; curl sends them."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from tests.compat.report import cells
from tests.support.versions import curl_version

from hutong.registry.formats.protobuf import ProtobufFormat
from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
CURL = cells("curl", curl_version)
SETTINGS = {"http.listen": "127.0.0.1:0", "schema_registry.listen": "127.0.0.1:0"}
AVRO = {
    "type": "record",
    "name": "myrecord",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "nick", "type": ["null", "string"], "default": None},
        {"name": "token", "type": "bytes"},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    ],
}
JSON_SCHEMA = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
PROTOBUF = 'syntax = "proto3"; message SimpleMessage { string content = 1; map<string, int64> counts = 2; }'
Decode = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SETTINGS) as node:
        yield node


@pytest.fixture
def registry(node: EmbeddedNode) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.schema_registry_url}) as client:
        yield client


def curl(node: EmbeddedNode, topic: str, *records: Any) -> list[Any]:
    """Post records as the documentation of v3 has it."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "60"]
    listed = subprocess.run(
        [*command, f"http://{node.http}/v3/clusters"], capture_output=True, text=True, check=True
    ).stdout
    url = f"http://{node.http}/v3/clusters/{json.loads(listed)['data'][0]['cluster_id']}/topics/{topic}/records"
    body = "\n".join(map(json.dumps, records))
    words = ["-X", "POST", "-H", "Content-Type: application/json", "--data-binary", "@-", url]
    done = subprocess.run([*command, *words], input=body, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {answer["error_code"] for answer in answers} == {200}, answers
    return answers


def read(node: EmbeddedNode, topic: str, decode: Decode, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None, "the record comes"
        assert message.error() is None
        found.append(decode(message.value(), SerializationContext(topic, MessageField.VALUE)))
    consumer.close()
    return found


@CURL("http-schemas")
def test_avro_is_read_by_its_deserializer(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("avrotest", partitions=1)
    first = {"name": "testUser", "nick": {"string": "t"}, "token": "\u00ff", "born": 1}
    (answer,) = curl(node, "avrotest", {"value": {"type": "AVRO", "schema": json.dumps(AVRO), "data": first}})
    number = answer["value"]["schema_id"]
    # The serializer finds the same schema under the same subject.
    context = SerializationContext("avrotest", MessageField.VALUE)
    value = {"name": "x", "nick": None, "token": b"", "born": 0}
    assert AvroSerializer(registry, json.dumps(AVRO))(value, context)[:5] == b"\0" + number.to_bytes(4, "big")
    curl(node, "avrotest", {"value": {"schema_id": number, "data": first | {"nick": None}}})
    curl(node, "avrotest", {"value": {"subject_name_strategy": "TOPIC_NAME", "schema_version": 1, "data": first}})
    found = read(node, "avrotest", AvroDeserializer(registry), 3)
    assert [each["nick"] for each in found] == ["t", None, "t"]
    assert (found[0]["token"], str(found[0]["born"])) == (b"\xff", "1970-01-02")


@CURL("http-schemas")
def test_json_of_a_schema_is_read_by_its_deserializer(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("jsonschematest", partitions=1)
    schema = json.dumps(JSON_SCHEMA)
    curl(node, "jsonschematest", {"value": {"type": "JSONSCHEMA", "schema": schema, "data": {"name": "joe", "age": 3}}})
    decode = JSONDeserializer(schema, schema_registry_client=registry)
    assert read(node, "jsonschematest", decode, 1) == [{"name": "joe", "age": 3}]


@CURL("http-schemas")
def test_protobuf_is_read_by_its_deserializer(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("protobuftest", partitions=1)
    data = {"content": "hello", "counts": {"a": "7"}}
    curl(node, "protobuftest", {"value": {"type": "PROTOBUF", "schema": PROTOBUF, "data": data}})
    kind = GetMessageClass(ProtobufFormat().parse(PROTOBUF, ()).descriptor.message_types_by_name["SimpleMessage"])
    decode = ProtobufDeserializer(kind, {"use.deprecated.format": False}, registry)
    (found,) = read(node, "protobuftest", decode, 1)
    assert (found.content, dict(found.counts)) == ("hello", {"a": 7})
