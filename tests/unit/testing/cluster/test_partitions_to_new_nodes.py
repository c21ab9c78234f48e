"""A partition that is moved to a node which has nothing of its group: its own records are copied, and nothing else."""

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.waiting import until
from tests.unit.testing.cluster.partition_moves import TIMEOUT_S, MoveScene

from hutong.replication.driver import GroupReplica
from hutong.testing import EmbeddedCluster

SETTINGS = {"cluster.slots": "1", "cluster.coordinators": "1"}
LARGE = 800_000


def stored_bytes(replica: GroupReplica) -> int:
    """The bytes of all segments of a replica."""
    journal = replica.journal
    segments = journal._parts.segments.all()
    return sum((segment.end_position or journal.position) - segment.base_position for segment in segments)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(4, settings=SETTINGS) as running:
        running.wait_until_in_sync()
        yield running


def test_only_its_own_records_are_copied(cluster: EmbeddedCluster) -> None:
    scene = MoveScene(cluster)
    for _ in range(20):
        cluster.produce(scene.topic, b"." * LARGE, partition=0)
    scene.send(producer := scene.producer(), 30)
    assert producer.flush(TIMEOUT_S) == 0
    before = scene.replicas(1)
    (new,) = {1, 2, 3, 4}.difference(before)
    scene.move(1, [new, *before[1:]])
    until(lambda: cluster.leader_of(scene.topic, 1) == new, what="the preferred leader", between_s=0.05)
    replica = scene.replica(new, 1)
    assert replica.journal.log_ids() == [scene.partition(new, 1).log.partition_id]
    assert stored_bytes(replica) < LARGE


def test_one_whose_records_were_all_deleted_is_moved_too(cluster: EmbeddedCluster) -> None:
    scene = MoveScene(cluster)
    scene.send(producer := scene.producer(), 30)
    assert producer.flush(TIMEOUT_S) == 0
    end = len(scene.sent[1])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([TopicPartition(scene.topic, 1, end)]).values():
        assert deleted.result(TIMEOUT_S).low_watermark == end
    before = scene.replicas(1)
    (new,) = {1, 2, 3, 4}.difference(before)
    scene.move(1, [new, *before[1:]])
    until(lambda: cluster.leader_of(scene.topic, 1) == new, what="the preferred leader", between_s=0.05)
    log = scene.partition(new, 1).log
    assert (log.start_offset, log.end_offset) == (end, end)
