"""A real access log archived to Parquet, compacted and replayed, against plain Python over the same lines."""

import gzip
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, read_partition

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import UsageError
from hutong.pipelines.archive.folder import ArchiveFolder
from hutong.pipelines.archive.snapshot import BatchOf
from hutong.pipelines.declared.declare.definition import AVAILABLE_NOW, BATCH, Pipeline
from hutong.pipelines.jobs import archive as job
from hutong.pipelines.jobs import compaction, replay
from hutong.pipelines.jobs.job import Job, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = Path(__file__).parents[2].parent / "shared" / "data" / "apache_logs.gz"
TIME = r"try_to_timestamp(regexp_extract(string(value), '\\[([^\\]]+)\\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z')"
MONTH = "%d/%b/%Y:%H:%M:%S %z"
Make = Callable[..., Work]


@pytest.fixture
def make(spark: "SparkSession", bootstrap: str, topic: str, tmp_path: Path) -> Make:
    """The source of `topic` that a job's `run` gets."""

    def work(of: Job, trigger: str = AVAILABLE_NOW, *, more: dict[str, str] | None = None, **parameters: str) -> Work:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
        reader = spark.readStream.format("hutong").options(**options, startingOffsets="earliest", **more or {})
        pipeline = Pipeline(name="test", sources={}, trigger=trigger, file=tmp_path / "test.toml")
        given = of.with_defaults({"path": "archive", **parameters})
        frames = {"records": reader.load()}
        return Work(spark, frames, given, pipeline, tmp_path / "checkpoint", threading.Event(), lambda _text: None)

    return work


@pytest.fixture
def archive(tmp_path: Path) -> ArchiveFolder:
    return job.open_archive(str(tmp_path / "archive"))


def lines() -> list[bytes]:
    if not LOG.exists():
        pytest.skip("../shared/data/apache_logs.gz is not there")
    return gzip.decompress(LOG.read_bytes()).splitlines()


def date_of(line: bytes) -> str:
    found = re.search(rb"\[([^\]]+)\]", line)
    assert found
    return datetime.strptime(found[1].decode(), MONTH).astimezone(UTC).date().isoformat()


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Keyed by the client's address, each with a header."""
    sender = producer(bootstrap, linger_ms=5)
    for number, value in enumerate(values):
        sender.produce(topic, value, key=value.split()[0], headers=[("n", b"%d" % number)])
        sender.poll(0)
    assert sender.flush(60) == 0


def dates_in(frame: "DataFrame") -> dict[str, int]:
    return {str(row["date"]): row["count"] for row in frame.groupBy("date").count().collect()}


def contents(bootstrap: str, topic: str, partition: int) -> list[tuple[Any, ...]]:
    return [(one.key(), one.value(), one.headers()) for one in read_partition(bootstrap, topic, partition)]


@pytest.mark.thorough
def test_an_access_log_archived_compacted_and_replayed(
    spark: "SparkSession", bootstrap: str, topic: str, make: Make, archive: ArchiveFolder
) -> None:
    log = lines()
    send(bootstrap, topic, log)
    told = job.run(make(job.JOB, event_time=TIME, compact_every="0", more={"maxOffsetsPerTrigger": "5000"}))
    assert told.startswith("10,000 records archived; ")
    path = str(archive.path)
    expected = Counter(map(date_of, log))
    assert dates_in(spark.read.parquet(path)) == expected == {
        "2015-05-17": 1632, "2015-05-18": 2893, "2015-05-19": 2896, "2015-05-20": 2579
    }  # fmt: skip
    before = spark.read.parquet(path)
    files_before = len(archive.latest().snapshot.files)

    told = compaction.run(make(compaction.JOB))
    assert told == f"{files_before} files became 4; 0 that no longer count were deleted"
    assert compaction.run(make(compaction.JOB)) == "0 files became 0; 0 that no longer count were deleted"
    after = spark.read.parquet(path)
    assert dates_in(before) == dates_in(after) == expected, "who read the files before may go on"
    assert before.select("value").exceptAll(after.select("value")).count() == 0
    assert compaction.run(make(compaction.JOB, grace_minutes="0")).endswith(
        f"{files_before} that no longer count were deleted"
    )
    assert dates_in(spark.read.parquet(path)) == expected

    create_topic(bootstrap, f"{topic}-again", partitions=3, records=0)
    again = replay.transform({"archive": after}, replay.JOB.with_defaults({}))
    target = {"kafka.bootstrap.servers": bootstrap, "topic": f"{topic}-again"}
    again.write.format("hutong").options(**target).mode("append").save()
    for partition in range(3):
        assert contents(bootstrap, f"{topic}-again", partition) == contents(bootstrap, topic, partition)
        sent, was = (read_partition(bootstrap, name, partition) for name in (f"{topic}-again", topic))
        assert [one.timestamp() for one in sent] == [one.timestamp() for one in was]
    assert "timestamp" not in replay.transform({"a": after}, replay.JOB.with_defaults({"timestamps": "now"})).columns


def test_late_records_join_the_date_they_are_of(
    spark: "SparkSession", bootstrap: str, topic: str, make: Make, archive: ArchiveFolder
) -> None:
    parameters = {"event_time": "string(value)", "compact_every": "1"}
    send(bootstrap, topic, [b"2015-05-18T00:00:00Z", b"2015-05-17T23:59:59.999999Z", b"1969-12-31T23:59:59Z"])
    job.run(make(job.JOB, **parameters))
    send(bootstrap, topic, [b"2015-05-17T10:00:00+11:00", b"no time", b"2015-05-17T00:00:00Z"])
    job.run(make(job.JOB, **parameters))
    dates = dates_in(spark.read.parquet(str(archive.path)))
    assert dates == {"2015-05-18": 1, "2015-05-17": 2, "2015-05-16": 1, "1969-12-31": 1, "None": 1}


def test_a_batch_that_is_run_again_counts_once(spark: "SparkSession", tmp_path: Path, archive: ArchiveFolder) -> None:
    rows = job.dated(spark.range(10).selectExpr("id", "timestamp'2015-05-17 12:00:00' AS timestamp"), "timestamp")
    assert job.add_rows(rows, archive, BatchOf("q", 7))
    assert not job.add_rows(rows, archive, BatchOf("q", 7))
    assert job.add_rows(rows, archive, BatchOf("q", 8))
    assert spark.read.parquet(str(archive.path)).count() == 20


def test_a_compaction_gives_way_to_another_one(spark: "SparkSession", archive: ArchiveFolder) -> None:
    rows = job.dated(spark.range(10).selectExpr("id", "timestamp'2015-05-17 12:00:00' AS timestamp"), "timestamp")
    for number in range(2):
        job.add_rows(rows.coalesce(1), archive, BatchOf("q", number))
    group = archive.latest().snapshot.files
    assert compaction.compact_group(spark, archive, SystemClock(), group) == 1
    assert compaction.compact_group(spark, archive, SystemClock(), group) == 0
    assert spark.read.parquet(str(archive.path)).count() == 20


def test_what_an_archive_cannot_be_is_told(make: Make, spark: "SparkSession", topic: str) -> None:
    with pytest.raises(UsageError, match='set trigger = "available now"'):
        job.run(make(job.JOB, BATCH))
    with pytest.raises(UsageError, match="needs the parameter path"):
        job.run(make(job.JOB, path=""))
    with pytest.raises(UsageError, match="must be a whole number from 1"):
        job.run(make(job.JOB, target_mib="0"))
    work = make(job.JOB)
    with pytest.raises(UsageError, match="has a column date"):
        job.run(replace(work, frames={"a": spark.sql("SELECT current_date() AS date")}))
    with pytest.raises(UsageError, match="reads one source, and there are 0"):
        job.run(replace(work, frames={}))
    with pytest.raises(UsageError, match="it must be 'kept' or 'by key'"):
        replay.transform(work.frames, replay.JOB.with_defaults({"partitions": "x"}))
    with pytest.raises(UsageError, match="it must be 'kept' or 'now'"):
        replay.transform(work.frames, replay.JOB.with_defaults({"timestamps": "then"}))
    with pytest.raises(UsageError, match="needs the column topic, and the source has value"):
        replay.transform({"a": spark.sql("SELECT 'x' AS value")}, replay.JOB.with_defaults({}))
