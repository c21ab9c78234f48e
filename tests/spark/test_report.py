"""Reports of what a real Spark did."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hutong.pipelines.engine.micro_batches import micro_batch
from hutong.pipelines.report.collect.gathering import run_of_log
from hutong.pipelines.report.collect.live import run_of_driver
from hutong.pipelines.report.render.page import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import sys
from hutong.pipelines.engine.session import spark_session
settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": sys.argv[1], "spark.driver.memory": "512m"}
settings["spark.eventLog.compression.codec"] = sys.argv[2]
with spark_session("mine", "local[2]", settings, quick=True) as session:
    pairs = session.sparkContext.parallelize(range(100), 2).map(lambda n: (n % 7, n)).groupByKey().cache()
    counts = pairs.mapValues(len).join(pairs.mapValues(sum))
    assert counts.count() == counts.count() == 7
    frame = session.range(1000).withColumnRenamed("id", "n")
    assert frame.groupBy(frame.n % 10).count().count() == 10
    query = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().groupBy("value").count()
    writer = query.writeStream.format("noop").outputMode("complete").queryName("numbers").trigger(once=True)
    writer.start().awaitTermination()
"""


def test_lag_is_what_a_batch_left(
    spark: "SparkSession", bootstrap: str, topic: str, fill: Callable[..., None], tmp_path: Path
) -> None:
    fill([b"x"] * 90)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    lines = spark.readStream.format("hutong").options(**options, maxOffsetsPerTrigger="30").load()
    writer = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).queryName("lagging")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    told = [micro_batch(progress) for progress in query.recentProgress]
    batches = {batch.batch_id: batch for batch in told if batch.row_count}
    assert [(batch.row_count, batch.lag_of_topic) for batch in batches.values()] == [
        *((30, {topic: 60}), (30, {topic: 30}), (30, {topic: 0})),
    ]
    assert all(batch.query == "lagging" and batch.duration_ms and batch.phases_ms for batch in batches.values())


def test_a_driver_at_work(spark: "SparkSession") -> None:
    spark.sparkContext.setJobDescription("counting for a report")
    try:
        assert spark.range(100).count() == 100
    finally:
        spark.sparkContext.setJobDescription("")
    run = run_of_driver(str(spark.sparkContext.uiWebUrl))
    assert (run.name, run.master) == ("tests", "local[2]")
    assert "counting for a report" in {job.name for job in run.jobs.values()}
    assert "local[2]" in page(run)


@pytest.mark.thorough
@pytest.mark.parametrize("packing", ["zstd", "lz4"])
def test_an_event_log_as_spark_writes_it(tmp_path: Path, packing: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path.as_uri(), packing], check=True, timeout=300)
    run = run_of_log(tmp_path)
    assert (run.name, run.notes, run.failures) == ("mine", [], {})
    assert run.spark_version
    (query,) = run.queries.values()
    assert query.name == "numbers"
    drawn = [run.stages_of(jobs) for jobs in run.works().values()]
    assert any(stage.waits_for for stages in drawn for stage in stages)
    assert "MicroBatchScan" in {name for stage in run.stages.values() for name in stage.operators}
    assert "numbers: batch 0, the last" in page(run)
