"""The disk of one of three nodes fails, or is full: the others go on, and nothing acknowledged is lost or doubled."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from tests.support.waiting import until

from hutong.testing import EmbeddedCluster, Topic
from hutong.testing.faults.switches import Fault

TIMEOUT_S = 30
RECORDS = 200
IMPATIENT = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 100, "log_level": 0, "linger.ms": 0}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    settings = {"cluster.lag_ms_max": "500"}
    with EmbeddedCluster(topics=[Topic("orders", partitions=1)], settings=settings) as running:
        running.wait_until_in_sync()
        until(lambda: is_led_as_preferred(running), what="the preferred leader")  # a young cluster spreads its leaders
        yield running


def is_led_as_preferred(cluster: EmbeddedCluster) -> bool:
    asked = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics("orders", TIMEOUT_S)
    partition = asked.topics["orders"].partitions[0]
    return partition.leader == partition.replicas[0]


class Load:
    """An idempotent producer, and what was acknowledged to it in order."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.sent = 0
        self.acknowledged: list[str] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **IMPATIENT})

    def send(self) -> None:
        for _ in range(RECORDS):
            self._producer.produce("orders", b"%d" % self.sent, partition=0, on_delivery=self._delivered)
            self.sent += 1

    def wait(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0
        assert len(self.acknowledged) == self.sent

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.acknowledged.append((message.value() or b"").decode())


def texts(cluster: EmbeddedCluster, wanted: int) -> list[str]:
    return [record.text for record in cluster.records("orders", count=wanted, timeout=TIMEOUT_S)]


def other_than(cluster: EmbeddedCluster, *nodes: int) -> int:
    return next(node.number for node in cluster.nodes if node.number not in nodes)


def test_another_node_leads_what_the_disk_of_its_leader_has_failed_for(cluster: EmbeddedCluster) -> None:
    load, leader = Load(cluster), cluster.leader_of("orders")
    load.send()
    load.wait()
    with cluster.node(leader).faults.fail_fsync("everything") as fault:
        load.send()
        load.wait()
        assert fault.hits
        assert cluster.leader_of("orders") != leader
    assert texts(cluster, load.sent) == load.acknowledged
    cluster.restart(leader)
    cluster.wait_until_in_sync()
    # Its own replica is as good as the others'.
    cluster.kill(other_than(cluster, leader))
    load.send()
    load.wait()
    assert texts(cluster, load.sent) == load.acknowledged


def failed(cluster: EmbeddedCluster, node: int) -> Fault:
    return cluster.node(node).faults.fail_fsync("everything")


def full(cluster: EmbeddedCluster, node: int) -> Fault:
    return cluster.node(node).faults.fill_disk("everything")


@pytest.mark.parametrize("broken", [failed, full])
def test_a_follower_whose_disk_takes_nothing_holds_up_nobody_for_long(
    cluster: EmbeddedCluster, broken: Callable[[EmbeddedCluster, int], Fault]
) -> None:
    load, leader = Load(cluster), cluster.leader_of("orders")
    follower = other_than(cluster, leader)
    with broken(cluster, follower) as fault:
        load.send()
        load.wait()
        assert fault.hits
        assert cluster.leader_of("orders") == leader
    cluster.restart(follower)
    cluster.wait_until_in_sync()
    assert texts(cluster, load.sent) == load.acknowledged


def led_by_a_controller(cluster: EmbeddedCluster) -> int:
    controller = cluster.controller()
    assert controller is not None
    return controller


def led_by_another(cluster: EmbeddedCluster) -> int:
    return other_than(cluster, led_by_a_controller(cluster))


@pytest.mark.parametrize("choose", [led_by_a_controller, led_by_another])
def test_another_node_leads_while_the_disk_of_a_leader_is_full(
    cluster: EmbeddedCluster, choose: Callable[[EmbeddedCluster], int]
) -> None:
    full = choose(cluster)
    load = Load(cluster)
    with cluster.node(full).faults.fill_disk("everything") as fault:
        load.send()
        load.wait()
        cluster.wait_for_fault(fault)
        until(lambda: cluster.controller() != full, what="another controller")
        load.send()
        load.wait()
        assert cluster.leader_of("orders") != full
    cluster.wait_until_in_sync()
    assert texts(cluster, load.sent) == load.acknowledged


def test_a_leader_goes_on_once_there_is_space_where_all_disks_were_full(cluster: EmbeddedCluster) -> None:
    load, leader = Load(cluster), cluster.leader_of("orders")
    load.send()
    load.wait()
    faults = [node.faults.fill_disk("everything") for node in cluster.nodes]
    load.send()
    cluster.wait_for_fault(faults[leader - 1])
    assert texts(cluster, RECORDS) == load.acknowledged[:RECORDS]
    for fault in faults:
        fault.heal()
    load.wait()
    cluster.wait_until_in_sync()
    assert texts(cluster, load.sent) == load.acknowledged
