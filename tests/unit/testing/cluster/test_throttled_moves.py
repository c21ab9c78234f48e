"""`hutong cluster move --throttle` on four nodes: a new replica gets no more than that, until it is taken away."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.waiting import until

from hutong.cli import main
from hutong.testing import EmbeddedCluster

RECORDS, RECORD_BYTES = 4, 900_000
# No node is to be taken for dead here.
PATIENT = {"cluster.session_timeout_ms": "20000", "cluster.lag_ms_max": "20000"}
PART_BYTES_MAX = 2_000_000  # of what a leader reads at a time


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(4, topics=["orders"], settings=PATIENT) as running:
        running.wait_until_in_sync(timeout=60)
        for _ in range(RECORDS):
            running.produce("orders", "x" * RECORD_BYTES)  # a batch each
        # What is in the leader's cache goes to a new replica at once.
        for node in running.nodes:
            running.restart(node.number)
        running.wait_until_in_sync(timeout=60)
        yield running


def test_a_move_goes_on_at_its_throttle_until_it_is_asked_for_without(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> Any:
        capsys.readouterr()
        assert main.run(["cluster", *words, "--json", "-b", cluster.bootstrap]) == 0
        return json.loads(capsys.readouterr().out)

    def group() -> dict[str, Any]:
        """The group of the topic: no other one has so much."""
        found: list[dict[str, Any]] = run("status", "--groups")["groups"]
        return max(found, key=lambda each: each["held_bytes"] or 0)

    until(lambda: (group()["held_bytes"] or 0) > RECORDS * RECORD_BYTES, what="a leader that tells what it holds")
    name, replicas = group()["group"], group()["replicas"]
    [new] = {1, 2, 3, 4} - set(replicas)
    target = [*replicas[:2], new]
    move = ("move", name, "--to", ",".join(map(str, target)))
    assert run(*move, "--throttle", "1", "--no-wait") == {"groups": {name: target}}
    until(lambda: group()["copied_bytes"], what="the first part on the new replica")
    cluster.produce("orders", "while it moves")
    slowed = group()
    assert (slowed["moving_to"], slowed["throttle"]) == (target, 1)
    assert slowed["copied_bytes"] < PART_BYTES_MAX < slowed["stream_bytes"]
    run(*move)
    assert group()["replicas"] == target
    assert [len(record.text) for record in cluster.records("orders")][:RECORDS] == [RECORD_BYTES] * RECORDS
