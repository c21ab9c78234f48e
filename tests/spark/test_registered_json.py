"""Topics with JSON schemas in a registry: what confluent-kafka writes is read, and the other way round."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from hutong.foundation.errors import UsageError
from hutong.testing import EmbeddedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER: dict[str, Any] = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "at": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
    "required": ["id"],
    "additionalProperties": False,
}


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
        "valueFormat": "json",
        "schema.registry.url": str(node.schema_registry_url),
    }


def test_json_of_a_schema_is_rows(spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    from hutong.pipelines import plain_errors

    node.create_topic("orders", partitions=1)
    context, producer = (
        SerializationContext("orders", MessageField.VALUE),
        Producer({"bootstrap.servers": node.bootstrap}),
    )
    serialize = JSONSerializer(json.dumps(ORDER), registry)
    for order in ({"id": 1, "at": {"city": "Ulm"}}, {"id": 2, "note": "soon"}):
        producer.produce("orders", serialize(order, context))
    assert producer.flush(30) == 0
    frame = spark.read.format("hutong").options(**options(node, "orders")).load()
    found = frame.orderBy("offset").selectExpr("value.id", "value.note", "value.at.city")
    assert [tuple(row) for row in found.collect()] == [(1, None, "Ulm"), (2, "soon", None)]
    with pytest.raises(UsageError, match="has no JSON Schema schema of subject none-value"), plain_errors():
        spark.read.format("hutong").options(**options(node, "none")).load()


SALES = """select id, cast(null as string) note, date'2020-02-29' day, timestamp'2020-02-29T12:00:00.000001Z' at,
array('a', null) tags, map('k', 7L) counts, named_struct('x', id) place, cast('b' as binary) raw, true ok, 2.5d half
from range(3)"""


def test_columns_are_written_as_json_of_their_schema(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient
) -> None:
    node.create_topic("sales", partitions=1)
    target = {**options(node, "sales"), "topic": "sales"}
    spark.sql(SALES).selectExpr("struct(*) value").write.format("hutong").options(**target).mode("append").save()
    schema = registry.get_latest_version("sales-value").schema
    assert schema is not None
    assert schema.schema_type == "JSON"
    deserialize = JSONDeserializer(schema, schema_registry_client=registry)
    context = SerializationContext("sales", MessageField.VALUE)
    values = [deserialize(record.value, context) for record in node.records("sales")]
    assert sorted(value["id"] for value in values) == [0, 1, 2]
    assert (values[0]["at"], values[0]["tags"], values[0]["raw"]) == (
        "2020-02-29T12:00:00.000001Z",
        ["a", None],
        "Yg==",
    )
    found = spark.read.format("hutong").options(**options(node, "sales")).load().select("value.*").orderBy("id")
    assert found.collect() == spark.sql(SALES).orderBy("id").collect()
    wider = spark.sql(SALES).selectExpr("struct(*, 'new' as more) value")
    wider.write.format("hutong").options(**target).mode("append").save()
    assert registry.get_versions("sales-value") == [1, 2]
