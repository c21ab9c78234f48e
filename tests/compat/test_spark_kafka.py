"""Spark's own JVM connector for Kafka: batch and streaming, reading and writing. `make compat` runs it: it is slow."""

import json
import pathlib
import secrets
import subprocess
import sys
from importlib.util import find_spec
from typing import Final

import pytest
from tests.compat.report import cells
from tests.support.maven import jars_alone

ROOT: Final = pathlib.Path(__file__).parents[2]
JOBS, BOTH = "tests.compat.spark_kafka.jobs", "tests.compat.spark_kafka.both"
# The jars that the pyspark wheel lacks: its own poms name a repository that need not be reachable.
JARS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
RUN_S_MAX: Final = 400.0
FILLS: Final = cells("Spark", "4.2.0 (kafka-clients 3.9.2)")
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def jars() -> str:
    if not find_spec("pyspark"):
        pytest.skip("pyspark is not installed")
    return ",".join(str(jar) for jar in jars_alone("spark-kafka", *JARS))


@FILLS("headers", "nulls", "large-records", "produce-acks", "produce-idempotent", "produce-errors", "compression")
@FILLS("consume-range", "seek", "offsets-for-times", "out-of-range")
def test_batch(bootstrap: str, jars: str) -> None:
    _run(bootstrap, jars, "batch", "refusals", "offsets", "gone", "compression")


def test_streams_go_on_where_they_were(bootstrap: str, jars: str) -> None:
    _run(bootstrap, jars, "stream")


@FILLS("txn-commit", "txn-abort")
def test_committed_records(bootstrap: str, jars: str) -> None:
    _run(bootstrap, jars, "committed")


def test_our_source_reads_what_sparks_own_reads(bootstrap: str, jars: str) -> None:
    """The same rows, types, tasks, refusals and micro-batches; and checkpoints go from one to the other."""
    _run(bootstrap, jars, "rows", "offsets", "cuts", "gone", "committed", "streams", module=BOTH)


def _run(bootstrap: str, jars: str, *names: str, module: str = JOBS) -> None:
    words = [sys.executable, "-m", module, bootstrap, jars, f"spark-{secrets.token_hex(4)}", *names]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX, cwd=ROOT)
    results = {line["job"]: line["error"] for line in map(json.loads, done.stdout.splitlines())}
    assert results.keys() == set(names), done.stderr[-3000:]
    for name, error in results.items():
        assert error is None, f"{name}: {error}"
