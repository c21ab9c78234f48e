"""Topics of Protobuf messages: what confluent-kafka writes is read, and the other way round; and without a registry."""

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from hutong.foundation.errors import UsageError
from hutong.registry.formats.protobuf import ProtobufFormat
from hutong.testing import EmbeddedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Order { int64 id = 1; optional string note = 2; Place at = 3; map<string, int32> counts = 4;
  google.protobuf.Timestamp time = 5; message Place { string city = 1; } }"""


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings={"schema_registry.listen": "127.0.0.1:0"}) as node:
        yield node


@pytest.fixture
def registry(node: EmbeddedNode) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.schema_registry_url}) as client:
        yield client


def options(node: EmbeddedNode, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": node.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "valueFormat": "protobuf",
        "schema.registry.url": str(node.schema_registry_url),
    }


def kind_of(text: str, name: str) -> Any:
    return GetMessageClass(ProtobufFormat().parse(text, ()).descriptor.pool.FindMessageTypeByName(name))


def produce(node: EmbeddedNode, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def orders(kind: Any) -> tuple[Any, Any]:
    first, second = kind(id=1, note="", counts={"a": 7}), kind(id=2)
    first.at.city = "Ulm"
    first.time.seconds = 5
    return first, second


def test_messages_are_rows(spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    from hutong.pipelines import plain_errors

    node.create_topic("orders", partitions=1)
    context = SerializationContext("orders", MessageField.VALUE)
    settings = {"use.deprecated.format": False}
    kind = kind_of(FILE, "shop.Order")
    serialize = ProtobufSerializer(kind, registry, settings)
    produce(node, "orders", *[serialize(order, context) for order in orders(kind)])
    given = options(node, "orders") | {"valueMessage": "Order"}
    frame = spark.read.format("hutong").options(**given).load().orderBy("offset")
    words = "value.id", "value.note", "value.at.city", "value.counts", "unix_seconds(value.time)"
    found = [tuple(row) for row in frame.selectExpr(*words).collect()]
    assert found == [(1, "", "Ulm", {"a": 7}, 5), (2, None, None, {}, None)]
    with (
        pytest.raises(UsageError, match=r"it is a message shop\.Order, where the column has shop\.Other"),
        plain_errors(),
    ):
        spark.read.format("hutong").options(**options(node, "orders")).load().collect()


def test_plain_messages_are_rows_by_their_descriptor(spark: "SparkSession", node: EmbeddedNode) -> None:
    node.create_topic("plain", partitions=1)
    produce(node, "plain", *[order.SerializeToString() for order in orders(kind_of(FILE, "shop.Order"))])
    file = descriptor_pb2.FileDescriptorProto()
    ProtobufFormat().parse(FILE, ()).descriptor.CopyToProto(file)
    descriptors = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    given = options(node, "plain") | {"valueMessage": "shop.Order", "valueSchema": descriptors}
    del given["schema.registry.url"]
    frame = spark.read.format("hutong").options(**given).load().orderBy("offset")
    assert [row.id for row in frame.select("value.id").collect()] == [1, 2]


SALES = """select id, cast(null as string) note, timestamp'2020-02-29T12:00:00.000001Z' at, array('a', '') tags,
map('k', 7) counts, named_struct('x', cast(id as int)) place, cast('b' as binary) raw, true ok, cast(2.5 as float) half
from range(3)"""


def test_columns_are_written_as_messages_of_their_schema(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient
) -> None:
    from hutong.pipelines import plain_errors

    node.create_topic("sales", partitions=1)
    target = {**options(node, "sales"), "topic": "sales"}
    spark.sql(SALES).selectExpr("struct(*) value").write.format("hutong").options(**target).mode("append").save()
    schema = registry.get_latest_version("sales-value").schema
    assert schema is not None
    kind = kind_of(str(schema.schema_str), "TopLevelRecord")
    deserialize = ProtobufDeserializer(kind, {"use.deprecated.format": False}, registry)
    context = SerializationContext("sales", MessageField.VALUE)
    values = [deserialize(record.value, context) for record in node.records("sales")]
    assert sorted(value.id for value in values) == [0, 1, 2]
    assert (list(values[0].tags), dict(values[0].counts), values[0].HasField("note")) == (["a", ""], {"k": 7}, False)
    found = spark.read.format("hutong").options(**options(node, "sales")).load().select("value.*").orderBy("id")
    assert found.collect() == spark.sql(SALES).orderBy("id").collect()
    wider = spark.sql(SALES).selectExpr("struct(*, 'new' as more) value")
    wider.write.format("hutong").options(**target).mode("append").save()
    assert registry.get_versions("sales-value") == [1, 2]
    dated = spark.sql("select named_struct('day', date'2020-02-29') value")
    with pytest.raises(UsageError, match="Protobuf has no DATE: cast it"), plain_errors():
        dated.write.format("hutong").options(**target).mode("append").save()
