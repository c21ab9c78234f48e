"""kafka-python's own integration tests, with TEST_LONG=1: none fails."""

import os
import pathlib

import pytest
from tests.compat.kafka_python_suite import NODE_SETTINGS, run_suite
from tests.support.node import Node


@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="takes minutes; set TEST_LONG=1")
@pytest.mark.timeout(900)
def test_none_fails(tmp_path: pathlib.Path) -> None:
    with Node(tmp_path, *NODE_SETTINGS) as node:
        outcome = run_suite(node.address, "--timeout=60")
    assert not outcome.failures
    assert outcome.passed > 30
