"""Writing in transactions: what committed readers see of batches that end well, fail, and come again."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import read_partition, values

from hutong.pipelines.client.cluster import Address, ClusterSettings
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.group_offsets import fetch_offsets
from hutong.pipelines.client.transactions import Transactions
from hutong.pipelines.sink.commit.driver import Committer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 3


@pytest.fixture
def transactions(bootstrap: str) -> Transactions:
    host, _, port = bootstrap.rpartition(":")
    return Transactions(open_cluster(ClusterSettings((Address(host, int(port)),))))


def seen(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[bytes]:
    """What committed readers see."""
    return sorted(value for number in range(partitions) for value in values(read_partition(bootstrap, topic, number)))


def numbers(session: "SparkSession", count: int, tasks: int = 4) -> "DataFrame":
    return session.range(0, count, 1, tasks).selectExpr("cast(id as string) as key", "cast(id as string) as value")


def write(frame: "DataFrame", bootstrap: str, topic: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic} | options
    frame.write.format("hutong").options(**given).mode("append").save()


def test_a_batch_counts_when_all_of_it_is_written(
    spark: "SparkSession", bootstrap: str, topic: str, transactions: Transactions
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
    transactions: Transactions,
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
    transactions: Transactions,
) -> None:
    fill([b"one", b"two"])
    query = copy(delivery="at-least-once")
    assert seen(bootstrap, f"{topic}-copy") == [b"one", b"two"]
    assert Committer(transactions).recorded(str(query.id)) is None
