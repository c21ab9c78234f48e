"""`hutong cluster status --groups` on three nodes: the metadata, disks, and what replicas lack."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.waiting import until

from hutong.cli import main
from hutong.testing import EmbeddedCluster

GROUPS = {"metadata", "offsets", "transactions", "share", "days", "days-1", "days-2"}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics=["orders"]) as running:
        running.wait_until_in_sync()
        yield running


def status(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], node: int) -> dict[str, Any]:
    capsys.readouterr()
    assert main.run(["cluster", "status", "--groups", "--json", "-b", cluster.node(node).bootstrap]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def by_group(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {group["group"]: group for group in found["groups"]}


def test_any_node_tells_of_all_groups_and_disks(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.produce("orders", "x" * 1000)
    for node in (1, 2, 3):
        # A group that has just got another leader has nobody yet who knows what its followers lack.
        until(lambda node=node: all(map(is_told, status(cluster, capsys, node)["groups"])), what="all lags")  # type: ignore[misc]
        found = status(cluster, capsys, node)
        groups = by_group(found)
        assert groups.keys() >= GROUPS
        assert groups["metadata"]["stream_bytes"] > 0
        assert all(group["copied_bytes"] is None for group in groups.values())
        assert [each["free_bytes"] > 0 for each in found["nodes"]] == [True] * 3
        assert all(each["disk_bytes"] >= each["free_bytes"] for each in found["nodes"])


def is_told(group: dict[str, Any]) -> bool:
    """Return True if the leader of the group has said what each follower lacks."""
    return set(map(int, group["lag_bytes"])) == {1, 2, 3} - {group["leader"]}


def test_a_follower_out_of_reach_lacks_what_was_written_meanwhile(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = cluster.leader_of("orders")
    away = next(node.number for node in cluster.nodes if node.number not in (leader, cluster.controller()))
    cluster.cut(away)
    cluster.produce("orders", *("x" * 1000 for _ in range(50)))

    def lacks() -> bool:
        groups = by_group(status(cluster, capsys, leader)).values()
        return any(group["lag_bytes"].get(str(away), 0) > 50_000 for group in groups)

    until(lacks, what="a lag of the node that is cut off")
    assert main.run(["cluster", "status", "--groups", "-b", cluster.node(leader).bootstrap]) == 0
    assert f"{away}: " in capsys.readouterr().out
    cluster.heal()
    cluster.wait_until_in_sync()
    until(
        lambda: (
            not any(group["lag_bytes"].get(str(away)) for group in by_group(status(cluster, capsys, leader)).values())
        )
    )
