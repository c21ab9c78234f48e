"""The schema registry, asked by clients that this project did not write: confluent-kafka's serializers, and curl."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tests.compat.report import cells
from tests.support.versions import curl_version

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
VALUE = MessageField.VALUE
FILLS = cells("confluent-kafka's serializers", version("confluent-kafka"))
USER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "namespace": "example",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None}],
    }
)
RENAMED = USER.replace('"name": "age"', '"name": "years"')
STRICT = USER.replace(', "default": null', "").replace('"age"', '"height"')


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"schema_registry.listen": "127.0.0.1:0"}) as node:
        yield node


@pytest.fixture
def registry(node: EmbeddedNode) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.schema_registry_url}) as client:
        yield client


@FILLS("registry-avro")
def test_avro_goes_through_a_topic_and_comes_back(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    context = SerializationContext("users", VALUE)
    serialize, deserialize = AvroSerializer(registry, USER), AvroDeserializer(registry)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("users", serialize({"name": "ann", "age": 3}, context))
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["users"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    value = message.value()
    assert value is not None
    assert value[:1] == b"\0"
    assert deserialize(value, context) == {"name": "ann", "age": 3}


def test_a_reader_of_a_later_schema_fills_in_defaults(registry: SchemaRegistryClient) -> None:
    context = SerializationContext("evolving", VALUE)
    written = AvroSerializer(registry, USER)({"name": "ann", "age": 3}, context)
    reader = AvroDeserializer(registry, RENAMED)
    assert reader(written, context) == {"name": "ann", "years": None}


@FILLS("registry-refused")
def test_a_serializer_hears_that_its_schema_is_incompatible(registry: SchemaRegistryClient) -> None:
    context = SerializationContext("strict", VALUE)
    AvroSerializer(registry, USER)({"name": "ann", "age": 3}, context)
    with pytest.raises(SchemaRegistryError) as caught:
        AvroSerializer(registry, STRICT)({"name": "ann", "height": 3}, context)
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)


def test_subjects_by_record_names_and_normalized_schemas(registry: SchemaRegistryClient) -> None:
    settings: dict[str, Any] = {"subject.name.strategy": topic_record_subject_name_strategy, "normalize.schemas": True}
    serialize = AvroSerializer(registry, USER, conf=settings)
    serialize({"name": "ann", "age": 3}, SerializationContext("named", VALUE))
    assert "named-example.User" in registry.get_subjects()


@FILLS("registry-managed")
def test_what_the_client_manages(registry: SchemaRegistryClient) -> None:
    schema = Schema(USER, "AVRO")
    schema_id = registry.register_schema("managed", schema)
    assert registry.register_schema("managed", schema) == schema_id
    assert (
        registry.get_schema(schema_id).schema_str
        == Schema(json.dumps(json.loads(USER), separators=(",", ":")), "AVRO").schema_str
    )
    found = registry.lookup_schema("managed", schema)
    assert (found.schema_id, found.version, found.subject) == (schema_id, 1, "managed")
    assert registry.get_latest_version("managed").version == 1
    assert registry.get_version("managed", 1).schema_id == schema_id
    assert registry.get_versions("managed") == [1]
    assert registry.test_compatibility("managed", Schema(RENAMED, "AVRO"))
    assert not registry.test_compatibility("managed", Schema(STRICT, "AVRO"))
    for level in ConfigCompatibilityLevel:
        registry.set_config("managed", ServerConfig(compatibility=level))
        assert registry.get_config("managed").compatibility_level == level.value
    registry.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    assert registry.get_config().compatibility_level == "FULL"
    registry.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))
    assert registry.delete_version("managed", 1) == 1
    with pytest.raises(SchemaRegistryError) as caught:
        registry.get_versions("managed")
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)
    assert registry.delete_subject("managed", permanent=True) == [1]


@FILLS("registry-references")
def test_references(registry: SchemaRegistryClient) -> None:
    registry.register_schema("referred", Schema(USER, "AVRO"))
    order = {"type": "record", "name": "Order", "namespace": "example", "fields": [{"name": "by", "type": "User"}]}
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("example.User", "referred", 1)])
    context = SerializationContext("orders", VALUE)
    data = AvroSerializer(registry, schema)({"by": {"name": "ann", "age": None}}, context)
    assert AvroDeserializer(registry)(data, context) == {"by": {"name": "ann", "age": None}}


def test_the_topic_outlives_the_node_and_is_compacted(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    registry.register_schema("kept", Schema(USER, "AVRO"))
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "h", "auto.offset.reset": "earliest"})
    consumer.subscribe(["_schemas"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    key = message.key()
    assert key is not None
    assert json.loads(key)["keytype"] == "SCHEMA"
    node.stop()
    node.start()
    with SchemaRegistryClient({"url": node.schema_registry_url}) as client:
        assert client.get_latest_version("kept").version == 1


CURL = shutil.which("curl")


@cells("curl", curl_version)("registry-managed")
@pytest.mark.skipif(CURL is None, reason="no curl here")
def test_curl_by_the_documented_examples(node: EmbeddedNode) -> None:
    url = node.schema_registry_url

    def curl(*words: str) -> Any:
        done = subprocess.run([str(CURL), "-s", *words], capture_output=True, text=True, check=True, timeout=30)
        return json.loads(done.stdout)

    header = ("-H", "Content-Type: application/vnd.schemaregistry.v1+json")
    body = ("--data", '{"schema": "{\\"type\\": \\"string\\"}"}')
    made = curl("-X", "POST", *header, *body, f"{url}/subjects/Kafka-key/versions")
    assert curl("-X", "GET", f"{url}/schemas/ids/{made['id']}") == {"schema": '"string"'}
    assert "Kafka-key" in curl(f"{url}/subjects")
    assert curl(f"{url}/subjects/Kafka-key/versions/latest")["version"] == 1
    assert curl("-X", "POST", *header, *body, f"{url}/subjects/Kafka-key")["id"] == made["id"]
    latest = f"{url}/compatibility/subjects/Kafka-key/versions/latest"
    assert curl("-X", "POST", *header, *body, latest) == {"is_compatible": True}
    level = ("--data", '{"compatibility": "NONE"}')
    assert curl("-X", "PUT", *header, *level, f"{url}/config/Kafka-key") == {"compatibility": "NONE"}
    assert curl("-X", "DELETE", f"{url}/subjects/Kafka-key/versions/1") == 1
    assert curl("-X", "DELETE", f"{url}/subjects/Kafka-key?permanent=true") == [1]


@FILLS("registry-json")
def test_json_schemas(registry: SchemaRegistryClient) -> None:
    context = SerializationContext("json-users", VALUE)
    schema = json.dumps({"title": "User", "type": "object", "properties": {"name": {"type": "string"}}})
    data = JSONSerializer(schema, registry)({"name": "ann"}, context)
    assert data is not None
    assert JSONDeserializer(schema, schema_registry_client=registry)(data, context) == {"name": "ann"}
    assert registry.get_latest_version("json-users-value").schema.schema_type == "JSON"
    narrowed = json.dumps({"title": "User", "type": "object", "properties": {"name": {"type": "integer"}}})
    with pytest.raises(SchemaRegistryError) as caught:
        JSONSerializer(narrowed, registry)({"name": 3}, context)
    assert caught.value.http_status_code == 409


def message_classes() -> tuple[Any, Any]:
    """User and Order, as a compiler would make them: Order's file imports User's, and one of protobuf's own."""
    pool, kind = DescriptorPool(), FieldDescriptorProto
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    user = FileDescriptorProto(name="user.proto", package="example", syntax="proto3")
    user.message_type.add(name="User").field.add(name="name", number=1, type=kind.TYPE_STRING, label=1)
    order = FileDescriptorProto(name="order.proto", package="example", syntax="proto3")
    order.dependency.extend(["user.proto", "google/protobuf/timestamp.proto"])
    fields = order.message_type.add(name="Order").field
    fields.add(name="by", number=1, type=kind.TYPE_MESSAGE, type_name=".example.User", label=1)
    fields.add(name="at", number=2, type=kind.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=1)
    for file in (user, order):
        pool.AddSerializedFile(file.SerializeToString())
    found = (pool.FindMessageTypeByName(f"example.{name}") for name in ("User", "Order"))
    user_class, order_class = map(GetMessageClass, found)
    return user_class, order_class


@FILLS("registry-protobuf")
def test_protobuf_schemas_with_their_imports(registry: SchemaRegistryClient) -> None:
    user, order = message_classes()
    settings: dict[str, Any] = {"use.deprecated.format": False, "skip.known.types": True}
    context = SerializationContext("proto-orders", VALUE)
    message = order(by=user(name="ann"))
    message.at.seconds = 7
    data = ProtobufSerializer(order, registry, settings)(message, context)
    assert data is not None
    assert ProtobufDeserializer(order, {"use.deprecated.format": False}, registry)(data, context) == message
    found = registry.get_latest_version("proto-orders-value")
    assert (found.schema.schema_type, found.schema_id) == ("PROTOBUF", int.from_bytes(data[1:5], "big"))
    assert found.schema.references is not None
    assert [each.name for each in found.schema.references] == ["user.proto"]
    text = 'syntax = "proto3"; package example; message User { int32 name = 1; }'
    assert not registry.test_compatibility("user.proto", Schema(text, "PROTOBUF"))
    assert registry.test_compatibility("user.proto", Schema(text.replace("int32", "bytes"), "PROTOBUF"))


def test_the_fixture_of_the_plugin(schema_registry_url: str, hutong_node: EmbeddedNode) -> None:
    assert schema_registry_url == hutong_node.schema_registry_url
    with SchemaRegistryClient({"url": schema_registry_url}) as client:
        assert client.get_subjects() == []
