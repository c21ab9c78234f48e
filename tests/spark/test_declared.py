"""Declared pipelines on Spark, through a node: each record comes out once, mistakes are told with their place."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.confluent import read_partition
from tests.support.waiting import until

from hutong.cli.node.pipeline_folders import FolderPipelines
from hutong.foundation.clock import SystemClock
from hutong.pipelines.client.cluster import ClusterSettings, TopicPartition, parse_bootstrap
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.coordinators import Coordinators
from hutong.pipelines.client.group_offsets import fetch_offsets
from hutong.pipelines.declared import Pipeline, Sink, Source, Transform, Watermark
from hutong.pipelines.declared.declare.problems import Problems
from hutong.pipelines.declared.parts.analysing import analyse
from hutong.pipelines.declared.parts.building import output_of
from hutong.pipelines.declared.parts.explaining import explain
from hutong.pipelines.declared.run.figures import figures
from hutong.pipelines.declared.run.groups import GroupOffsets
from hutong.pipelines.declared.run.progress_log import ProgressLog
from hutong.pipelines.declared.run.run_folder import PipelineFolder
from hutong.pipelines.declared.run.running import RunContext, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fill = Callable[..., None]
HUTONG = [sys.executable, "-c", "from hutong.cli.main import main; main()"]
DEADLINE_S, BETWEEN_S = 300.0, 0.1
COPY = "SELECT key, concat(value, '!') AS value FROM records"


def copying(bootstrap: str, topic: str, trigger: str = "available now") -> Pipeline:
    return Pipeline(
        name="copy",
        bootstrap=bootstrap,
        trigger=trigger,
        group=f"group-of-{topic}",
        sources={"records": Source(topic=topic, value_format="string")},
        transform=Transform(sql=COPY),
        sinks={"out": Sink(topic=f"{topic}-copy")},
    )


def run_on(spark: "SparkSession", pipeline: Pipeline, folder: Path, stop: threading.Event | None = None) -> ProgressLog:
    state = PipelineFolder(folder / pipeline.name)
    groups = GroupOffsets(pipeline)
    run_folder = state.new_run(f"{len(state.runs()):04}")
    log = ProgressLog(run_folder, groups.commit_progress)
    stop = stop or threading.Event()
    run(spark, pipeline, RunContext(state, log, stop, lambda text: None, SystemClock(), grace_s=60))
    groups.close()
    return log


def values_of(bootstrap: str, topic: str) -> list[bytes]:
    return sorted(message.value() or b"" for message in read_partition(bootstrap, topic))


def committed(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    cluster = open_cluster(ClusterSettings(parse_bootstrap(bootstrap)))
    try:
        return {where: found.offset for where, found in fetch_offsets(Coordinators(cluster), group).items()}
    finally:
        cluster.close()


def test_what_goes_in_comes_out_once_over_several_runs(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    pipeline = copying(bootstrap, topic)
    fill([b"%d" % number for number in range(30)])
    assert run_on(spark, pipeline, tmp_path).row_count == 30
    fill([b"%d" % number for number in range(30, 33)])
    log = run_on(spark, pipeline, tmp_path)
    assert log.row_count == 3
    assert values_of(bootstrap, f"{topic}-copy") == sorted(b"%d!" % number for number in range(33))
    first, second = PipelineFolder(tmp_path / "copy").runs()
    (told,) = figures(first.last_progress()[:1])
    assert (told.query, told.batch, told.lag) == ("out", 0, {topic: 0})
    assert second.last_progress()[0]["batchId"] == 1
    assert committed(bootstrap, f"group-of-{topic}") == {TopicPartition(topic, index): 11 for index in range(3)}
    rows, is_cut = FolderPipelines(tmp_path).batches([(topic, 0, 9), (topic, 1, 10), (topic, 2, 11)])
    read = {row["batch_id"]: [(each["partition"], each["offset"]) for each in row["read"]] for row in rows}
    assert (read, is_cut) == ({0: [(0, 9)], 1: [(1, 10)]}, False)
    assert all(each["is_certain"] for row in rows for each in row["read"])


def test_an_endless_pipeline_ends_between_two_batches(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill([b"%d" % number for number in range(9)])
    stop = threading.Event()
    pipeline = copying(bootstrap, topic, trigger="1 second")
    folder = PipelineFolder(tmp_path / "copy")

    def stop_after_a_batch() -> None:
        try:
            until(
                lambda: any(batch.last_progress() for batch in folder.runs()),
                deadline_s=DEADLINE_S,
                between_s=BETWEEN_S,
                what="a batch",
            )
        finally:
            stop.set()

    stopping = threading.Thread(target=stop_after_a_batch)
    stopping.start()
    run_on(spark, pipeline, tmp_path, stop)
    stopping.join()
    assert values_of(bootstrap, f"{topic}-copy") == sorted(b"%d!" % number for number in range(9))
    checkpoint = folder.checkpoint / "out"
    planned, done = (
        {entry.name for entry in (checkpoint / name).iterdir() if entry.name.isdecimal()}
        for name in ("offsets", "commits")
    )
    assert planned == done


def test_several_queries_and_sinks_of_python_and_json(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    fill([json.dumps({"user": user, "bytes": size}).encode() for user, size in (("a", 1), ("b", 2), ("a", 4))])
    (tmp_path / "mine.py").write_text(
        "from pyspark.sql import functions as f\n"
        "BONUS = 10\n"
        "def more(size): return size + BONUS\n"
        "def transform(frames, parameters):\n"
        "    rows = frames['records'].select('value.*')\n"
        "    bigger = f.udf(more, 'bigint')('bytes')\n"
        "    sums = rows.groupBy('user').agg(f.sum('bytes').alias('bytes'))\n"
        "    return {'all': rows.withColumn('bytes', bigger), 'sums': sums.where(f'bytes > {parameters[\"least\"]}')}\n"
    )
    pipeline = Pipeline(
        name="sums",
        bootstrap=bootstrap,
        trigger="batch",
        sources={"records": Source(topic=topic, value_format="json", value_schema="user STRING, bytes BIGINT")},
        transform=Transform(function="mine.py:transform", parameters={"least": "3"}),
        sinks={
            "files": Sink(kind="parquet", path="files", frame="all", partition_by=("user",)),
            "topic": Sink(frame="sums", topic=f"{topic}-sums", key="user", value_format="json"),
        },
        file=tmp_path / "sums.toml",
    )
    run_on(spark, pipeline, tmp_path)
    rows = {(row["user"], row["bytes"]) for row in spark.read.parquet(str(tmp_path / "files")).collect()}
    assert rows == {("a", 11), ("a", 14), ("b", 12)}
    (message,) = read_partition(bootstrap, f"{topic}-sums")
    assert (message.key(), json.loads(message.value() or b"")) == (b"a", {"user": "a", "bytes": 5})


@pytest.mark.parametrize(
    ("changes", "where", "told"),
    [
        ({"transform": Transform(sql="SELECT valu FROM records")}, "transform.sql", "`valu` cannot be resolved"),
        ({"transform": Transform(sql="SELEC value FROM records")}, "transform.sql", "(line 1, column 1)"),
        ({"transform": Transform(sql="SELECT value FROM record")}, "transform.sql", "`record` cannot be found"),
        ({"transform": Transform(sql="SELECT key FROM records")}, "sinks.out", "a topic needs a column value"),
        ({"sinks": {"out": Sink(topic="u", key="user")}}, "sinks.out.key", "there is no column user"),
        ({"sinks": {"out": Sink(topic="u", frame="x")}}, "sinks.out.from", "there is no output x"),
        (
            {"transform": Transform(sql="SELECT value, count(*) AS n FROM records GROUP BY value")},
            "sinks.out",
            "without watermark",
        ),
        (
            {"sources": {"records": Source(topic="t", watermark=Watermark("time", "1 minute"))}},
            "sources.records",
            "`time` cannot be resolved",
        ),
        ({"transform": Transform(function=lambda frames, parameters: 3)}, "transform.function", "not int"),
    ],
)
def test_what_spark_would_refuse_is_told_with_its_place(
    spark: "SparkSession", changes: dict[str, object], where: str, told: str
) -> None:
    from dataclasses import replace

    pipeline = replace(copying("127.0.0.1:1", "t"), **changes)  # type: ignore[arg-type]
    problems = Problems()
    analyse(spark, pipeline, problems)
    assert [problem.where for problem in problems.found] == [where], problems.found
    assert told in problems.found[0].what
    assert "\n" not in problems.found[0].what


def test_explaining_computes_a_sample_and_writes_nothing(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Fill
) -> None:
    from dataclasses import replace

    fill([b"a", b"b", b"a"])
    query = "SELECT value, count(*) AS n FROM records GROUP BY value"
    pipeline = replace(copying(bootstrap, topic), transform=Transform(sql=query))
    explained = explain(spark, pipeline)
    for part in ("Schema of records", "Physical plan of out", "HashAggregate", "Lineage of out", "Stages of out"):
        assert part in explained.text
    assert any(stage.waits_for for stage in explained.stages)
    cluster = open_cluster(ClusterSettings(parse_bootstrap(bootstrap)))
    assert f"{topic}-copy" not in cluster.topics()
    cluster.close()


@pytest.mark.thorough
def test_the_command_outlives_a_killed_driver_and_stops_after_a_batch(
    bootstrap: str, topic: str, fill: Fill, tmp_path: Path
) -> None:
    (tmp_path / "copy.toml").write_text(
        f'[pipeline]\nname = "copy"\nbootstrap = "{bootstrap}"\ntrigger = "1 second"\n'
        f'[sources.records]\ntopic = "{topic}"\nvalue_format = "string"\n[transform]\nsql = "{COPY}"\n'
        f'[sinks.out]\ntopic = "{topic}-copy"\n'
    )
    fill([b"%d" % number for number in range(9)])
    folder = PipelineFolder(tmp_path / ".hutong" / "pipelines" / "copy")

    def hutong(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [*HUTONG, "pipeline", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    def reached(count: int) -> bool:
        with suppress(subprocess.TimeoutExpired):
            running.wait(BETWEEN_S)
        assert running.returncode is None, running.communicate()
        return sum(committed(bootstrap, "hutong-pipeline-copy").values()) == count

    command = [*HUTONG, "pipeline", "run", "--master", "local[1]"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: reached(9), deadline_s=DEADLINE_S, what="the first batch")
        last = folder.last_record()
        assert last is not None
        os.kill(last[1].pid, signal.SIGKILL)
        fill([b"%d" % number for number in range(9, 15)])
        until(lambda: reached(15), deadline_s=DEADLINE_S, what="the batch after the kill")
        (row,) = [json.loads(line) for line in hutong("status", "--json").stdout.splitlines()]
        assert (row["name"], row["state"], row["attempt"], row["lag"]) == ("copy", "running", 2, {topic: 0})
        assert hutong("run").returncode == 75
        assert hutong("stop").stderr == "pipeline copy has stopped\n"
        _, told = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0
    assert "the driver was killed by signal 9; starting again in 1 s" in told
    assert values_of(bootstrap, f"{topic}-copy") == sorted(b"%d!" % number for number in range(15))


def test_a_column_timestamp_is_the_time_of_records_but_for_json(spark: "SparkSession") -> None:
    frame = spark.sql("SELECT 'k' AS key, 'v' AS value, timestamp'2020-01-02 03:04:05' AS timestamp, 1 AS more")
    columns = output_of("out", Sink(topic="t"), {"result": frame})
    assert set(columns.columns) == {"key", "value", "timestamp"}
    document = output_of("out", Sink(topic="t", value_format="json"), {"result": frame})
    assert set(document.columns) == {"key", "value"}
    ((text,),) = document.select("value").collect()
    assert json.loads(text).keys() == {"value", "timestamp", "more"}
