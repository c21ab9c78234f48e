"""The registry at three nodes: one writes, all answer; what was acknowledged stays, whichever of them dies."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.http_json import JsonClient
from tests.support.waiting import until

from hutong.testing import EmbeddedCluster

SETTINGS = {
    "schema_registry.listen": "127.0.0.1:0",
    # A machine that runs all tests at once must take no node for slow, or for dead.
    "cluster.lag_ms_max": "20000",
    "cluster.session_timeout_ms": "5000",
}
NODES = (1, 2, 3)


def client(cluster: EmbeddedCluster, number: int) -> JsonClient:
    url = cluster.node(number).schema_registry_url
    assert url is not None
    return JsonClient(url.removeprefix("http://"))


def record(name: str) -> dict[str, str]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": []})}


def register(cluster: EmbeddedCluster, number: int, subject: str, name: str) -> int:
    answer = client(cluster, number).call("POST", f"/subjects/{subject}/versions", record(name))
    assert answer.status == 200, answer
    return int(answer.value["id"])


def get(cluster: EmbeddedCluster, number: int, path: str) -> Any:
    answer = client(cluster, number).call("GET", path)
    assert answer.status == 200, answer
    return answer.value


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, settings=SETTINGS) as running:
        running.wait_until_in_sync()
        yield running


def test_all_nodes_find_at_once_what_any_of_them_has_registered(cluster: EmbeddedCluster) -> None:
    for round_ in range(10):
        for number in NODES:
            schema_id = register(cluster, number, f"s{round_}-{number}", f"N{round_}x{number}")
            for other in NODES:
                assert get(cluster, other, f"/schemas/ids/{schema_id}")["schema"].find(f"N{round_}x{number}") > 0
                assert get(cluster, other, f"/subjects/s{round_}-{number}/versions/1")["id"] == schema_id
                assert register(cluster, other, f"s{round_}-{number}", f"N{round_}x{number}") == schema_id
            assert f"s{round_}-{number}" in get(cluster, number, "/subjects")
    assert get(cluster, 1, "/schemas/ids/1?fetchMaxId=true")["maxId"] == 30


def test_every_change_goes_by_any_node(cluster: EmbeddedCluster) -> None:
    writer = cluster.leader_of("_schemas") if get(cluster, 1, "/subjects") == [] else 0
    other = client(cluster, next(number for number in NODES if number != writer))
    register(cluster, writer, "s", "N")
    answer = other.call("PUT", "/config/s", {"compatibility": "FULL"})
    assert (answer.status, answer.value) == (200, {"compatibility": "FULL"})
    assert get(cluster, writer, "/config/s") == {"compatibilityLevel": "FULL"}
    assert other.call("DELETE", "/config/s").value == {"compatibilityLevel": "FULL"}
    assert other.call("PUT", "/mode/s", {"mode": "READONLY"}).value == {"mode": "READONLY"}
    refused = other.call("POST", "/subjects/s/versions", record("M"))
    assert (refused.status, refused.value["error_code"]) == (422, 42205)
    assert other.call("DELETE", "/mode/s").value == {"mode": "READONLY"}
    assert other.call("POST", "/subjects/s/versions", record("M")).status == 409
    assert other.call("DELETE", "/subjects/s/versions/latest").value == 1
    assert other.call("DELETE", "/subjects/s/versions/1?permanent=true").value == 1
    assert other.call("DELETE", "/subjects/s").value["error_code"] == 40401
    # What imports a schema of another node is understood, too.
    register(cluster, writer, "imported", "I")
    body = {
        "schema": '{"type": "record", "name": "O", "fields": [{"name": "i", "type": "I"}]}',
        "references": [{"name": "I", "subject": "imported", "version": 1}],
    }
    assert other.call("POST", "/subjects/o/versions", body).status == 200


def test_no_id_is_given_twice_when_the_writer_dies(cluster: EmbeddedCluster) -> None:
    assert get(cluster, 1, "/subjects") == []
    writer = cluster.leader_of("_schemas")
    others = [number for number in NODES if number != writer]
    found: dict[str, int] = {}
    enough, killed = threading.Event(), threading.Event()

    def produce(number: int) -> None:
        for count in range(200):
            name = f"N{number}x{count}"
            answer = client(cluster, number).call("POST", f"/subjects/{name}/versions", record(name))
            if answer.status == 200:
                found[name] = answer.value["id"]
            if count == 20:
                enough.set()
            if killed.is_set() and answer.status == 200 and count > 60:
                return

    threads = [threading.Thread(target=produce, args=(number,)) for number in others]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    cluster.kill(writer)
    killed.set()
    for thread in threads:
        thread.join(60)
    assert len(found) > 100
    assert len(set(found.values())) == len(found)
    for number in others:
        for name, schema_id in found.items():
            assert get(cluster, number, f"/subjects/{name}/versions/1")["id"] == schema_id
    cluster.start(writer)
    assert all(get(cluster, writer, f"/schemas/ids/{each}") for each in found.values())
    assert get(cluster, writer, "/subjects") == sorted(get(cluster, others[0], "/subjects"))


def test_a_node_without_a_replica_reads_where_there_is_one() -> None:
    with EmbeddedCluster(3, settings={**SETTINGS, "cluster.replicas": "1"}) as cluster:
        ids = [register(cluster, number, f"s{number}", f"N{number}") for number in NODES]
        assert ids == [1, 2, 3]
        for number in NODES:
            assert get(cluster, number, "/subjects") == ["s1", "s2", "s3"]
        writer = cluster.leader_of("_schemas")
        reader = next(number for number in NODES if number != writer)
        cluster.kill(writer)
        # It has what it has read.
        assert get(cluster, reader, "/subjects") == ["s1", "s2", "s3"]
        missing = client(cluster, reader).call("GET", "/schemas/ids/9")
        assert (missing.status, missing.value["error_code"]) == (500, 50003)
        cluster.start(writer)
        until(lambda: _is_missing(cluster, reader), what="an answer of the leader", between_s=0.05)


def _is_missing(cluster: EmbeddedCluster, number: int) -> bool:
    return client(cluster, number).call("GET", "/schemas/ids/9").status == 404
