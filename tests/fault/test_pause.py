"""A node that stands still for longer than its clients wait: they give up, send again, and nothing is there twice.

SIGSTOP is what a stalled disk, a live migration or a swapping machine looks like from outside: requests were taken and
are answered late, to nobody; meanwhile the same batches come again. TEST_PAUSE_ROUNDS says how often (2 by default).
"""

import os
import pathlib
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from bench.raw_client import create_topic
from tests.support.load import CARELESS, RecordedLoad
from tests.support.log_checker import DUPLICATED, check
from tests.support.mixed_load import MixedLoad
from tests.support.node import Node

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]
ROUNDS = int(os.environ.get("TEST_PAUSE_ROUNDS", "2"))
PER_ROUND = 500
REQUEST_TIMEOUT_MS = 1000
PAUSE_S = 2.5  # more than twice what clients wait for an answer
IMPATIENT: Mapping[str, Any] = {"request.timeout.ms": REQUEST_TIMEOUT_MS, "socket.timeout.ms": REQUEST_TIMEOUT_MS}


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        yield running


def pause(node: Node) -> None:
    os.kill(node.pid, signal.SIGSTOP)
    try:
        threading.Event().wait(PAUSE_S)  # time itself is the fault
    finally:
        os.kill(node.pid, signal.SIGCONT)


def test_a_node_that_stands_still_loses_doubles_and_reorders_nothing(node: Node) -> None:
    with MixedLoad(node.address, **IMPATIENT) as load:
        for _ in range(ROUNDS):
            load.wait_for_acknowledged(PER_ROUND)
            pause(node)
        load.wait_for_acknowledged(PER_ROUND)
    assert load.anomalies(node.address) == []
    assert load.wrong_topics(node.address) == set()


def test_a_pause_is_felt_where_producers_are_not_idempotent(node: Node) -> None:
    """Shows that the test above can fail: the same pause doubles records of a producer that repeats unknowingly."""
    create_topic(node.address, "careless", partitions=1, records=0)
    with RecordedLoad(node.address, "careless", 1, **CARELESS, **IMPATIENT) as load:
        for _ in range(4):
            load.wait_for_acknowledged(PER_ROUND)
            pause(node)
        load.wait_for_acknowledged(PER_ROUND)
    final = {("careless", 0): MixedLoad.read(node.address, "careless", 0)}
    assert check(load.history, final_reads=final) == [], "it may repeat, and nothing else may happen"
    load.history.repeating.clear()
    assert DUPLICATED in {anomaly.kind for anomaly in check(load.history, final_reads=final)}
