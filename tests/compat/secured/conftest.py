"""The secured broker of this folder's tests, and each client's driver, made when it is first asked for."""

import itertools
import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from typing import Final

import pytest
from tests.compat.secured.clients import commands, confluent, of_aiokafka, of_kafka_python, programs
from tests.compat.secured.doors import Secured, started
from tests.compat.secured.jobs import Driver
from tests.support.golang import kafka_clients
from tests.support.kafka_tools import Tools

GetDriver = Callable[[str], Driver]
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with ExitStack() as stack:
        yield started(tmp_path_factory.mktemp("secured"), stack)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GetDriver]:
    """A function from a client's name to its driver. Skips the test where the client cannot be had."""
    with ExitStack() as stack:
        later = stack.enter_context
        folder = tmp_path_factory.mktemp("clients")
        makers: dict[str, Callable[[], Driver]] = {
            "confluent-kafka": lambda: confluent.attempt,
            "aiokafka": lambda: of_aiokafka.attempt,
            "kafka-python": lambda: of_kafka_python.attempt,
            "kafkajs": partial(programs.kafkajs, later),
            "franz-go": partial(programs.go, "franz-go", later),
            "sarama": partial(programs.go, "sarama", later),
            "Java 4.x": partial(programs.java, later),
            "kcat": _kcat,
            "Kafka's tools": lambda: commands.kafka_tools(later(Tools()), folder),
        }
        yield cache(lambda client: makers[client]())


@pytest.fixture(scope="session")
def go_clients() -> pathlib.Path:
    """Asked for by the tests that need the program, so that they come last: it may be being built."""
    return kafka_clients()


@pytest.fixture
def fresh() -> str:
    """A name for a topic and a group which Alice may use, and nobody else has."""
    return f"work-{next(_numbers)}"


def _kcat() -> Driver:
    if not commands.KCAT:
        pytest.skip("kcat is not installed")
    return commands.kcat
