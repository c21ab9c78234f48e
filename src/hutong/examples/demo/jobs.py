"""The demo's jobs on one Spark session: the two of `hutong pipeline`, and metrics per window.

Strategy: the jobs leave their result files as they always do, and the answers are read back from those files, so that
the demo checks what a user would get.

Knows nothing of the node: jobs reach it by its address.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hutong.foundation.clock import SystemClock
from hutong.pipelines import runner
from hutong.pipelines.engine.progress import Show, live_line
from hutong.pipelines.engine.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_SCHEMA = "time_ms BIGINT, metric STRING, value DOUBLE"


class DemoJobs:
    """The jobs over the topics of one broker; results go below `output`."""

    def __init__(self, session: "SparkSession", bootstrap: str, output: Path, show: Show) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._output = output
        self._show = show

    def page_rank(self, topic: str, iterations: int) -> tuple[int, dict[str, float]]:
        """Edges read, and page → rank with the highest first."""
        source = runner.check_input(self._bootstrap, topic)
        output = self._output / "pagerank"
        done = runner.run_pagerank(self._session, source, output, iterations, self._show, SystemClock())
        return done.record_count, {row["page"]: float(row["rank"]) for row in _rows(output / runner.RANKS)}

    def access_log(self, topic: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows per hour and those per path."""
        source = runner.check_input(self._bootstrap, topic)
        output = self._output / "access-log"
        runner.run_access_log(self._session, source, output, True, self._show, SystemClock())
        return list(_rows(output / runner.PER_HOUR)), list(_rows(output / runner.TOP_PATHS))

    def windows(self, topic: str, window_ms: int) -> dict[tuple[int, str], tuple[int, float]]:
        """(window start in ms, metric) → (number of samples, their mean)."""
        from pyspark.sql import functions as f

        source = runner.check_input(self._bootstrap, topic)
        records = self._session.read.format("hutong").options(**source.options).load()
        samples = records.select(f.from_json(f.col("value").cast("string"), SAMPLE_SCHEMA).alias("s")).select("s.*")
        start = (f.col("time_ms") - f.col("time_ms") % window_ms).alias("start")
        rows = samples.groupBy(start, "metric").agg(f.count("*").alias("count"), f.avg("value").alias("mean")).collect()
        return {(row["start"], row["metric"]): (row["count"], row["mean"]) for row in rows}


@contextmanager
def spark_jobs(bootstrap: str, output: Path) -> Iterator[DemoJobs]:
    """Start Spark and stop it at the end. Raises UsageError when it does not start."""
    with live_line("Spark is starting") as show, spark_session("hutong demo", quick=True) as session:
        yield DemoJobs(session, bootstrap, output, show)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a result file; whole numbers become numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {name: int(text) if text.isdecimal() else text for name, text in row.items()}
