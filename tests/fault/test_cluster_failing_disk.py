"""A disk of one node fails with EIO under load: others lead, nothing acknowledged is lost, and a restart mends it.

The disk fails for one partition group, whose node goes on with the others, or for all that the node writes.
"""

import pathlib
from collections.abc import Iterator

import pytest
from bench.cluster_processes import ClusterProcess
from tests.fault.test_cluster_kill import judge
from tests.support.cluster import Cluster
from tests.support.cluster_load import TOPIC, ClusterLoad, create_topics
from tests.support.failing_disk import FailingDisk
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]


class FailingCluster(Cluster):
    """Nodes with a disk each in `disks`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.disks: dict[int, FailingDisk] = {}
        super().__init__(folder, settings={"log.io_uring": "false"})

    def make_node(self, number: int) -> ClusterProcess:
        disk = self.disks[number] = FailingDisk(self.folder / f"disk-{number}")
        return ClusterProcess(number, self.folder / f"node-{number}", self.arguments, prefix=disk.prefix)

    def leaders(self) -> set[int]:
        """The nodes that lead a partition of the load, by the word of those that are sound."""
        metadata = self.metadata()
        partitions = metadata.topics[TOPIC].partitions.values() if metadata and TOPIC in metadata.topics else ()
        return {partition.leader for partition in partitions} or set(self.nodes)

    def said_failure(self, number: int) -> bool:
        """Return True if the node's log says that a replica has failed."""
        return "'s replica of " in self.nodes[number].log.read_text()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[FailingCluster]:
    with FailingCluster(tmp_path) as running:
        create_topics(running)
        yield running


def fail(cluster: FailingCluster, load: ClusterLoad, number: int, path: pathlib.Path) -> None:
    """The disk fails below a path, another node leads, and the node comes back with a disk that was mended."""
    disk = cluster.disks[number]
    disk.fail(path)
    until(lambda: number not in cluster.leaders(), what=f"other leaders than node {number}", between_s=0.1)
    load.wait_for_progress()
    assert cluster.nodes[number].is_running
    disk.mend()
    cluster.nodes[number].kill()
    cluster.nodes[number].start()
    load.wait_for_progress()
    cluster.wait_whole(TOPIC)


@pytest.mark.parametrize("below", ["groups/days", ""], ids=["the groups of records", "all groups"])
def test_another_node_leads_and_nothing_acknowledged_is_lost(cluster: FailingCluster, below: str) -> None:
    with ClusterLoad(cluster.bootstrap) as load:
        load.wait_for_progress()
        for number in (cluster.leader_of(TOPIC), cluster.controller()):
            fail(cluster, load, number, cluster.nodes[number].data / below)
            assert cluster.said_failure(number)
    judge(cluster, load)
    assert load.history.committed, "the group never came to commit"
