"""A query from topic to topic on three nodes, while the leader of what it writes is killed: each record once.

A driver needs ten seconds and more until it runs, so the default run leaves this out, as `test_pipeline_kill`.
"""

import pathlib
from collections.abc import Iterator

import pytest
from tests.fault.test_pipeline_kill import (
    PARTITIONS,
    PER_SECOND,
    SOURCE,
    TARGET,
    Driver,
    content,
    pytestmark,
    wait_for_batches,
    wait_until_copied,
)
from tests.support.cluster import Cluster
from tests.support.load import RecordedLoad

__all__ = ["pytestmark"]


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        for topic in (SOURCE, TARGET):
            running.create_topic(topic, PARTITIONS)
        yield running


@pytest.fixture
def driver(cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[Driver]:
    running = Driver(tmp_path, cluster.bootstrap)
    try:
        yield running
    finally:
        running.close()


def test_each_record_is_copied_once_where_a_leader_is_killed(cluster: Cluster, driver: Driver) -> None:
    with RecordedLoad(cluster.bootstrap, SOURCE, PARTITIONS, per_second_max=PER_SECOND):
        wait_for_batches(driver, 2)
        killed = [cluster.leader_of(TARGET)]
        cluster.kill(killed)
        wait_for_batches(driver, 2)
        cluster.start(killed)
        cluster.wait_whole(TARGET)
        wait_for_batches(driver, 2)
    expected = content(cluster.bootstrap, SOURCE)
    wait_until_copied(cluster.bootstrap, driver, sum(expected.values()))
    assert content(cluster.bootstrap, TARGET) == expected
