"""Three nodes and ZooKeeper in network namespaces, under load by three makers' clients: faults drawn from a seed.

Confluent's, Java's and Go's producers send with idempotence and in transactions, while nodes are killed, restarted,
stopped for longer than a session, cut off (from all, from one other in one direction, from ZooKeeper), slowed down,
robbed of packets or of their disk's space, and while ZooKeeper dies. In the end nothing acknowledged may be lost,
doubled or reordered, transactions are whole, and replicas are the same.

The check runs each fault of `BRIEF` once. TEST_NETWORK_ROUNDS=50 runs so many, TEST_NETWORK_SEED says which. The pauses
of each kind of fault are printed, and written to the file TEST_NETWORK_REPORT.
"""

import json
import os
import pathlib
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles
from typing import Final

import pytest
from tests.fault.test_cluster_kill import PAUSE_S, judge
from tests.support.cluster_load import TOPIC, create_topics
from tests.support.foreign_load import NetworkLoad
from tests.support.network_cluster import ZOOKEEPER, NetworkCluster, node_name

ROUNDS: Final = int(os.environ.get("TEST_NETWORK_ROUNDS", "0"))
SEED: Final = int(os.environ.get("TEST_NETWORK_SEED", "1"))
REPORT: Final = os.environ.get("TEST_NETWORK_REPORT", "")
PER_SECOND: Final = 200
PROGRESS: Final = 100
PROGRESS_S_MAX: Final = 30.0
DELAY_MS: Final = 20
LOSS: Final = 0.05
pytestmark = [pytest.mark.fault, pytest.mark.timeout(300 + 40 * ROUNDS)]

Fault = Callable[["Scene", int], None]


class Scene:
    """The cluster, its clients, and a seeded choice."""

    def __init__(self, cluster: NetworkCluster, load: NetworkLoad) -> None:
        self.cluster = cluster
        self.load = load
        self.network = cluster.network
        self.choice = random.Random(SEED)

    def go_on(self) -> None:
        """Return when every client has gone on, in time."""
        self.load.wait_for_progress(PROGRESS, PROGRESS_S_MAX)

    def hold(self, seconds: float = PAUSE_S) -> None:
        threading.Event().wait(seconds)  # time itself is the fault

    def other(self, number: int) -> int:
        return self.choice.choice([each for each in self.cluster.nodes if each != number])

    def victim(self) -> int:
        """The leader of a partition, the controller, or any node."""
        kinds = (lambda: self.cluster.leader_of(TOPIC), self.cluster.controller, lambda: self.other(0))
        return self.choice.choice(kinds)()


@contextmanager
def healing(scene: Scene, number: int) -> Iterator[str]:
    """Undo what was done to the network of a node, also where the test fails: clients end faster then."""
    try:
        yield node_name(number)
    finally:
        scene.network.heal(node_name(number))


def kill(scene: Scene, number: int) -> None:
    scene.cluster.kill([number])
    scene.go_on()
    scene.cluster.start([number])


def restart(scene: Scene, number: int) -> None:
    assert scene.cluster.nodes[number].stop() == 0
    scene.go_on()
    scene.cluster.start([number])


def pause(scene: Scene, number: int) -> None:
    scene.cluster.nodes[number].pause()
    scene.hold()
    try:
        scene.go_on()
    finally:
        scene.cluster.nodes[number].resume()


def cut_off(scene: Scene, number: int) -> None:
    with healing(scene, number) as node:
        scene.network.cut(node)
        scene.hold()
        scene.go_on()


def cut_one_way(scene: Scene, number: int) -> None:
    """What one node sends to another vanishes; the rest comes."""
    with healing(scene, number) as node:
        scene.network.cut_one_way(node, node_name(scene.other(number)))
        scene.hold()
        # Without transactions: their coordinator must reach the partitions' leaders, as in Kafka.
        scene.load.wait_for_records(PROGRESS, PROGRESS_S_MAX)


def cut_from_zookeeper(scene: Scene, number: int) -> None:
    with healing(scene, number) as node:
        scene.network.cut_one_way(node, ZOOKEEPER)
        scene.hold()
        scene.go_on()


def delay(scene: Scene, number: int) -> None:
    with healing(scene, number) as node:
        scene.network.slow(node, delay_ms=DELAY_MS)
        scene.go_on()


def lose_packets(scene: Scene, number: int) -> None:
    with healing(scene, number) as node:
        scene.network.slow(node, loss=LOSS, seed=SEED)
        scene.go_on()


def fill_disk(scene: Scene, number: int) -> None:
    """Nothing need be taken while there is no space."""
    scene.cluster.fill_disk(number)
    scene.hold()
    scene.cluster.empty_disk(number)


def kill_zookeeper(scene: Scene, _: int) -> None:
    scene.cluster.zookeeper.stop()
    scene.hold()
    try:
        scene.go_on()
    finally:
        scene.cluster.zookeeper.start()


FAULTS: Final[Sequence[Fault]] = (
    kill, restart, pause, cut_off, cut_one_way, cut_from_zookeeper, delay, lose_packets, fill_disk, kill_zookeeper,
)  # fmt: skip
BRIEF: Final[Sequence[Fault]] = (cut_off, cut_one_way, fill_disk)


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Iterator[Scene]:
    with NetworkCluster(tmp_path) as cluster:
        create_topics(cluster)
        yield Scene(cluster, NetworkLoad(cluster.bootstrap, tmp_path, PER_SECOND))


def drawn(choice: random.Random) -> Iterator[Fault]:
    """All faults in an order drawn anew each time."""
    if not ROUNDS:
        yield from BRIEF
    for number in range(ROUNDS):
        if number % len(FAULTS) == 0:
            order = choice.sample(FAULTS, len(FAULTS))
        yield order[number % len(FAULTS)]


def test_nothing_acknowledged_is_lost_by_faults_of_network_disks_and_processes(scene: Scene) -> None:
    pauses_s: dict[str, list[float]] = defaultdict(list)
    with scene.load:
        scene.go_on()
        for fault in drawn(scene.choice):
            number = scene.victim()
            print(fault.__name__, number, "of which the controller is", scene.cluster.controller(), flush=True)
            begun_s = time.monotonic()
            fault(scene, number)
            scene.go_on()
            for load in scene.load.loads:
                pauses_s[fault.__name__] += load.pauses_s(begun_s)
                print(f"  {load.label}: {max(load.pauses_s(begun_s)):.2f} s", flush=True)
            scene.cluster.wait_whole(TOPIC)
    tell(scene, pauses_s)
    judge(scene.cluster, scene.load)


def tell(scene: Scene, pauses_s: dict[str, list[float]]) -> None:
    sent = sum(len(each) for place in scene.load.history.invoked.values() for each in place.values())
    told = {
        "seed": SEED,
        "sent": sent,
        "acknowledged": sum(load.acknowledged for load in scene.load.loads),
        "committed": sum(len(each.committed) for each in scene.load.all_transactions),
        "unknown": sum(len(each.unknown) for each in scene.load.all_transactions),
        "pauses_s": pauses_s,
    }
    print(
        {
            **told,
            "pauses_s": {kind: quantiles(found, n=100, method="inclusive")[49::49] for kind, found in pauses_s.items()},
        }
    )
    if REPORT:
        with open(REPORT, "a") as report:
            report.write(json.dumps(told) + "\n")
