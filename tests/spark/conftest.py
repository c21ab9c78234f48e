"""A node and a Spark session shared by all tests here; a topic of its own for each."""

import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from bench.raw_client import create_topic
from confluent_kafka import KafkaError, Message
from tests.support.confluent import producer
from tests.support.node import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_FOLDER = pathlib.Path(__file__).parent
TIMEOUT_S = 900
"""The first job of a session alone may take a minute where many share the machine."""
FOREIGN_WARNINGS = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if SPARK_FOLDER in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(TIMEOUT_S))
        for line in FOREIGN_WARNINGS:  # what Spark's own code does is its makers' business
            item.add_marker(pytest.mark.filterwarnings(line))


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(node: Node) -> str:
    return node.address


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from hutong.pipelines.engine.session import spark_session

    with spark_session("tests", "local[2]", quick=True) as session:
        yield session


_numbers = itertools.count(1)


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """An empty topic of three partitions."""
    words = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    name = f"{words}-{next(_numbers)}"
    kept = {"retention.ms": "-1"}  # some tests write records of years ago
    create_topic(bootstrap, name, partitions=3, configs=kept, records=0)
    return name


@pytest.fixture
def fill(bootstrap: str, topic: str) -> Callable[..., None]:
    """Sends values to `topic`, round robin over its partitions unless told otherwise."""

    def send(values: Iterable[bytes], partition: int | None = None, **settings: Any) -> None:
        sender = producer(bootstrap, linger_ms=5, **settings)
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error:
                errors.append(error)

        for number, value in enumerate(values):
            where = number % 3 if partition is None else partition
            while True:
                try:
                    sender.produce(topic, value, partition=where, on_delivery=delivered)
                    break
                except BufferError:  # the client's queue is full: let it send
                    sender.poll(0.1)
            sender.poll(0)
        assert sender.flush(60) == 0
        assert errors == []

    return send


@pytest.fixture
def read(spark: "SparkSession", bootstrap: str, topic: str) -> "Callable[..., DataFrame]":
    """`topic` as a DataFrame, with options."""

    def load(**options: str) -> "DataFrame":
        given = {"kafka.bootstrap.servers": bootstrap} | options
        if not {"assign", "subscribePattern"} & given.keys():
            given.setdefault("subscribe", topic)
        return spark.read.format("hutong").options(**given).load()

    return load
