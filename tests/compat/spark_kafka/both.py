"""The same reads through Spark's own Kafka source and through ours.

Run as `python -m tests.compat.spark_kafka.both BOOTSTRAP JARS PREFIX NAME...`.

Each job makes topics whose names begin with PREFIX and prints one line of JSON: its name and the error it ended with.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer, TopicPartition
from tests.compat.spark_kafka.running import BasePlace, run_jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START_MS: Final = 1_700_000_000_000
FORMATS: Final = ("kafka", "hutong")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Place(BasePlace):
    """A session, a broker, and names for topics."""

    def fill(self, topic: str, first: int, end: int, **settings: Any) -> None:
        """Numbers as values, two thirds of them in partition 0, one for each second."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **settings})
        for number in range(first, end):
            key = None if number % 5 == 0 else b"k%d" % number
            headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % number), ("h", None)] if number % 2 else []
            where = 1 if number % 3 == 2 else 0
            value = None if number % 7 == 6 else b"%d" % number
            producer.produce(topic, value, key, where, timestamp=START_MS + 1000 * number, headers=headers)
        assert producer.flush(30) == 0

    def load(self, source: str, options: Mapping[str, str]) -> "DataFrame":
        reader = self.spark.read.format(source).option("kafka.bootstrap.servers", self.bootstrap)
        return reader.options(**options).load()

    def same(self, options: Mapping[str, str]) -> int:
        """Asserts that both give equal rows and columns; how many rows."""
        frames = [self.load(source, options) for source in FORMATS]
        assert frames[0].dtypes == frames[1].dtypes, (options, frames[0].dtypes, frames[1].dtypes)
        rows = [sorted(map(repr, frame.collect())) for frame in frames]
        differing = [pair for pair in zip(*rows, strict=False) if pair[0] != pair[1]]
        assert rows[0] == rows[1], (options, len(rows[0]), len(rows[1]), differing[:2])
        return len(rows[0])

    def same_tasks(self, options: Mapping[str, str]) -> None:
        """Asserts that both cut the ranges into as many tasks; only where no partition is empty."""
        tasks = [self.load(source, options).rdd.getNumPartitions() for source in FORMATS]
        assert tasks[0] == tasks[1], (options, tasks)

    def both_refuse(self, options: Mapping[str, str]) -> None:
        for source in FORMATS:
            try:
                self.load(source, options).collect()
            except Exception:  # noqa: BLE001 - no class of pyspark's own
                continue
            raise AssertionError(f"{source} took {dict(options)}")


def rows(place: Place) -> None:
    topic = place.topic("rows")
    for number, codec in enumerate(CODECS):
        place.fill(topic, 100 * number, 100 * number + 100, **{"compression.type": codec})
    assert place.same({"subscribe": topic}) == 500
    assert place.same({"subscribe": topic, "includeHeaders": "true"}) == 500


def offsets(place: Place) -> None:
    topic, other = place.topic("offsets"), place.topic("offsets-other", 3)
    place.fill(topic, 0, 90)
    place.fill(other, 0, 30)
    both = {"subscribe": f"{topic},{other}"}
    assert place.same(both) == 120
    assert place.same({"subscribePattern": f"{topic}.*"}) == 120
    assert place.same({"assign": json.dumps({topic: [1], other: [0]})}) == 50
    starts, ends = json.dumps({topic: {"0": 10, "1": -2}}), json.dumps({topic: {"0": 12, "1": -1}})
    one = {"subscribe": topic}
    assert place.same({**one, "startingOffsets": starts, "endingOffsets": ends}) == 32
    assert place.same({**one, "startingTimestamp": str(START_MS + 60_500)}) == 29
    assert place.same({**one, "endingTimestamp": str(START_MS + 60_500)}) == 61
    by_partition = json.dumps({topic: {"0": START_MS + 80_000, "1": START_MS + 85_500}})
    assert place.same({**one, "startingOffsetsByTimestamp": by_partition}) == 8
    late = {**one, "startingTimestamp": str(START_MS + 10**9)}
    assert place.same({**late, "startingOffsetsByTimestampStrategy": "latest"}) == 0
    backwards = {"startingTimestamp": str(START_MS + 50_000), "endingTimestamp": str(START_MS + 1)}
    for wrong in (
        late,
        {**one, **backwards},
        {**one, "startingOffsets": json.dumps({topic: {"0": 30, "1": 0}}), "endingOffsets": ends},
        {**one, "startingOffsets": "latest"},
        {**one, "endingOffsets": "earliest"},
        {**one, "startingOffsets": json.dumps({topic: {"0": 1}})},
        {**one, "assign": json.dumps({topic: [0]})},
        {**one, "minPartitions": "0"},
        {**one, "kafka.auto.offset.reset": "earliest"},
        {"subscribe": f"{topic}-absent"},
        {},
    ):
        place.both_refuse(wrong)


def cuts(place: Place) -> None:
    topic = place.topic("cuts")
    place.fill(topic, 0, 100)
    for options in ({"minPartitions": "1"}, {"minPartitions": "7"}, {"minPartitions": "50"}):
        place.same_tasks({"subscribe": topic, **options})
        assert place.same({"subscribe": topic, **options}) == 100
    # Spark's own source takes `maxRecordsPerPartition` only where it knows the offsets beforehand, and then falls short
    # of `minPartitions` where one piece of a partition is too small to be cut again.
    starts, ends = json.dumps({topic: {"0": 0, "1": 0}}), json.dumps({topic: {"0": 67, "1": 33}})
    for options in (
        {"maxRecordsPerPartition": "9"},
        {"maxRecordsPerPartition": "5", "minPartitions": "3"},
    ):
        place.same_tasks({"subscribe": topic, "startingOffsets": starts, "endingOffsets": ends, **options})


def gone(place: Place) -> None:
    topic = place.topic("gone")
    place.fill(topic, 0, 60)
    place.admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(30)
    assert place.same({"subscribe": topic}) == 50
    starts = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 5, "1": 0}})}
    assert place.same({**starts, "failOnDataLoss": "false"}) == 50
    place.both_refuse(starts)


def committed(place: Place) -> None:
    topic = place.topic("committed")
    producer = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.flush(30)
        end = producer.abort_transaction if number % 3 else producer.commit_transaction
        end(30)
    assert place.same({"subscribe": topic, "kafka.isolation.level": "read_committed"}) == 2
    assert place.same({"subscribe": topic}) == 6


def streams(place: Place) -> None:
    """Both take the same records in each micro-batch, and each goes on from the other's checkpoint."""
    topic = place.topic("streams")
    place.fill(topic, 0, 60)
    batches = {source: _stream(place, [source], topic) for source in FORMATS}
    assert batches["kafka"] == batches["hutong"], batches
    place.fill(topic, 60, 120)
    for order in (FORMATS, FORMATS[::-1]):
        seen = _stream(place, order, topic)
        assert sum(count for _, count in seen) == 120, (order, seen)


def _stream(place: Place, sources: tuple[str, ...] | list[str], topic: str) -> list[tuple[str, int]]:
    """The end and the content of each micro-batch. Each source except the last stops after half of the topic."""
    found: list[tuple[str, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, source in enumerate(sources):
            reader = place.spark.readStream.format(source).option("kafka.bootstrap.servers", place.bootstrap)
            reader = reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="25")
            writer = reader.load().writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination(120)
            found += [
                (json.dumps(json.loads(one["sources"][0]["endOffset"]), sort_keys=True), one["numInputRows"])
                for one in query.recentProgress
                if one["numInputRows"]
            ]
            if number < len(sources) - 1:
                _forget_last(Path(folder))
                found.pop()
    return found


def _forget_last(folder: Path) -> None:
    """The checkpoint as if its last micro-batch had never been planned."""
    for name in ("commits", "offsets"):
        last = max(
            (path for path in (folder / name).iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


JOBS: Final[dict[str, Callable[[Place], None]]] = {
    job.__name__: job for job in (rows, offsets, cuts, gone, committed, streams)
}


if __name__ == "__main__":
    run_jobs("both", JOBS, Place)
