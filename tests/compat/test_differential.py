"""The same script of requests to Apache Kafka and to a node: their answers are equal, but for what is meant to differ.

TEST_DIFFERENTIAL_REQUESTS says how many requests (thousands take minutes), TEST_DIFFERENTIAL_SEED which script.
"""

import os
import pathlib
import shutil
from collections.abc import Iterator

import pytest
from bench.processes import ReadyProcess
from bench.targets import DEFAULT_KAFKA_SCRIPT, free_port
from tests.compat.differential.runner import Comparison, explain
from tests.support.node import Node

from hutong.wire.kafka.registry import APIS

REQUESTS = int(os.environ.get("TEST_DIFFERENTIAL_REQUESTS", "400"))
SEED = int(os.environ.get("TEST_DIFFERENTIAL_SEED", "1"))
SCRIPT = os.environ.get("HUTONG_TEST_KAFKA_PEER") or str(DEFAULT_KAFKA_SCRIPT)
FETCH_S_MAX = 240.0
pytestmark = [pytest.mark.compat, pytest.mark.timeout(300 + REQUESTS)]


@pytest.fixture
def kafka(tmp_path: pathlib.Path) -> Iterator[str]:
    if not os.access(SCRIPT, os.X_OK):
        pytest.skip("no Kafka peer: name its script in HUTONG_TEST_KAFKA_PEER")
    if not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("java and mvn are not installed")
    command = [SCRIPT, "start", "--port", str(free_port()), "--set", "log.retention.ms=-1"]
    with ReadyProcess(command, log_path=str(tmp_path / "kafka.log")).start(FETCH_S_MAX) as process:
        yield process.fields["0"]


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    (tmp_path / "node").mkdir()
    with Node(tmp_path / "node", "group.initial_rebalance_delay_ms=0", "log.retention_ms=-1") as running:
        yield running


def test_both_give_the_same_answers(kafka: str, node: Node) -> None:
    comparison = Comparison(kafka, node.address)
    comparison.prepare()
    report = comparison.run(SEED, REQUESTS, frozenset(APIS))
    comparison.close()
    assert report.sent >= REQUESTS
    assert len(report.by_api) >= 30
    assert sum(len(codes) for codes in report.error_codes.values()) >= 60, "the script reaches too few error codes"
    assert not report.unexplained, explain(report)
