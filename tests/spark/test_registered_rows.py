"""Topics whose schemas are in a registry: what confluent-kafka writes is read, and the other way round."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.spark.test_declared import run_on

from hutong.foundation.errors import UsageError
from hutong.pipelines.declared import Pipeline, Sink, Source, Transform
from hutong.testing import EmbeddedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGIN = "ann:a password"
PLACE = {"type": "record", "name": "Place", "namespace": "example", "fields": [{"name": "city", "type": "string"}]}
FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "int"}, {"name": "at", "type": "example.Place"}]
FIRST = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIELDS}
SECOND = {**FIRST, "fields": [{"name": "note", "type": ["null", "string"], "default": None}, *FIELDS]}


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    settings = {"schema_registry.listen": "127.0.0.1:0", "schema_registry.authentication": "basic"}
    with EmbeddedNode(settings=settings, users=dict([LOGIN.split(":")])) as node:
        yield node


@pytest.fixture
def registry(node: EmbeddedNode) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.schema_registry_url, "basic.auth.user.info": LOGIN}) as client:
        yield client


def options(node: EmbeddedNode, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": node.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "valueFormat": "avro",
        "schema.registry.url": str(node.schema_registry_url),
        "schema.registry.basic.auth.user.info": LOGIN,
    }


def fill(node: EmbeddedNode, registry: SchemaRegistryClient, topic: str, *more: bytes) -> None:
    """Two orders of the first schema, one of the second, then `more` as it is."""
    registry.register_schema("places", Schema(json.dumps(PLACE), "AVRO"))
    place, context = SchemaReference("example.Place", "places", 1), SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    orders = ((FIRST, {"id": 1}), (FIRST, {"id": 2}), (SECOND, {"id": 3, "note": "soon"}))
    for schema, order in orders:
        serialize = AvroSerializer(registry, Schema(json.dumps(schema), "AVRO", [place]))
        producer.produce(topic, serialize({**order, "at": {"city": "Ulm"}}, context))
    for value in more:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_records_of_several_versions_are_rows_of_the_latest(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    node.create_topic("orders", partitions=1)
    fill(node, registry, "orders")
    frame = spark.read.format("hutong").options(**options(node, "orders")).load()
    found = frame.orderBy("offset").selectExpr("value.note", "value.id", "value.at.city")
    expected = [(None, 1, "Ulm"), (None, 2, "Ulm"), ("soon", 3, "Ulm")]
    assert [tuple(row) for row in found.collect()] == expected
    wanted = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    narrow = spark.read.format("hutong").options(**options(node, "orders"), valueSchema=json.dumps(wanted)).load()
    assert [row.id for row in narrow.orderBy("offset").select("value.*").collect()] == [1, 2, 3]
    stream = spark.readStream.format("hutong").options(**options(node, "orders")).load().selectExpr("value.id")
    seen = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    seen.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert sorted(row.id for row in spark.table("seen").collect()) == [1, 2, 3]


def test_unknown_ids_and_broken_records(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient
) -> None:
    from hutong.pipelines import plain_errors

    node.create_topic("broken", partitions=1)
    fill(node, registry, "broken", b"\0\0\1\0\0\2", b"plain text", b"\0\0\0\0\2")
    given = options(node, "broken")
    sentence = r"offset 3 of broken-0 is not Avro .*: schema 65536 is not in the registry"
    with pytest.raises(UsageError, match=sentence), plain_errors():
        spark.read.format("hutong").options(**given).load().collect()
    lenient = spark.read.format("hutong").options(**given, mode="PERMISSIVE").load()
    assert [row.id for row in lenient.orderBy("offset").select("value.id").collect()] == [1, 2, 3, None, None, None]
    kept = spark.read.format("hutong").options(**given, onUndecodable="keep").load().where("undecodable is not null")
    reasons = [row.reason for row in kept.orderBy("offset").select("undecodable.reason").collect()]
    assert reasons[:2] == [
        "schema 65536 is not in the registry",
        "it does not begin with a zero byte and the number of a schema",
    ]


SALES = """select id, cast(null as string) note, date'2020-02-29' day, timestamp'2020-02-29T12:00:00.000001Z' at,
cast(1.5 as decimal(30,2)) price, array('a', null) tags, map('k', 7) counts, named_struct('x', cast(id as int)) place,
cast('b' as binary) raw, true ok, cast(2.5 as float) half from range(3)"""


def test_columns_are_written_with_the_id_of_their_schema(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient
) -> None:
    from hutong.pipelines import plain_errors

    node.create_topic("sales", partitions=1)
    target = {**options(node, "sales"), "topic": "sales"}
    frame = spark.sql(SALES).selectExpr("struct(*) value", "cast(id as string) key")
    frame.write.format("hutong").options(**target).mode("append").save()
    assert registry.get_versions("sales-value") == [1]
    context = SerializationContext("sales", MessageField.VALUE)
    deserialize = AvroDeserializer(registry)
    values = [deserialize(record.value, context) for record in node.records("sales")]
    assert sorted(value["id"] for value in values) == [0, 1, 2]
    first = min(values, key=lambda value: int(value["id"]))
    assert first["at"] == datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
    assert (first["day"], first["price"], first["note"]) == (date(2020, 2, 29), Decimal("1.50"), None)
    assert (first["tags"], first["counts"], first["place"]) == (["a", None], {"k": 7}, {"x": 0})
    assert (first["raw"], first["ok"], first["half"]) == (b"b", True, 2.5)
    found = spark.read.format("hutong").options(**options(node, "sales")).load().select("value.*").orderBy("id")
    assert found.collect() == spark.sql(SALES).orderBy("id").collect()
    wider = spark.sql(SALES).selectExpr("struct(*, 'new' as more) value")
    wider.write.format("hutong").options(**target).mode("append").save()
    assert registry.get_versions("sales-value") == [1, 2]
    other = spark.sql("select named_struct('id', 'text') value")
    with pytest.raises(UsageError, match="is incompatible with an earlier schema"), plain_errors():
        other.write.format("hutong").options(**target).mode("append").save()
    target["auto.register.schemas"] = "false"
    with pytest.raises(UsageError, match="the schema of column value is none of subject sales-value"), plain_errors():
        other.write.format("hutong").options(**target).mode("append").save()


def test_a_stream_copies_what_it_reads(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    node.create_topic("given", partitions=1)
    fill(node, registry, "given")
    source = spark.readStream.format("hutong").options(**options(node, "given")).load().select("value")
    target = {**options(node, "copied"), "topic": "copied", "checkpointLocation": str(tmp_path)}
    source.writeStream.format("hutong").options(**target).trigger(availableNow=True).start().awaitTermination()
    deserialize, context = AvroDeserializer(registry), SerializationContext("copied", MessageField.VALUE)
    found = [deserialize(record.value, context) for record in node.records("copied")]
    assert sorted((value["id"], value["note"], value["at"]["city"]) for value in found) == [
        (1, None, "Ulm"),
        (2, None, "Ulm"),
        (3, "soon", "Ulm"),
    ]


def test_a_declared_pipeline_reads_and_writes_with_the_registry(
    spark: "SparkSession", node: EmbeddedNode, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    node.create_topic("declared", partitions=1)
    fill(node, registry, "declared")
    named = {"schema.registry.url": str(node.schema_registry_url), "schema.registry.basic.auth.user.info": LOGIN}
    pipeline = Pipeline(
        name="places",
        bootstrap=node.bootstrap,
        trigger="batch",
        sources={"orders": Source(topic="declared", value_format="avro", options=named)},
        transform=Transform(sql="SELECT value.at.city, count(*) AS orders FROM orders GROUP BY value.at.city"),
        sinks={"out": Sink(topic="places", key="city", value_format="avro", options=named)},
        file=tmp_path / "places.toml",
    )
    run_on(spark, pipeline, tmp_path)
    context = SerializationContext("places", MessageField.VALUE)
    found = [AvroDeserializer(registry)(record.value, context) for record in node.records("places")]
    assert found == [{"city": "Ulm", "orders": 3}]


def test_what_the_registry_refuses(spark: "SparkSession", node: EmbeddedNode) -> None:
    from hutong.pipelines import plain_errors

    given = options(node, "nothing")
    with pytest.raises(UsageError, match="has no Avro schema of subject nothing-value"), plain_errors():
        spark.read.format("hutong").options(**given).load()
    given["schema.registry.basic.auth.user.info"] = "ann:wrong"
    with pytest.raises(UsageError, match=r"please; check schema\.registry\.basic\.auth"), plain_errors():
        spark.read.format("hutong").options(**given).load()
