"""Values that confluent-kafka's serializers write, as the console decodes them by the registry of the node."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp
from tests.support.confluent import producer, send
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
AVRO = '{"type": "record", "name": "shop.User", "fields": [{"name": "name", "type": "string"}]}'
JSON = '{"type": "object", "title": "User", "properties": {"name": {"type": "string"}}}'
CONTEXT = SerializationContext("users", MessageField.VALUE)


@pytest.fixture(scope="module")
def registered() -> Iterator[EmbeddedNode]:
    with node_with_console({"schema_registry.listen": "127.0.0.1:0"}) as started:
        yield started


def shown(node: EmbeddedNode, topic: str, data: Any) -> Any:
    node.create_topic(topic, partitions=1)
    send(producer(node.bootstrap), topic, [data])
    (record,) = ConsoleClient(node).begin().value("GET", f"/api/topics/{topic}/messages")["records"]
    return record["value"]


def test_avro(registered: EmbeddedNode) -> None:
    with SchemaRegistryClient({"url": registered.schema_registry_url}) as registry:
        value = shown(registered, "avro", AvroSerializer(registry, AVRO)({"name": "Zoë"}, CONTEXT))
    assert (value["form"], value["text"]) == ("avro", '{\n  "name": "Zoë"\n}')
    assert (value["schema"]["type"], value["schema"]["name"]) == ("AVRO", "shop.User")


def test_json_schema(registered: EmbeddedNode) -> None:
    context = SerializationContext("json", MessageField.VALUE)
    with SchemaRegistryClient({"url": registered.schema_registry_url}) as registry:
        value = shown(registered, "json", JSONSerializer(JSON, registry)({"name": "Zoë"}, context))
    assert (value["form"], value["text"]) == ("json", '{\n  "name": "Zoë"\n}')
    assert value["schema"]["type"] == "JSON"


def test_protobuf(registered: EmbeddedNode) -> None:
    with SchemaRegistryClient({"url": registered.schema_registry_url}) as registry:
        serializer = ProtobufSerializer(Timestamp, registry, {"use.deprecated.format": False})
        data = serializer(Timestamp(seconds=5, nanos=7), SerializationContext("protobuf", MessageField.VALUE))
        value = shown(registered, "protobuf", data)
    assert (value["form"], value["text"]) == ("protobuf", '{\n  "seconds": 5,\n  "nanos": 7\n}')


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("$.name = Zoë", ["Zoë"]),
        ("$.name != Zoë", ["Bo", "Ann"]),
        ("$.name ~ ^[AB]", ["Bo", "Ann"]),
        ("$.age", []),
        ("$", ["Bo", "Zoë", "Ann"]),  # and neither the record of an unknown schema nor the broken one
    ],
)
def test_a_search_by_path_reads_values_by_their_schema(registered: EmbeddedNode, path: str, names: list[str]) -> None:
    topic = "searched"
    if topic not in registered.topics():
        registered.create_topic(topic, partitions=1)
        with SchemaRegistryClient({"url": registered.schema_registry_url}) as registry:
            write = AvroSerializer(registry, AVRO)
            values = [
                write({"name": name}, SerializationContext(topic, MessageField.VALUE)) for name in ("Ann", "Zoë", "Bo")
            ]
        send(producer(registered.bootstrap), topic, [*values, b"\x00\x00\x00\xff\xffdata", (values[0] or b"")[:5]])
    client, found = ConsoleClient(registered).begin(), []
    for name, data in client.stream(f"/api/topics/{topic}/messages/search?path={quote(path)}"):
        if name == "matches":
            found += [json.loads(each["value"]["text"])["name"] for each in data["records"]]
        if name in ("ended", "failed"):
            assert (name, data["looked_at"]) == ("ended", 5)
            break
    assert found == names


def test_an_id_that_the_registry_does_not_have(registered: EmbeddedNode) -> None:
    value = shown(registered, "unknown", b"\x00\x00\x00\xff\xffdata")
    assert value["form"] in ("text", "hex")
    assert value["notes"] == ["It begins as a value of schema 65535, which is not known here."]
