"""Moves and drains through the console, in front of a cluster of three nodes with two replicas of everything."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.waiting import until
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedCluster

MOVES = "/api/nodes/moves"
# No node is to be taken for dead while others start again.
PATIENT = {"cluster.session_timeout_ms": "20000", "cluster.lag_ms_max": "20000"}
RECORDS, RECORD_BYTES = 8, 900_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    settings = {"cluster.replicas": "2", "cluster.slots": "1", "cluster.coordinators": "1"}
    with EmbeddedCluster(settings=settings | PATIENT) as running:
        running.wait_until_in_sync()
        running.create_topic("orders", partitions=3)
        running.create_topic("users", partitions=1)
        yield running


@pytest.fixture(scope="module")
def client(cluster: EmbeddedCluster) -> Iterator[ConsoleClient]:
    words = ["console", "--bootstrap", cluster.bootstrap, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen([sys.executable, "-m", "hutong", *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield ConsoleClient(json.loads(process.stdout.readline())["console"]).begin()
        process.terminate()


def replicas(client: ConsoleClient, topic: str) -> list[list[int]]:
    return [one["replicas"] for one in client.value("GET", f"/api/nodes/partitions?topic={topic}")["partitions"]]


def audited(client: ConsoleClient) -> str:
    return str(client.value("GET", "/api/topics/__hutong_console_audit/messages")["records"])


def moving(client: ConsoleClient) -> list[Any]:
    moves: list[Any] = client.value("GET", MOVES)["moves"]
    return moves


def await_rest(client: ConsoleClient) -> None:
    until(lambda: not moving(client))


def others(now: list[int]) -> list[int]:
    """The last of these, and the node that is none of them."""
    return [now[-1], *({1, 2, 3} - {*now})]


def moved(client: ConsoleClient, body: dict[str, Any]) -> Any:
    mark = client.value("POST", f"{MOVES}/preview", body)["mark"]
    return client.value("POST", MOVES, {**body, "mark": mark})


def test_nothing_is_under_way(client: ConsoleClient) -> None:
    told = client.value("GET", MOVES)
    assert (told["can_move"], told["kind"], told["moves"], told["drained"]) == (True, "hutong", [], [])


def test_a_topic_moves_with_its_group(cluster: EmbeddedCluster, client: ConsoleClient) -> None:
    now = replicas(client, "orders")
    wanted = others(now[0])
    body = {"topic": "orders", "replicas": wanted}
    preview = client.value("POST", f"{MOVES}/preview", body)
    (step,) = preview["steps"]
    assert (step["before"], step["target"], preview["along"] >= 1) == (now[0], wanted, True)
    assert {"orders", "users"} <= {*step["topics"]}, "one slot: all topics share the group"
    assert replicas(client, "orders") == now, "a preview moves nothing"
    assert moved(client, body) == {"begun": 1, "failed": [], "failed_count": 0}
    await_rest(client)
    until(lambda: replicas(client, "orders") == [wanted] * 3)
    assert replicas(client, "users") == [wanted]
    assert "replicas.move" in audited(client)
    assert client.value("POST", f"{MOVES}/preview", body)["steps"] == []


def test_a_move_that_runs_has_a_throttle_and_is_taken_back(cluster: EmbeddedCluster, client: ConsoleClient) -> None:
    await_rest(client)
    for _ in range(RECORDS):
        cluster.produce("users", b"x" * RECORD_BYTES)  # a batch each
    # What is in the leader's cache goes to a new replica at once, and only what comes from the disk has a pace.
    for node in cluster.nodes:
        cluster.restart(node.number)
    cluster.wait_until_in_sync(timeout=60)
    before = replicas(client, "users")
    body = {"topic": "users", "replicas": others(before[0])}
    assert moved(client, {**body, "bytes_per_second": 1})["failed"] == []
    move = until(lambda: moving(client))[0]
    assert (move["target"], move["before"], move["bytes_per_second"]) == (body["replicas"], before[0], 1)
    (step,) = client.value("POST", f"{MOVES}/preview", {**body, "bytes_per_second": 2})["steps"]
    assert (step["is_pace"], step["copied_bytes"]) == (True, 0)
    assert moved(client, {**body, "bytes_per_second": 2})["begun"] == 1
    move = until(lambda: [one for one in moving(client) if one["copied_bytes"]])[0]
    assert (move["bytes_per_second"], move["copied_bytes"] < move["whole_bytes"]) == (2, True)
    assert client.ask("POST", f"{MOVES}/take-back", {"group": move["group"]}).status == 204
    await_rest(client)
    assert replicas(client, "users") == before
    assert "bytes_per_second" in audited(client)
    assert "replicas.take-back" in audited(client)


def test_a_partition_leaves_its_group(client: ConsoleClient) -> None:
    before = replicas(client, "orders")
    wanted = others(before[1])
    body = {"topic": "orders", "partition": 1, "replicas": wanted, "together": False}
    preview = client.value("POST", f"{MOVES}/preview", body)
    assert [(step["splits"], step["moved"]) for step in preview["steps"]] == [(True, 1)]
    assert moved(client, body)["failed"] == []
    await_rest(client)
    until(lambda: replicas(client, "orders") == [before[0], wanted, before[2]])


def test_a_plan_that_nobody_has_seen_is_refused(client: ConsoleClient) -> None:
    body = {"topic": "orders", "replicas": others(replicas(client, "orders")[0])}
    for mark in ("", "0" * 32):
        answer = client.ask("POST", MOVES, {**body, "mark": mark})
        assert (answer.status, answer.value["error"]["code"]) == (409, 40904)


def test_a_move_that_is_not_there_is_not_taken_back(client: ConsoleClient) -> None:
    assert client.ask("POST", f"{MOVES}/take-back", {"group": "days"}).status == 409
    assert client.ask("POST", f"{MOVES}/take-back", {"topic": "users", "partition": 0}).status == 409


def test_a_node_is_drained_and_has_replicas_again(client: ConsoleClient) -> None:
    path = "/api/nodes/3/drain"
    preview = client.value("POST", f"{path}/preview", {"what": "replicas"})
    assert (preview["kind"], preview["staying_count"]) == ("hutong", 0)
    assert all(3 in step["before"] and 3 not in step["target"] for step in preview["steps"])
    assert client.ask("POST", path, {"what": "replicas", "mark": "other"}).status == 409
    client.value("POST", path, {"what": "replicas", "mark": preview["mark"]})
    until(lambda: 3 not in {node for topic in ("orders", "users") for one in replicas(client, topic) for node in one})
    assert client.value("GET", MOVES)["drained"] == [3]
    assert "node.drain" in audited(client)
    assert client.ask("DELETE", path).status == 204
    assert client.value("GET", MOVES)["drained"] == []
    assert client.ask("DELETE", path).status in (404, 409), "it is not drained"


def test_a_node_hands_over_its_leaderships_alone(client: ConsoleClient) -> None:
    await_rest(client)
    before = {topic: replicas(client, topic) for topic in ("orders", "users")}
    leader = before["users"][0][0]
    path = f"/api/nodes/{leader}/drain"
    preview = client.value("POST", f"{path}/preview", {"what": "leaders"})
    assert preview["copied_bytes"] == 0
    client.value("POST", path, {"what": "leaders", "mark": preview["mark"]})
    until(lambda: all(one[0] != leader for topic in before for one in replicas(client, topic)))
    assert {*replicas(client, "users")[0]} == {*before["users"][0]}, "its replicas stay"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"{MOVES}/preview", {"topic": "orders", "replicas": []}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [1, 99]}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": ["1"]}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [2**40]}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [1], "other": 1}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [1, 2], "bytes_per_second": 0}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [1, 2], "bytes_per_second": 2**60}, 400),
        (f"{MOVES}/preview", {"topic": "orders", "replicas": [1]}, 409),
        (f"{MOVES}/preview", {"topic": "orders", "partition": 2**40, "replicas": [1]}, 404),
        (f"{MOVES}/preview", {"topic": "<b>\u0000", "replicas": [1]}, 404),
        (f"{MOVES}/take-back", {}, 400),
        (f"{MOVES}/take-back", {"topic": "orders", "partition": -1}, 400),
        (f"{MOVES}/take-back", {"topic": "orders", "partition": 2**40}, 400),
        (f"{MOVES}/take-back", {"group": "x" * 100_000}, 404),
        ("/api/nodes/99/drain/preview", {}, 404),
        ("/api/nodes/1/drain/preview", {"what": "all"}, 400),
        ("/api/nodes/-1/drain/preview", {}, 405),
        (f"/api/nodes/{10**30}/drain/preview", {}, 405),
    ],
)
def test_wishes_that_are_none(client: ConsoleClient, path: str, body: Any, status: int) -> None:
    assert client.ask("POST", path, body).status == status


def test_a_console_in_a_program_says_what_it_cannot_do() -> None:
    with node_with_console() as node:
        client = ConsoleClient(node).begin()
        told = client.value("GET", MOVES)
        assert told["can_move"] is False
        assert "part of a program" in told["why_not"]
        body = {"topic": "x", "replicas": [1]}
        assert client.ask("POST", f"{MOVES}/preview", body).status == 404
