"""Three nodes as one broker under load, while nodes, or the coordinator, are killed, stopped and paused.

Nothing acknowledged may be lost, doubled, reordered or different, committed readers see what was committed alone, and
all replicas hold the same bytes in the end. One test has a fault of each of the usual kinds, and takes half a minute.
TEST_CLUSTER_ROUNDS says how often the faults of the other tests come (by default these are skipped), and
TEST_CLUSTER_SEED what happens in the test that mixes them.
"""

import os
import random
import threading
from collections.abc import Callable

import pytest
from tests.support.cluster import SESSION_MS, Cluster, missing_below, replica_differences
from tests.support.cluster_load import IMPATIENT, PARTITIONS, TOPIC, TRANSACTED, ClusterLoad, final_read
from tests.support.load import CARELESS, RecordedLoad
from tests.support.log_checker import LOST, check

ROUNDS = int(os.environ.get("TEST_CLUSTER_ROUNDS", "0"))
SEED = int(os.environ.get("TEST_CLUSTER_SEED", "1"))
pytestmark = [pytest.mark.fault, pytest.mark.timeout(240 + 120 * ROUNDS)]
takes_minutes = pytest.mark.skipif(not ROUNDS, reason="takes minutes: TEST_CLUSTER_ROUNDS=1 runs each fault once")
MIXED_STEPS = 4 * ROUNDS
LARGE_BYTES = 20_000
UNREPLICATED_BYTES = 6_000_000  # more than sockets hold of it, less than a leader keeps for replicas that stand still
PAUSE_S = 1.5 * SESSION_MS / 1000

Fault = Callable[[Cluster, ClusterLoad], None]


def kill(cluster: Cluster, load: ClusterLoad, *numbers: int) -> None:
    """These nodes die at once, and start again when the rest has gone on, if enough are left for that."""
    cluster.kill(numbers)
    if 2 * len(numbers) < len(cluster.nodes):
        load.wait_for_progress()
    cluster.start(numbers)
    load.wait_for_progress()
    cluster.wait_whole(TOPIC)


def kill_each(cluster: Cluster, load: ClusterLoad) -> None:
    """The leader of a partition, the controller, and then each of the nodes."""
    kill(cluster, load, cluster.leader_of(TOPIC))
    kill(cluster, load, cluster.controller())
    for number in cluster.nodes:
        kill(cluster, load, number)


def stop(cluster: Cluster, load: ClusterLoad, number: int) -> None:
    """A node ends as by a service manager, hands over what it leads, and comes back."""
    assert cluster.nodes[number].stop() == 0
    load.wait_for_progress()
    cluster.nodes[number].start()
    load.wait_for_progress()
    cluster.wait_whole(TOPIC)


def restart_each(cluster: Cluster, load: ClusterLoad) -> None:
    """A rolling restart, as for an update."""
    for number in cluster.nodes:
        stop(cluster, load, number)


def pause(cluster: Cluster, load: ClusterLoad, number: int) -> None:
    """A node stands still for longer than its session, and goes on with what it believed before."""
    cluster.nodes[number].pause()
    try:
        threading.Event().wait(PAUSE_S)  # time itself is the fault
        load.wait_for_progress()
    finally:
        cluster.nodes[number].resume()
    load.wait_for_progress()
    cluster.wait_whole(TOPIC)


def pause_leaders(cluster: Cluster, load: ClusterLoad) -> None:
    pause(cluster, load, cluster.leader_of(TOPIC))
    pause(cluster, load, cluster.controller())


def kill_two(cluster: Cluster, load: ClusterLoad) -> None:
    """Two die at once, and the one that is left may take nothing alone; then two others, the controller among them."""
    leader = cluster.leader_of(TOPIC)
    kill(cluster, load, leader, leader % 3 + 1)
    controller = cluster.controller()
    kill(cluster, load, controller, (controller + 1) % 3 + 1)


def kill_all(cluster: Cluster, load: ClusterLoad) -> None:
    """A power failure, but for what the operating system holds."""
    kill(cluster, load, *cluster.nodes)


def lose_zookeeper(cluster: Cluster, load: ClusterLoad) -> None:
    """An outage stops elections, and nothing else: records are taken meanwhile, and nodes may die after it."""
    cluster.zookeeper.stop()
    threading.Event().wait(PAUSE_S)  # sessions end, if somebody were there to say so
    load.wait_for_progress()
    cluster.zookeeper.start()
    load.wait_for_progress()
    kill(cluster, load, cluster.controller())


FAULTS: list[Fault] = [kill_each, restart_each, pause_leaders, kill_two, kill_all, lose_zookeeper]


def judge(cluster: Cluster, load: ClusterLoad) -> None:
    """Everything that must be true once it is quiet."""
    cluster.wait_whole(TOPIC)
    cluster.wait_whole(TRANSACTED)
    assert load.anomalies() == [], cluster.tails()
    ends = cluster.ends(TOPIC, PARTITIONS)
    cluster.stop()
    folders = [node.data for node in cluster.nodes.values()]
    assert replica_differences(folders) == []
    assert missing_below(folders, TOPIC, ends) == []


def test_nothing_acknowledged_is_lost_by_one_fault_of_each_usual_kind(cluster: Cluster) -> None:
    with ClusterLoad(cluster.bootstrap) as load:
        load.wait_for_progress()
        kill(cluster, load, cluster.leader_of(TOPIC))
        stop(cluster, load, cluster.leader_of(TOPIC))
        pause(cluster, load, cluster.leader_of(TOPIC))
        lose_zookeeper(cluster, load)
    judge(cluster, load)
    assert load.history.committed, "the group never came to commit"
    assert load.transactions.committed


@takes_minutes
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_acknowledged_is_lost(cluster: Cluster, fault: Fault) -> None:
    with ClusterLoad(cluster.bootstrap) as load:
        load.wait_for_progress()
        for _ in range(ROUNDS):
            fault(cluster, load)
    judge(cluster, load)
    assert load.history.committed, "the group never came to commit"
    assert load.transactions.committed


@takes_minutes
def test_nothing_acknowledged_is_lost_by_faults_in_any_order(cluster: Cluster) -> None:
    """Faults follow each other without waiting for the cluster to be whole again."""
    choice = random.Random(SEED)
    with ClusterLoad(cluster.bootstrap) as load:
        for _ in range(MIXED_STEPS):
            load.wait_for_progress(100)
            number = choice.choice(list(cluster.nodes))
            node = cluster.nodes[number]
            how = choice.choice(("kill", "stop", "pause", "two", "kill at once"))
            print(how, number, flush=True)
            if how == "pause":
                node.pause()
                threading.Event().wait(PAUSE_S)
                node.resume()
                continue
            lost = [number, number % 3 + 1] if how == "two" else [number]
            if how == "stop":
                node.stop()
            else:
                cluster.kill(lost)
            if how == "kill":
                load.wait_for_progress(100)
            cluster.start(lost)
        load.wait_for_progress()
    judge(cluster, load)


@takes_minutes
def test_a_kill_is_felt_where_the_leader_alone_acknowledges(cluster: Cluster) -> None:
    """Shows that the tests above can fail: acks=1 promises nothing once the leader is dead, and the loss is found.

    The others stand still meanwhile. What their sockets hold reaches them all the same, so it is more than that.
    """
    topic = "careless"
    cluster.create_topic(topic, 1)
    leader = cluster.nodes[cluster.leader_of(topic)]
    others = [node for node in cluster.nodes.values() if node is not leader]
    careless = {**IMPATIENT, **CARELESS, "queue.buffering.max.messages": 100}
    with RecordedLoad(cluster.bootstrap, topic, 1, value_bytes=LARGE_BYTES, **careless) as load:
        load.wait_for_acknowledged(1)
        for node in others:
            node.pause()
        load.wait_for_acknowledged(UNREPLICATED_BYTES // LARGE_BYTES)
        leader.kill()
        for node in others:
            node.resume()
        load.wait_for_acknowledged(1)
    leader.start()
    cluster.wait_whole(topic)
    final = {(topic, 0): final_read(cluster.bootstrap, topic, 0)}
    assert LOST in {anomaly.kind for anomaly in check(load.history, final_reads=final)}
