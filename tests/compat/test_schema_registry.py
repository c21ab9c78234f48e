"""The schema registry, asked by clients that this project did not write: confluent-kafka's serializers, and curl."""

import json
import shutil
import subprocess
from collections.abc import Iterator
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
from confluent_kafka.serialization import MessageField, SerializationContext

from hutong.testing import EmbeddedNode

pytestmark = pytest.mark.compat
VALUE = MessageField.VALUE
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
