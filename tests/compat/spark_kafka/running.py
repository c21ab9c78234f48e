"""The process of Spark jobs: one session for all of them, and a line of JSON for each."""

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from hutong.pipelines.engine.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = TypeVar("P", bound="BasePlace")


class BasePlace:
    """A session, a broker, and the prefix of a job's topics."""

    def __init__(self, spark: "SparkSession", bootstrap: str, prefix: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def topic(self, word: str, partitions: int = 2) -> str:
        """Make a topic. Returns its name."""
        name = f"{self.prefix}-{word}"
        kept = {"retention.ms": "-1"}  # the records are of years ago
        self.admin.create_topics([NewTopic(name, partitions, 1, config=kept)])[name].result(30)
        return name


def run_jobs(
    session_name: str, jobs: Mapping[str, Callable[[P], None]], make_place: Callable[["SparkSession", str, str], P]
) -> None:
    """Run the jobs that the command line names; print each name with the error it ended with."""
    bootstrap, jars, prefix, *names = sys.argv[1:]
    with spark_session(session_name, "local[2]", {"spark.jars": jars}, quick=True) as spark:
        for name in names:
            error = None
            try:
                jobs[name](make_place(spark, bootstrap, f"{prefix}-{name}"))
            except Exception:  # noqa: BLE001 - it is printed
                error = traceback.format_exc()
            print(json.dumps({"job": name, "error": error}), flush=True)
