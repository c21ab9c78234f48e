"""Jobs on a standalone cluster and on Spark Connect, both started from the wheel, beside the JVM connector.

`make compat` runs it: each of Spark's servers takes seconds to start.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, Final

import pytest
from bench.raw_client import create_topic
from confluent_kafka import KafkaError, Producer, TopicPartition
from tests.compat.spark_cluster.processes import QUICK_JAVA, ROOT, StandaloneCluster, environment, of_wheel
from tests.compat.test_spark_kafka import JARS
from tests.support.confluent import consumer
from tests.support.maven import jars_alone
from tests.support.waiting import until

HERE: Final = pathlib.Path(__file__).parent / "spark_cluster"
RUN_S_MAX: Final = 500.0
RECORDS: Final = 300
SETTINGS: Final = {
    "spark.executor.memory": "600m",
    "spark.driver.memory": "600m",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
}
SMALL: Final = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
LOOPBACK: Final = ("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false")
CATALOGUE: Final = ("--conf", "spark.sql.catalogImplementation=hive")
"""With the catalogue in memory, a second run stumbles over the tables of the first."""
CONNECT_NEEDS: Final = ("grpc", "grpc_status", "zstandard")
PIPELINES_NEED: Final = (*CONNECT_NEEDS, "yaml")
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]
if not find_spec("pyspark"):
    pytest.skip("pyspark is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with ExitStack() as stack:
        yield StandaloneCluster(tmp_path_factory.mktemp("spark"), stack)


@pytest.fixture(scope="module")
def connect_url(cluster: StandaloneCluster) -> str:
    need(*CONNECT_NEEDS)
    return cluster.connect_server()


@pytest.fixture
def filled(bootstrap: str, request: pytest.FixtureRequest) -> tuple[str, list[list[Any]]]:
    """A topic of two partitions and the rows that are in it."""
    topic = f"cluster-{re.sub(r'[^a-z]+', '-', request.node.name)}-{os.getpid()}"
    create_topic(bootstrap, topic, partitions=2, records=0)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%03d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    return topic, [[f"{number:03}", number % 2, number // 2] for number in range(RECORDS)]


def need(*modules: str) -> None:
    missing = [module for module in modules if not find_spec(module)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def printed(words: list[str], folder: pathlib.Path, **more: str) -> str:
    """The last line of what a program prints. It runs in `folder`."""
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX, env=environment(**more), cwd=folder
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout.strip().rpartition("\n")[2]


def submitted(cluster: StandaloneCluster, folder: pathlib.Path, *words: str, **more: str) -> dict[str, Any]:
    command = [of_wheel("spark-submit"), "--master", cluster.url, *SMALL, *LOOPBACK, *words]
    told: dict[str, Any] = json.loads(printed(command, folder, **more))
    return told


def test_a_zip_is_all_that_a_cluster_needs(
    cluster: StandaloneCluster, bootstrap: str, filled: tuple[str, list[list[Any]]], tmp_path: pathlib.Path
) -> None:
    topic, rows = filled
    packed = tmp_path / "hutong.zip"
    printed([sys.executable, "-m", "hutong.pipelines.packaging", str(packed)], tmp_path)
    program = str(HERE / "submitted.py")
    told = submitted(cluster, tmp_path, "--py-files", str(packed), program, bootstrap, topic, "hutong", PYTHONPATH="")
    assert told["rows"] == rows
    assert told["places"] == ["./hutong.zip/hutong/__init__.py"]


def test_the_connector_of_the_jvm_reads_and_writes_the_same(
    cluster: StandaloneCluster, bootstrap: str, filled: tuple[str, list[list[Any]]], tmp_path: pathlib.Path
) -> None:
    topic, rows = filled
    jars = ",".join(str(jar) for jar in jars_alone("spark-kafka", *JARS))
    told = submitted(cluster, tmp_path, "--jars", jars, str(HERE / "submitted.py"), bootstrap, topic, "kafka")
    assert told["rows"] == rows


@pytest.mark.parametrize("place", ["cluster", "connect"])
def test_a_declared_pipeline_runs_there(
    place: str,
    request: pytest.FixtureRequest,
    bootstrap: str,
    filled: tuple[str, list[list[Any]]],
    tmp_path: pathlib.Path,
) -> None:
    topic, rows = filled
    master = request.getfixturevalue("connect_url") if place == "connect" else request.getfixturevalue("cluster").url
    file = tmp_path / "counts.toml"
    file.write_text(PIPELINE.format(bootstrap=bootstrap, topic=topic))
    words = [sys.executable, "-m", "hutong", "pipeline", "run", str(file), "--master", master, "--json"]
    told = json.loads(printed([*words, *(SMALL if place == "cluster" else ())], tmp_path))
    assert (told["state"], told["error"]) == ("finished", None)
    assert values_of(bootstrap, f"{topic}-even") == [row[0] for row in rows if int(row[0]) % 2 == 0]


def test_a_declared_pipeline_is_submitted_with_a_zip(
    cluster: StandaloneCluster, bootstrap: str, filled: tuple[str, list[list[Any]]], tmp_path: pathlib.Path
) -> None:
    topic, rows = filled
    packed, file = tmp_path / "hutong.zip", tmp_path / "counts.toml"
    printed([sys.executable, "-m", "hutong.pipelines.packaging", str(packed)], tmp_path)
    file.write_text(PIPELINE.format(bootstrap=bootstrap, topic=topic))
    program = str(ROOT / "docs" / "examples" / "run_pipeline.py")
    words = [of_wheel("spark-submit"), "--master", cluster.url, *SMALL, *LOOPBACK, "--py-files", str(packed), program]
    for _ in range(2):  # the second run finds nothing new
        printed([*words, str(file)], tmp_path, PYTHONPATH="")
        assert values_of(bootstrap, f"{topic}-even") == [row[0] for row in rows if int(row[0]) % 2 == 0]


def test_spark_connect_reads_and_streams(
    connect_url: str, bootstrap: str, filled: tuple[str, list[list[Any]]], tmp_path: pathlib.Path
) -> None:
    topic, rows = filled
    words = [sys.executable, str(HERE / "connected.py"), connect_url, bootstrap, topic, str(tmp_path / "checkpoint")]
    told = json.loads(printed(words, tmp_path, JAVA_HOME="/not/there"))
    assert told == {"rows": rows, "copied": len(rows)}


def test_a_spark_declarative_pipeline_reads_and_writes_topics(
    bootstrap: str, filled: tuple[str, list[list[Any]]], tmp_path: pathlib.Path
) -> None:
    need(*PIPELINES_NEED)
    topic, rows = filled
    shutil.copytree(ROOT / "docs" / "examples" / "spark-pipeline", tmp_path / "readings")
    spec = tmp_path / "readings" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/hutong", str(tmp_path)))
    words = [of_wheel("spark-pipelines"), "run", "--spec", str(spec), *CATALOGUE, *LOOPBACK]
    given = {"READINGS_BOOTSTRAP": bootstrap, "READINGS_TOPIC": topic}
    for _ in range(2):  # the second run finds the tables of the first, and nothing new
        printed(words, tmp_path, **given)
        assert values_of(bootstrap, f"{topic}-high") == [row[0] for row in rows if int(row[0]) >= 100]


def values_of(bootstrap: str, topic: str) -> list[str]:
    """The records that a committed reader gets, sorted."""
    reader = consumer(bootstrap, f"{topic}-reader", enable_partition_eof=True, auto_offset_reset="earliest")
    partitions = reader.list_topics(topic, 30).topics[topic].partitions
    reader.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    values: list[str] = []
    ended: set[int | None] = set()

    def read() -> bool:
        message = reader.poll(1)
        error = message.error() if message is not None else None
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition() if message is not None else None)
        elif message is not None:
            values.append((message.value() or b"").decode())
        return len(ended) == len(partitions)

    until(read, what=f"the end of {topic}")
    reader.close()
    return sorted(values)


PIPELINE: Final = """
[pipeline]
name = "counts"
bootstrap = "{bootstrap}"
trigger = "available now"

[sources.numbers]
topic = "{topic}"
starting = "earliest"
value_format = "string"

[transform]
sql = "SELECT value FROM numbers WHERE CAST(value AS INT) % 2 = 0"

[sinks.even]
topic = "{topic}-even"
"""
