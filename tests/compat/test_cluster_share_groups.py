"""Share groups on a cluster with confluent-kafka's ShareConsumer, while the nodes die that keep and serve them.

A record whose acceptance was answered never comes again; every record comes until it is accepted.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from tests.compat.test_share_groups import configure, take
from tests.support.waiting import until

from hutong.testing import EmbeddedCluster, Topic

PARTITIONS: Final = 3
EACH: Final = 60
ANSWER_S: Final = 20.0
SOON: Final = {"reconnect.backoff.max.ms": 100, "retry.backoff.max.ms": 100, "log_level": 0}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics=[Topic("orders", partitions=PARTITIONS)]) as running:
        running.wait_until_in_sync()
        yield running


class Ledger:
    """What became of each record: accepted for certain, perhaps, or only handed out."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.unsaid: set[str] = set()  # perhaps: the client's answer does not name their partition
        self.again: list[str] = []
        self.counts: dict[str, list[int]] = {}

    def work(self, consumer: ShareConsumer) -> int:
        """Take records and accept them; returns how many are accepted, perhaps or for certain."""
        taken = take(consumer)
        for message in taken:
            value = (message.value() or b"").decode()
            self.counts.setdefault(value, []).append(message.delivery_count() or 0)
            self.again += [value] if value in self.accepted else []
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        if taken:
            answers = {f"{at.topic}-{at.partition}": error for at, error in consumer.commit_sync(ANSWER_S).items()}
            for message in taken:
                value, place = (message.value() or b"").decode(), f"{message.topic()}-{message.partition()}"
                if place not in answers:
                    self.unsaid.add(value)
                elif answers[place] is None:
                    self.accepted.add(value)
        return len(self.accepted | self.unsaid)


def member_of(cluster: EmbeddedCluster, group: str = "workers") -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 10,
            **SOON,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def fill(cluster: EmbeddedCluster, start: int, end: int) -> set[str]:
    values = {partition: [f"{partition}-{number}" for number in range(start, end)] for partition in range(PARTITIONS)}
    # By a client that sends again: with a node that has just ended, a set may be too small for a moment.
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, **SOON})
    for partition, of_partition in values.items():
        for value in of_partition:
            sender.produce("orders", value, partition=partition)
    assert sender.flush(ANSWER_S) == 0
    return {value for of_partition in values.values() for value in of_partition}


VICTIMS: Final[dict[str, Callable[[EmbeddedCluster], int]]] = {
    "the leader of a partition": lambda cluster: cluster.leader_of("orders", 1),
    "the coordinator": lambda cluster: cluster.coordinator_of("workers"),
    "the keeper of the progress": lambda cluster: cluster.leader_of("__share_group_state"),
}


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("ends", ["kill", "stop"])
def test_no_accepted_record_comes_again_where_a_leader_ends(cluster: EmbeddedCluster, victim: str, ends: str) -> None:
    configure(cluster.bootstrap, "workers", share_auto_offset_reset="earliest")
    wanted, ledger = fill(cluster, 0, EACH), Ledger()
    with closing(member_of(cluster)) as first, closing(member_of(cluster)) as second:
        until(lambda: ledger.work(first) >= EACH // 2, what="records of the first member")
        until(lambda: ledger.work(second) >= EACH, what="records of the second member")
        getattr(cluster, ends)(VICTIMS[victim](cluster))
        wanted |= fill(cluster, EACH, EACH + 10)

        def are_all_accepted() -> bool:
            ledger.work(first)
            return ledger.work(second) == len(wanted)

        until(are_all_accepted, what="all records", deadline_s=60)
    assert ledger.accepted | ledger.unsaid == wanted
    assert ledger.again == [], f"delivered: {ledger.counts}; of {ledger.unsaid} the client said nothing"
    for values in ledger.counts.values():
        assert values == sorted(set(values)), "a count of deliveries only rises"
