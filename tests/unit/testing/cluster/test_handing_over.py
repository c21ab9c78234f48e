"""A leader that hands over while it lives loses nothing of what it alone has acknowledged (acks=1).

Its followers are kept behind: nothing of the topic's group is shipped to them until it has waited for them a while.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.waiting import until

from hutong.replication.driver import GroupReplica
from hutong.replication.leading.shipments import Shipments
from hutong.testing import EmbeddedCluster, Topic

TIMEOUT_S = 30
RECORDS = 20
BEHIND_S = 0.1  # after the leader has begun to wait for its followers; it waits five times as long


class Shipping:
    """The shipments of the group of `orders`: they go out, or wait until their leader waits for its followers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held = False
        self._group = ""
        self._held: list[Callable[[], None]] = []
        proceed: Any = Shipments._continue
        wait: Any = GroupReplica.when_committed

        def continue_or_hold(shipments: Any, receiver: Any) -> None:
            if self.is_held and shipments._group == self._group:
                self._held.append(lambda: proceed(shipments, receiver))
            else:
                proceed(shipments, receiver)

        def when_committed(replica: GroupReplica, then: Any, timeout_ms: int) -> None:
            wait(replica, then, timeout_ms)
            if replica.name == self._group:
                asyncio.get_running_loop().call_later(BEHIND_S, self.release)

        monkeypatch.setattr(Shipments, "_continue", continue_or_hold)
        monkeypatch.setattr(GroupReplica, "when_committed", when_committed)

    def hold(self, group: str) -> None:
        self._group, self.is_held = group, True

    def release(self) -> None:
        self.is_held = False
        held, self._held = self._held, []
        for proceed in held:
            proceed()


@pytest.fixture
def shipping(monkeypatch: pytest.MonkeyPatch) -> Shipping:
    return Shipping(monkeypatch)


@pytest.fixture
def cluster(shipping: Shipping) -> Iterator[EmbeddedCluster]:
    # A follower that is behind stays in the set for as long as a test takes.
    settings = {"cluster.lag_ms_max": "30000"}
    with EmbeddedCluster(topics=[Topic("orders", partitions=1)], settings=settings) as running:
        running.wait_until_in_sync()
        until(lambda: leads(running) == preferred(running), what="the preferred leader")
        yield running


def leads(cluster: EmbeddedCluster) -> int:
    return described(cluster).leader  # type: ignore[no-any-return]


def preferred(cluster: EmbeddedCluster) -> int:
    return described(cluster).replicas[0]  # type: ignore[no-any-return]


def described(cluster: EmbeddedCluster) -> Any:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return admin.list_topics("orders", TIMEOUT_S).topics["orders"].partitions[0]


def group_of(cluster: EmbeddedCluster, leader: int) -> str:
    """The group of the partition: the only one with records for clients."""
    life = cluster.node(leader).life
    assert life is not None
    replicas = life.sources.replicas
    return max((name for name in replicas if name.startswith("days")), key=lambda name: replicas[name].journal.position)


def send(cluster: EmbeddedCluster) -> list[str]:
    """Send records with acks=1; those that were acknowledged."""
    acknowledged: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append((message.value() or b"").decode())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, "linger.ms": 0, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return acknowledged


def stored(cluster: EmbeddedCluster, count: int) -> list[str]:
    return [record.text for record in cluster.records("orders", count=count, timeout=TIMEOUT_S)]


def test_a_node_that_stops(cluster: EmbeddedCluster, shipping: Shipping) -> None:
    leader = leads(cluster)
    first = send(cluster)
    shipping.hold(group_of(cluster, leader))
    second = send(cluster)
    assert len(first) == len(second) == RECORDS
    cluster.stop(leader)
    assert not shipping.is_held
    assert leads(cluster) != leader
    assert stored(cluster, 2 * RECORDS) == first + second


def test_a_preferred_leader_that_an_operator_elects(cluster: EmbeddedCluster, shipping: Shipping) -> None:
    wanted = leads(cluster)
    cluster.stop(wanted)
    first = send(cluster)
    cluster.start(wanted)
    cluster.wait_until_in_sync()
    leader = leads(cluster)
    assert leader != wanted
    shipping.hold(group_of(cluster, leader))
    second = send(cluster)
    assert len(first) == len(second) == RECORDS
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    place = TopicPartition("orders", 0)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(TIMEOUT_S)
    assert elected[place] is None
    assert not shipping.is_held
    assert leads(cluster) == wanted
    assert stored(cluster, 2 * RECORDS) == first + second
