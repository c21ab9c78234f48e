"""A topic of an embedded cluster whose partitions are moved, one by one, while clients use them."""

from itertools import count
from threading import Thread
from typing import Any, Final

from confluent_kafka import Producer
from tests.support.waiting import until

from hutong.broker.topics.partition import Partition
from hutong.replication.driver import GroupReplica
from hutong.testing import EmbeddedCluster
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from hutong.wire.kafka.error_codes import ErrorCode

TIMEOUT_S: Final = 30
RETRY_SOON: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}
_numbers = count()


class MoveScene:
    """A topic of three partitions, which share a group with those of all other topics."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.topic = f"orders{next(_numbers)}"
        cluster.create_topic(self.topic, partitions=3)
        self.sent: dict[int, list[str]] = {0: [], 1: [], 2: []}

    def producer(self, **properties: object) -> Producer:
        properties = {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True} | properties
        return Producer({**properties, **RETRY_SOON})

    def send(self, producer: Producer, records: int) -> None:
        """Send so many records, in turns to the partitions; `sent` has them."""
        for number in range(records):
            self.sent[number % 3].append(f"{len(self.sent[number % 3])}")
            producer.produce(self.topic, self.sent[number % 3][-1], partition=number % 3)
            producer.poll(0)

    def replicas(self, partition: int) -> list[int]:
        answer = self._answer(MetadataRequest([MetadataRequestTopic(name=self.topic)]), 9)
        found = {each.partition_index: each.replica_nodes for each in answer.topics[0].partitions}
        return found[partition]  # type: ignore[no-any-return]

    def others(self, partition: int) -> list[int]:
        """The replicas of a partition in another order."""
        first, *others = self.replicas(partition)
        return [*others, first]

    def ask(self, *partitions: int, replicas: list[int] | None) -> set[int]:
        """Ask for replicas of partitions; returns the codes of the answer."""
        asked = ReassignableTopic(self.topic, [ReassignablePartition(index, replicas) for index in partitions])
        answer = self._answer(AlterPartitionReassignmentsRequest(topics=[asked]), 0)
        return {each.error_code for each in answer.responses[0].partitions}

    def _answer(self, request: Any, version: int) -> Any:
        return self.cluster.run(self.cluster.observer._loopback.ask(request, version))

    def move(self, partition: int, replicas: list[int]) -> None:
        """Move one partition, and wait until it has these replicas."""
        # While the controller changes, nobody knows whether it was done; it may be asked for again.
        until(lambda: self.ask(partition, replicas=replicas) == {ErrorCode.NONE}, what="the answer", between_s=0.02)
        self.await_moves()
        until(lambda: self.replicas(partition) == replicas, what="the new replicas", between_s=0.02)

    def await_moves(self) -> None:
        """Wait until the controller says that nothing is on its way."""
        request = ListPartitionReassignmentsRequest(topics=None)

        def is_over() -> bool:
            answer = self._answer(request, 0)
            return answer.error_code == ErrorCode.NONE and not answer.topics

        until(is_over, what="the moves", between_s=0.02)

    def partition(self, node: int, index: int) -> Partition:
        """A partition as a node has it."""
        life = self.cluster.node(node).life
        assert life is not None
        assert life.sources.broker is not None
        found = life.sources.broker.topics.partition(self.topic, index)
        assert found is not None
        return found

    def replica(self, node: int, index: int) -> GroupReplica:
        """The replica of a partition's group on a node."""
        life = self.cluster.node(node).life
        assert life is not None
        return life.sources.replicas[self.partition(node, index).group]

    def groups(self) -> list[str]:
        """The group of each partition, as a node has it that runs."""
        node = next(each.number for each in self.cluster.nodes if each.life is not None)
        return [self.partition(node, index).group for index in range(3)]

    def check_records(self) -> None:
        """Assert that each partition has what was sent, in order, with the offsets from 0 on."""
        for partition, texts in self.sent.items():
            records = self.cluster.records(self.topic, len(texts), partition=partition, timeout=TIMEOUT_S)
            assert [(record.offset, record.text) for record in records] == list(enumerate(texts))


class Sender:
    """Sends to all partitions by a thread of its own, until it is stopped: all is acknowledged then."""

    def __init__(self, scene: MoveScene) -> None:
        self._scene = scene
        self._is_stopping = False
        self._thread = Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join()

    def _run(self) -> None:
        producer = self._scene.producer()
        while not self._is_stopping:
            self._scene.send(producer, 3)
            producer.poll(0.005)
        assert producer.flush(TIMEOUT_S) == 0
