"""A node that is killed under a share group: what was accepted never comes again, the rest does, and counts go on.

Members of the real client accept some records, release others and leave the rest, while the node is killed and started
again. Each acceptance that was answered is remembered; what comes again after it is a fault.

TEST_KILL_ROUNDS says how often it is killed (2 by default).
"""

import os
import pathlib
from collections import Counter
from collections.abc import Iterator

import pytest
from bench.raw_client import create_topic
from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.support.confluent import producer, send
from tests.support.node import Node

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
ROUNDS = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
RECORDS = 400
TOPIC, GROUP = "tasks", "workers"
POLLS_MAX = 2_000


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, "share.record_lock_duration_ms=2000") as running:
        create_topic(running.address, TOPIC, partitions=2, records=0)
        admin = AdminClient({"bootstrap.servers": running.address})
        entries = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
        resource = ConfigResource(
            ResourceType.GROUP,
            GROUP,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in entries.items()
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(10)
        yield running


class Worker:
    """One member. Of each batch it accepts what it is told to, and releases the others."""

    def __init__(self, address: str) -> None:
        self.accepted: set[tuple[int, int]] = set()  # partition and offset, of what was answered
        self.uncertain: set[tuple[int, int]] = set()  # sent, and not answered
        self.again: list[tuple[int, int]] = []
        self.counts: Counter[tuple[int, int]] = Counter()
        self.backwards: list[tuple[tuple[int, int], int, int]] = []
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.subscribe([TOPIC])

    def work(self, share: int) -> int:
        """Take what there is; accept the records whose offset does not divide by `share`."""
        taken = [message for message in self._consumer.poll(0.2) if message.error() is None]
        mine: set[tuple[int, int]] = set()
        for message in taken:
            place = (int(message.partition() or 0), int(message.offset() or 0))
            self._look_at(place, int(message.delivery_count() or 0))
            accepts = not share or place[1] % share
            self._consumer.acknowledge(message, AcknowledgeType.ACCEPT if accepts else AcknowledgeType.RELEASE)
            if accepts:
                mine.add(place)
        if taken:
            self._commit(mine)
        return len(taken)

    def _look_at(self, place: tuple[int, int], count: int) -> None:
        if place in self.accepted:
            self.again.append(place)
        if count < self.counts[place]:
            self.backwards.append((place, self.counts[place], count))
        self.counts[place] = count

    def _commit(self, mine: set[tuple[int, int]]) -> None:
        try:
            outcomes = self._consumer.commit_sync(10)
        except KafkaException:
            self.uncertain |= mine
            return
        failed = {each.partition for each, error in outcomes.items() if error is not None}
        self.uncertain |= {place for place in mine if place[0] in failed}
        self.accepted |= {place for place in mine if place[0] not in failed}

    def close(self) -> None:
        self._consumer.close()


def test_what_was_accepted_never_comes_again(node: Node) -> None:
    send(producer(node.address), TOPIC, [b"%d" % number for number in range(RECORDS // 2)], partition=0)
    send(producer(node.address), TOPIC, [b"%d" % number for number in range(RECORDS // 2)], partition=1)
    worker = Worker(node.address)
    for number in range(ROUNDS):
        before, polls = len(worker.accepted), 0
        while len(worker.accepted) == before and polls < POLLS_MAX and len(worker.accepted) < RECORDS // 2:
            worker.work(share=number + 2)
            polls += 1
        node.kill()
        node.start()
    polls = 0
    while len(worker.accepted | worker.uncertain) < RECORDS and polls < POLLS_MAX:
        worker.work(share=0)
        polls += 1
    while worker.work(share=0):
        pass
    worker.close()
    assert worker.again == []
    assert worker.backwards == []
    assert worker.accepted | worker.uncertain == {(p, offset) for p in range(2) for offset in range(RECORDS // 2)}
