"""`hutong cluster dev cut` and `heal` on real processes: others lead what the node has led, and it comes back."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.support.dev_cluster import DevCluster
from tests.support.waiting import until

TIMEOUT_S = 30
CUT = 2


def asked(cluster: DevCluster, *words: str, way: str | None = None) -> dict[str, Any] | None:
    """What a command says of the cluster, by way of the first node if no other is given; None while it says nothing."""
    command = [sys.executable, "-m", "hutong", "cluster", *words, "--json", "-b", way or cluster.address]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    found: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return found


def groups(cluster: DevCluster, way: str | None = None) -> list[dict[str, Any]]:
    """All groups; none during an election of the controller."""
    return list((asked(cluster, "status", "--groups", way=way) or {"groups": []})["groups"])


def are_led_by_others(cluster: DevCluster, cut: int = CUT, way: str | None = None) -> bool:
    found = groups(cluster, way)
    return bool(found) and all(group["leader"] not in (cut, -1) for group in found)


def is_whole(cluster: DevCluster) -> bool:
    found = groups(cluster)
    return bool(found) and all(len(group["in_sync"]) == 3 for group in found)


def address_of(cluster: DevCluster, node: int) -> str:
    """A node's address for clients."""
    broker = AdminClient({"bootstrap.servers": cluster.address}).list_topics(timeout=TIMEOUT_S).brokers[node]
    return f"{broker.host}:{broker.port}"


def send(address: str, count: int) -> list[str]:
    """The errors of so many records of a producer that begins at this address, and finds the leaders itself."""
    errors: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        producer.produce("orders", b"%d" % number, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return errors


def eventually(question: Callable[[], bool], what: str) -> None:
    until(question, deadline_s=TIMEOUT_S, what=what)


def test_a_node_that_is_cut_off_leads_nothing_and_comes_back(tmp_path: Path) -> None:
    with DevCluster(tmp_path, 3) as cluster:
        eventually(lambda: is_whole(cluster) and not are_led_by_others(cluster), "three nodes that lead something")
        address = address_of(cluster, CUT)
        cluster.cut(CUT)
        eventually(lambda: are_led_by_others(cluster), "other leaders")
        assert send(address, 300) == [], "the node that is cut off sends clients on to the others"
        assert all(CUT not in group["in_sync"] for group in groups(cluster))
        cluster.heal()
        eventually(lambda: is_whole(cluster), "a node that has everything again")
        found = asked(cluster, "verify")
        assert found is not None, "replicas differ"
        assert sum(row["offsets"] for row in found["groups"] if row["group"].startswith("days")) == 300


def test_a_controller_that_reaches_zookeeper_alone_hands_over(tmp_path: Path) -> None:
    with DevCluster(tmp_path, 3) as cluster:
        eventually(lambda: is_whole(cluster), "three nodes")
        controller = AdminClient({"bootstrap.servers": cluster.address}).list_topics(timeout=TIMEOUT_S).controller_id
        way = next(address for node, address in cluster.addresses.items() if node != controller)
        cluster.cut(controller, keep_zookeeper=True)
        eventually(lambda: are_led_by_others(cluster, controller, way), "other leaders, and another controller")
        eventually(
            lambda: send(cluster.addresses[controller], 300) == [], "the one that is cut off sends clients on to others"
        )
        cluster.heal()
        eventually(lambda: is_whole(cluster), "a node that has everything again")
        assert asked(cluster, "verify") is not None, "replicas differ"
