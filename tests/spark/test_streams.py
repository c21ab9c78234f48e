"""Streams: limits, checkpoints, and from topic to topic."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import read_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Fill = Callable[..., None]


@pytest.fixture
def stream(spark: "SparkSession", bootstrap: str, topic: str) -> "Callable[..., DataFrame]":
    def load(**options: str) -> "DataFrame":
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("hutong").options(**given | options).load()

    return load


def run(frame: "DataFrame", bootstrap: str, target: str, checkpoint: Path) -> "StreamingQuery":
    """Writes what is there to a topic, and returns the query once it has ended."""
    writer = frame.writeStream.format("hutong").options(**{"kafka.bootstrap.servers": bootstrap, "topic": target})
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def written(bootstrap: str, target: str) -> list[tuple[Any, Any, Any]]:
    messages = read_partition(bootstrap, target)
    return sorted(((message.key(), message.value(), message.headers()) for message in messages), key=repr)


def test_a_stream_goes_from_topic_to_topic_in_limited_batches(
    stream: "Callable[..., DataFrame]", fill: Fill, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, f"{topic}-copy", records=0)
    fill([b"%04d" % number for number in range(1000)])
    frame = stream(maxOffsetsPerTrigger="300")
    query = run(frame.select("key", "value"), bootstrap, f"{topic}-copy", tmp_path)
    counts = [progress["numInputRows"] for progress in query.recentProgress]
    assert sum(counts) == 1000
    assert max(counts) <= 300 + 3
    assert [value for _, value, _ in written(bootstrap, f"{topic}-copy")] == [
        b"%04d" % number for number in range(1000)
    ]


def test_a_restarted_stream_goes_on_where_it_ended(
    stream: "Callable[..., DataFrame]", fill: Fill, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, f"{topic}-copy", records=0)
    for part in (b"first", b"second"):
        fill([part] * 50)
        run(stream().select("value"), bootstrap, f"{topic}-copy", tmp_path)
    values = [value for _, value, _ in written(bootstrap, f"{topic}-copy")]
    assert sorted(values) == [b"first"] * 50 + [b"second"] * 50


def test_headers_and_keys_are_passed_on(
    stream: "Callable[..., DataFrame]", spark: "SparkSession", bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, f"{topic}-copy", records=0)
    rows = [("k", b"v", [("h", b"1"), ("n", None)]), (None, b"w", None)]
    schema = "key string, value binary, headers array<struct<key: string, value: binary>>"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    target = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    frame.write.format("hutong").options(**target).mode("append").save()
    copied = stream(includeHeaders="true").select("key", "value", "headers")
    run(copied, bootstrap, f"{topic}-copy", tmp_path)
    assert written(bootstrap, f"{topic}-copy") == [
        (None, b"w", None),
        (b"k", b"v", [("h", b"1"), ("n", None)]),
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_written(spark: "SparkSession", bootstrap: str, topic: str, codec: str) -> None:
    target = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.compression.type": codec}
    frame = spark.range(5000).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    frame.write.format("hutong").options(**target).mode("append").save()
    messages = [message for partition in range(3) for message in read_partition(bootstrap, topic, partition)]
    assert sorted(int(message.value() or b"") for message in messages) == list(range(5000))
    assert all(message.key() == message.value() for message in messages)


def test_a_column_missing_for_the_sink_is_told(spark: "SparkSession", bootstrap: str, topic: str) -> None:
    from pyspark.errors import PySparkException

    from hutong.pipelines.engine.failures import translate

    target = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    with pytest.raises(PySparkException) as raised:
        spark.range(1).write.format("hutong").options(**target).mode("append").save()
    assert str(translate(raised.value)) == "a column named value is required to write to a topic; there are id"
