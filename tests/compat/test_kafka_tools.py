"""Kafka's own command-line tools do their job on a node and print what they print on Apache Kafka.

What they print on Kafka is kept in kafka_tools/NAME.txt, for one node; what they print about a cluster is put into the
same words. `make compat` runs the same commands on Apache Kafka too and
holds the kept text to it; with TEST_RECORD=1 it is written anew. HUTONG_TEST_KAFKA_PEER names the script that starts
Kafka (`SCRIPT start --port N`, prints `ready HOST:PORT`).
"""

import difflib
import itertools
import os
import pathlib
import secrets
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from bench.processes import ReadyProcess
from bench.targets import DEFAULT_KAFKA_SCRIPT, free_port
from tests.compat.kafka_tools.of_one_node import of_one_node, without_commands
from tests.compat.kafka_tools.pages import PAGES
from tests.compat.report import CLUSTER_NODES, NODE_DOWN, cells
from tests.support.kafka_tools import VERSION, Shell, Tools
from tests.support.maven import need_java

SCRIPT: Final = os.environ.get("HUTONG_TEST_KAFKA_PEER") or str(DEFAULT_KAFKA_SCRIPT)
FOLDER: Final = pathlib.Path(__file__).parent / "kafka_tools"
RECORDS: Final = bool(os.environ.get("TEST_RECORD"))
FETCH_S_MAX: Final = 240.0
FILLS: Final = cells("Kafka's tools", VERSION)
FEATURES: Final = {
    "topics": ("topics", "partitions"),
    "console": ("headers", "nulls", "compression", "consume-range", "seek", "offsets-for-times", "list-offsets"),
    "classic_groups": ("group-commit", "groups-described", "groups-deleted", "group-offsets"),
    "consumer_groups": ("group-848",),
    "configs": ("configs",),
    "quotas": ("client-quotas",),
    "load": ("produce-acks", "txn-commit"),
    "partitions": ("delete-records", "log-dirs"),
    "cluster": ("cluster",),
    "transactions": ("describe-transactions", "txn-commit", "txn-abort"),
    "share_groups": ("group-share",),
}
pytestmark = pytest.mark.timeout(300)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as tools:
        yield tools


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of Apache Kafka with its default settings."""
    if not os.access(SCRIPT, os.X_OK):
        pytest.skip("no Kafka peer: name its script in HUTONG_TEST_KAFKA_PEER")
    need_java("java", "mvn")
    log = tmp_path_factory.mktemp("kafka") / "log"
    process = ReadyProcess([SCRIPT, "start", "--port", str(free_port())], log_path=str(log))
    with process.start(FETCH_S_MAX):
        yield process.fields["0"]


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.__name__, marks=FILLS(*FEATURES[page.__name__])) for page in PAGES]
)
def test_tools_print_what_they_print_on_kafka(
    page: Callable[[Shell], None], tools: Tools, brokers: dict[int, str], tmp_path: pathlib.Path
) -> None:
    shell = _shell_on(brokers, tools, tmp_path)
    page(shell)
    _compare(page, shell)


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__)
def test_what_is_kept_is_what_kafka_prints(
    page: Callable[[Shell], None], tools: Tools, kafka: str, tmp_path: pathlib.Path
) -> None:
    shell = Shell(tools, kafka, _unique(), tmp_path)
    page(shell)
    if RECORDS:
        (FOLDER / f"{page.__name__}.txt").write_text(shell.transcript)
    _compare(page, shell)


def _shell_on(brokers: dict[int, str], tools: Tools, folder: pathlib.Path) -> Shell:
    broker, address = next(iter(brokers.items()))
    nodes = len(brokers) + bool(NODE_DOWN)
    return Shell(tools, address, _unique(), folder, broker=broker, nodes=nodes, down=nodes - len(brokers))


def _unique() -> str:
    return f"{secrets.token_hex(3)}{next(_numbers)}"


def _compare(page: Callable[[Shell], None], shell: Shell) -> None:
    kept, printed = (FOLDER / f"{page.__name__}.txt").read_text(), shell.transcript
    if CLUSTER_NODES > 1:
        kept, printed = of_one_node(without_commands(kept, shell.left_out)), of_one_node(printed)
    lines = difflib.unified_diff(kept.splitlines(), printed.splitlines(), "Kafka", "here", lineterm="")
    assert kept == printed, "\n".join(lines)
