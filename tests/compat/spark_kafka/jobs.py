"""Jobs through Spark's own JVM connector for Kafka.

Run as `python -m tests.compat.spark_kafka.jobs BOOTSTRAP JARS PREFIX NAME...`.

Each job makes topics whose names begin with PREFIX and prints one line of JSON: its name and the error it ended with.
One session for all, since its start is slow; and a process of its own, since a session takes its jars when it starts.
"""

import json
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer, TopicPartition
from tests.compat.spark_kafka.running import BasePlace, run_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START_MS: Final = 1_700_000_000_000


class Place(BasePlace):
    """A session, a broker, and names for topics."""

    def fill(self, topic: str, first: int, end: int, **settings: Any) -> None:
        """Numbers as values, by turns in both partitions, one for each second."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **settings})
        for number in range(first, end):
            producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=START_MS + 1000 * number)
        assert producer.flush(30) == 0

    def read(self, topic: str, **options: str) -> "DataFrame":
        frame: DataFrame = self._options(self.spark.read, topic, options).load()
        return frame

    def stream(self, topic: str, **options: str) -> "DataFrame":
        given = {"startingOffsets": "earliest", **options}
        frame: DataFrame = self._options(self.spark.readStream, topic, given).load()
        return frame

    def _options(self, reader: Any, topic: str, options: dict[str, str]) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", self.bootstrap).option("subscribe", topic)
        return reader.options(**options)

    def numbers(self, topic: str, **options: str) -> list[int]:
        return sorted(int(row.value) for row in self.read(topic, **options).select("value").collect())


def batch(place: Place) -> None:
    """Rows with keys, headers and partitions are written, and read again as they were."""
    topic = place.topic("batch")
    rows: list[tuple[bytes | None, bytes | None, int]] = [(b"k%d" % one, b"v%d" % one, one % 2) for one in range(200)]
    rows += [(b"no value", None, 0), (None, b"no key", 1), (b"empty", b"", 0), (b"large", b"x" * 1_000_000, 1)]
    frame = place.spark.createDataFrame(rows, "key binary, value binary, partition int").selectExpr(
        "key", "value", "partition", "array(struct('from' as key, cast('spark' as binary) as value)) as headers"
    )
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).option("topic", topic)
    writer.option("includeHeaders", "true").save()
    seen = place.read(topic, includeHeaders="true").collect()
    told = {(_bytes(row.key), _bytes(row.value), row.partition) for row in seen}
    assert (len(seen), told) == (len(rows), set(rows)), len(seen)
    assert {(row.headers[0].key, bytes(row.headers[0].value)) for row in seen} == {("from", b"spark")}


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def refusals(place: Place) -> None:
    """A record that the broker refuses fails the query."""
    topic = place.topic("refusals")
    frame = place.spark.range(1).selectExpr("repeat('x', 2000000) as value")
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).option("topic", topic)
    try:
        writer.option("kafka.max.request.size", "3000000").save()
    except Exception as error:  # noqa: BLE001 - no class of pyspark's own
        assert "RecordTooLarge" in str(error)  # noqa: PT017
        return
    raise AssertionError("a record above the limit was taken")


def offsets(place: Place) -> None:
    """Ranges by offset and by time."""
    topic = place.topic("offsets")
    place.fill(topic, 0, 100)
    starts, ends = json.dumps({topic: {"0": 10, "1": -2}}), json.dumps({topic: {"0": 12, "1": 1}})
    assert place.numbers(topic, startingOffsets=starts, endingOffsets=ends) == [1, 20, 22]
    assert place.numbers(topic, startingTimestamp=str(START_MS + 95_500)) == [96, 97, 98, 99]
    assert place.read(topic, minPartitions="5").count() == 100


def gone(place: Place) -> None:
    """Offsets that are gone fail a query, unless it may lose data."""
    topic = place.topic("gone")
    place.fill(topic, 0, 40)
    place.admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(30)
    starts = json.dumps({topic: {"0": 5, "1": 0}})
    assert len(place.numbers(topic, startingOffsets=starts, failOnDataLoss="false")) == 30
    try:
        place.numbers(topic, startingOffsets=starts)
    except Exception as error:  # noqa: BLE001 - no class of pyspark's own
        assert "data may have been lost" in str(error)  # noqa: PT017
        return
    raise AssertionError("lost data went unseen")


def compression(place: Place) -> None:
    topic = place.topic("codecs")
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        frame = place.spark.range(100 * number, 100 * number + 100).selectExpr("cast(id as string) as value")
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", place.bootstrap).option("topic", topic)
        writer.option("kafka.compression.type", codec).save()
    assert place.numbers(topic) == list(range(500))


def stream(place: Place) -> None:
    """A query that is stopped goes on where it was: its sink holds each row once."""
    source, sink = place.topic("source"), place.topic("sink")
    with tempfile.TemporaryDirectory() as folder:
        for first in (0, 50):
            place.fill(source, first, first + 50)
            frame = place.stream(source, maxOffsetsPerTrigger="30").selectExpr("key", "value")
            writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", place.bootstrap)
            options = writer.option("topic", sink).option("checkpointLocation", folder)
            options.trigger(availableNow=True).start().awaitTermination(120)
    assert place.numbers(sink) == list(range(100))


def committed(place: Place) -> None:
    """Readers of committed records do not see what was aborted."""
    topic = place.topic("committed")
    producer = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    assert place.numbers(topic, **{"kafka.isolation.level": "read_committed"}) == [0, 2, 4]
    assert place.numbers(topic) == [0, 1, 2, 3, 4, 5]


JOBS: Final[dict[str, Callable[[Place], None]]] = {
    job.__name__: job for job in (batch, refusals, offsets, gone, compression, stream, committed)
}


if __name__ == "__main__":
    run_jobs("jobs", JOBS, Place)
