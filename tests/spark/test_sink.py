"""Writing in transactions: what committed readers see of batches that end well, fail, and come again."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import read_partition, values

from hutong.pipelines.client.cluster import BrokerAddress, ClusterSettings
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.group_offsets import fetch_offsets
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.sink.commit.driver import Committer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 3
MINUTE_MS = 60_000


@pytest.fixture
def transactions(bootstrap: str) -> TransactionClient:
    host, _, port = bootstrap.rpartition(":")
    return TransactionClient(open_cluster(ClusterSettings((BrokerAddress(host, int(port)),))))


def seen(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[bytes]:
    """The records that committed readers get."""
    return sorted(value for number in range(partitions) for value in values(read_partition(bootstrap, topic, number)))


def numbers(session: "SparkSession", count: int, tasks: int = 4) -> "DataFrame":
    return session.range(0, count, 1, tasks).selectExpr("cast(id as string) as key", "cast(id as string) as value")


def write(frame: "DataFrame", bootstrap: str, topic: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic} | options
    frame.write.format("hutong").options(**given).mode("append").save()


def test_a_batch_counts_when_all_of_it_is_written(
    spark: "SparkSession", bootstrap: str, topic: str, transactions: TransactionClient
) -> None:
    write(numbers(spark, 1000), bootstrap, topic)
    assert seen(bootstrap, topic) == sorted(b"%d" % number for number in range(1000))
    assert transactions.open_ids("hutong-batch-") == []


def test_a_batch_that_fails_leaves_nothing_to_see(spark: "SparkSession", bootstrap: str, topic: str) -> None:
    from pyspark.errors import PySparkException

    frame = numbers(spark, 1000)
    half = frame.selectExpr("key", "if(key = '999', raise_error('no'), value) as value")
    with pytest.raises(PySparkException):
        write(half, bootstrap, topic)
    assert seen(bootstrap, topic) == []


@pytest.fixture
def copy(spark: "SparkSession", bootstrap: str, topic: str, tmp_path: Path) -> "Callable[..., StreamingQuery]":
    """Copies what is in `topic` to `topic`-copy."""
    create_topic(bootstrap, f"{topic}-copy", partitions=PARTITIONS, records=0)

    def run(**options: str) -> "StreamingQuery":
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        given["kafka.group.id"] = f"{topic}-group"
        frame = spark.readStream.format("hutong").options(**given, maxOffsetsPerTrigger="200").load()
        target = {"kafka.bootstrap.servers": bootstrap, "topic": f"{topic}-copy"}
        writer = frame.select("value").writeStream.format("hutong").options(**target | options)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return run


def test_a_batch_that_comes_again_counts_once(
    copy: "Callable[..., StreamingQuery]",
    fill: Callable[..., None],
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    transactions: TransactionClient,
) -> None:
    expected = [b"%04d" % number for number in range(600)]
    fill(expected)
    query = copy()
    assert seen(bootstrap, f"{topic}-copy") == expected
    shown = fetch_offsets(transactions.coordinators, f"{topic}-group")
    assert sum(committed.offset for committed in shown.values()) >= 200, "all but the last batch: lag tools see it"
    recorded: Any = Committer(transactions).recorded(str(query.id))
    last = max(int(path.name) for path in (tmp_path / "commits").iterdir() if path.name.isdecimal())
    assert recorded.decision.batch_id == last
    for path in (tmp_path / "commits").glob(f"*{last}*"):  # as if the driver had died before it noted the last batch
        path.unlink()
    fill([b"more"])
    copy()
    assert seen(bootstrap, f"{topic}-copy") == [*expected, b"more"]
    assert transactions.open_ids(f"hutong-{query.id}") == []


def test_at_least_once_needs_no_transactions(
    copy: "Callable[..., StreamingQuery]",
    fill: Callable[..., None],
    bootstrap: str,
    topic: str,
    transactions: TransactionClient,
) -> None:
    fill([b"one", b"two"])
    query = copy(delivery="at-least-once")
    assert seen(bootstrap, f"{topic}-copy") == [b"one", b"two"]
    assert Committer(transactions).recorded(str(query.id)) is None


def test_a_version_counts_once(
    spark: "SparkSession", bootstrap: str, topic: str, transactions: TransactionClient
) -> None:
    from pyspark.errors import PySparkException

    from hutong.pipelines.sink.options import sink_options
    from hutong.pipelines.sink.versions import VersionWriter

    def write_version(version: int) -> None:
        write(numbers(spark, 30), bootstrap, topic, txnAppId="nightly", txnVersion=str(version))

    write_version(7)
    once = [b"%d" % number for number in range(30)]
    assert seen(bootstrap, topic) == sorted(once)
    write_version(7)
    assert seen(bootstrap, topic) == sorted(once), "it is left out"
    write_version(9)
    assert seen(bootstrap, topic) == sorted(once * 2)
    with pytest.raises(PySparkException, match="version 8 cannot be written after version 9"):
        write_version(8)
    create_topic(bootstrap, f"{topic}-other", partitions=PARTITIONS, records=0)
    write(numbers(spark, 30), bootstrap, f"{topic}-other", txnAppId="nightly", txnVersion="8")
    assert seen(bootstrap, f"{topic}-other") == sorted(once), "each topic by itself"
    assert transactions.open_ids("hutong-app-") == []
    told = io.StringIO()
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "txnAppId": "nightly", "txnVersion": "9"}
    VersionWriter(sink_options(given), ["value"], told)
    assert told.getvalue().startswith(f"hutong: nothing is written: version 9 of txnAppId 'nightly' of topic {topic} ")


def test_a_batch_that_comes_again_counts_once_in_for_each_batch(
    spark: "SparkSession", fill: Callable[..., None], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, f"{topic}-copy", partitions=PARTITIONS, records=0)
    expected = [b"%04d" % number for number in range(300)]
    fill(expected)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("hutong").options(**given, maxOffsetsPerTrigger="100").load()

    def run(dies_at: int) -> None:
        def write_batch(batch: "DataFrame", number: int) -> None:
            write(batch.select("value"), bootstrap, f"{topic}-copy", txnAppId="copy", txnVersion=str(number))
            if number == dies_at:
                raise RuntimeError("after the write, before Spark notes the batch")

        query = frame.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()

    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException):
        run(dies_at=1)
    run(dies_at=-1)
    assert seen(bootstrap, f"{topic}-copy") == expected


def test_rows_keep_their_times_unless_the_topic_or_a_null_says_otherwise(
    spark: "SparkSession", bootstrap: str, topic: str
) -> None:
    from pyspark.errors import PySparkException

    create_topic(bootstrap, f"{topic}-now", configs={"message.timestamp.type": "LogAppendTime"}, records=0)
    begun_ms = int(time.time() * 1000) - MINUTE_MS
    old = "SELECT string(id) AS value, timestamp_millis(1500000000000 + id) AS timestamp FROM range(3)"
    frame = spark.sql(f"{old} UNION ALL SELECT 'null', CAST(NULL AS timestamp)")
    for name in (topic, f"{topic}-now"):
        write(frame, bootstrap, name)
    load = spark.read.format("hutong").option("kafka.bootstrap.servers", bootstrap)
    times: dict[str, dict[str, int]] = {
        name: dict(
            load.option("subscribe", name).load().selectExpr("string(value)", "unix_millis(timestamp)").collect()
        )
        for name in (topic, f"{topic}-now")
    }
    assert times[topic].pop("null") >= begun_ms
    assert times[topic] == {str(number): 1_500_000_000_000 + number for number in range(3)}
    assert min(times[f"{topic}-now"].values()) >= begun_ms
    create_topic(bootstrap, f"{topic}-near", configs={"message.timestamp.before.max.ms": "60000"}, records=0)
    with pytest.raises(PySparkException, match=f"a time that topic {topic}-near refuses"):
        write(frame, bootstrap, f"{topic}-near")
    with pytest.raises(PySparkException, match="column timestamp is of type string: cast it to timestamp"):
        write(frame.selectExpr("value", "string(timestamp) AS timestamp"), bootstrap, topic)
