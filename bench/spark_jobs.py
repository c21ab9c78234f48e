"""The jobs that are timed, in one local session: the same lines for every data source.

Strategy: one session for all contenders, so that all meet the same state of the Java machine; what a job read is
counted where the job itself can tell. Knows nothing of turns, brokers or who is compared.
"""

import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench.figures import cpu_seconds
from bench.spark_topics import KEY_COUNT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT: Final = pathlib.Path(__file__).resolve().parents[1]
Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contender:
    """A data source under its name in the tables."""

    name: str
    format: str
    options: Options = field(default_factory=dict)
    write_options: Options = field(default_factory=dict)
    only_writes: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """A filled topic, or for the ceiling one like it."""

    bootstrap: str
    topic: str
    rows: int
    size: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job: its time, and the processor time of this process with Java and the Python workers."""

    seconds: float
    cpu_seconds: float


@contextmanager
def local_session(jars: str | None, memory: str, settings: Sequence[str] = ()) -> Iterator["SparkSession"]:
    """`local[2]` with Spark's defaults otherwise; `settings` are KEY=VALUE."""
    from pyspark.sql import SparkSession

    from bench.spark_ceiling import CeilingSource

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    } | dict(setting.split("=", 1) for setting in settings)
    if jars:
        given["spark.jars"] = jars
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for key, value in given.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(CeilingSource)
    try:
        yield session
    finally:
        session.stop()


class Jobs:
    """The timed jobs. Each method raises RuntimeError when a job did not do what it was to do."""

    def __init__(self, spark: "SparkSession", scratch: pathlib.Path, batch_bytes: int) -> None:
        self._spark = spark
        self._scratch = scratch
        self._batch_bytes = batch_bytes

    def timed(self, job: Callable[[], Any]) -> Cost:
        cpu, begun = cpu_seconds(os.getpid()), time.perf_counter()
        job()
        return Cost(time.perf_counter() - begun, cpu_seconds(os.getpid()) - cpu)

    def read(self, contender: Contender, given: Input) -> None:
        """Every row and column."""
        _noop(self._frame(contender, given))

    def count(self, contender: Contender, given: Input) -> None:
        _check(contender, given, self._frame(contender, given).count())

    def group(self, contender: Contender, given: Input) -> None:
        _noop(self._frame(contender, given).groupBy("key").count())

    def stream(self, contender: Contender, given: Input) -> None:
        """The same as `read` as a stream with trigger availableNow, from its start to its end."""
        folder = tempfile.mkdtemp(dir=self._scratch)
        frame = self._spark.readStream.format(contender.format).options(**self._options(contender, given)).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        _check(contender, given, sum(progress["numInputRows"] for progress in query.recentProgress))
        shutil.rmtree(folder, ignore_errors=True)

    def plan(self, contender: Contender, given: Input) -> None:
        """From the options to the tasks of a read, none of which runs."""
        java: Any = self._frame(contender, given)._jdf
        tasks = java.queryExecution().toRdd().getNumPartitions()
        if tasks != given.partitions:
            raise RuntimeError(f"{contender.name} planned {tasks} tasks for {given.partitions} partitions")

    def rows(self, given: Input) -> None:
        """The rows that `write` writes, handed to nobody."""
        _noop(self._made(given))

    def write(self, contender: Contender, given: Input) -> None:
        frame = self._made(given)
        if contender.format == "ceiling":
            frame.write.format("ceiling").mode("append").save()
            return
        options = {"kafka.bootstrap.servers": given.bootstrap, "topic": given.topic, **contender.write_options}
        frame.write.format(contender.format).options(**options).mode("append").save()

    def _frame(self, contender: Contender, given: Input) -> "DataFrame":
        return self._spark.read.format(contender.format).options(**self._options(contender, given)).load()

    def _options(self, contender: Contender, given: Input) -> dict[str, str]:
        if contender.format == "ceiling":
            shape = {"rows": given.rows, "size": given.size, "partitions": given.partitions}
            return {name: str(value) for name, value in {**shape, "batchBytes": self._batch_bytes}.items()}
        where = {"kafka.bootstrap.servers": given.bootstrap, "subscribe": given.topic, "startingOffsets": "earliest"}
        return {**where, **contender.options}

    def _made(self, given: Input) -> "DataFrame":
        from pyspark.sql import functions

        number = functions.col("id").cast("string")
        key = functions.lpad((functions.col("id") % KEY_COUNT).cast("string"), 8, "k")
        value = functions.concat(functions.lpad(number, 10, "0"), functions.lit("v" * (given.size - 10)))
        rows = self._spark.range(0, given.rows, 1, 2)
        return rows.select(key.cast("binary").alias("key"), value.cast("binary").alias("value"))


def _noop(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _check(contender: Contender, given: Input, rows: int) -> None:
    if rows != given.rows:
        raise RuntimeError(f"{contender.name} read {rows} rows of {given.topic}, which holds {given.rows}")
