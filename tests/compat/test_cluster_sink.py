"""The sink's transactions on a cluster, without Spark: the nodes that lead and coordinate them die between its steps.

Each version counts once and whole, wherever a node died.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from typing import Final

import pytest
from tests.compat.test_sink_transactions import batch, see, write
from tests.support.waiting import until

from hutong.foundation.errors import HutongError
from hutong.pipelines.client.cluster import ClusterSettings, parse_bootstrap
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.transactions import TransactionClient
from hutong.pipelines.errors import HalfDone
from hutong.pipelines.sink.commit.driver import Committer
from hutong.pipelines.sink.commit.record import application_query, transactional_id
from hutong.testing import EmbeddedCluster, Topic

TOPIC: Final = "rows"
ATTEMPTS_MAX: Final = 10
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not find_spec("pyarrow") or not find_spec("numba"), reason="needs the extra spark"),
]
VICTIMS: Final[dict[str, Callable[[EmbeddedCluster, str], int]]] = {
    "the leader of a partition": lambda cluster, _: cluster.leader_of(TOPIC),
    "the coordinator of transactions": lambda cluster, query: cluster.coordinator_of(
        transactional_id(query, "driver"), "transaction"
    ),
    "the coordinator of the record": lambda cluster, query: cluster.coordinator_of(f"hutong-{query}"),
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics=[Topic(TOPIC, partitions=2)]) as running:
        running.wait_until_in_sync()
        yield running


class Job:
    """A job that writes versions, and runs again where it failed, in the clients of a new process each time."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.query = application_query("nightly", TOPIC)
        self.failures: list[Exception] = []

    def count(self, version: int, texts: list[str], between: Callable[[], None]) -> None:
        """Write a version, and commit it. `between` is called once between both."""
        for attempt in range(ATTEMPTS_MAX):
            settings = ClusterSettings(parse_bootstrap(self._cluster.bootstrap))
            with closing(open_cluster(settings)) as opened:
                try:
                    worker = TransactionClient(opened)
                    committer = Committer(worker)
                    if committer.settle(self.query, version):
                        return
                    tasks = [write(worker, self.query, f"{version}-{attempt}-{text}", TOPIC, [text]) for text in texts]
                    if attempt == 0:
                        between()
                    committer.commit_version(batch(self.query, TOPIC, version, *tasks))
                except (HutongError, HalfDone) as error:
                    self.failures.append(error)
                else:
                    return
        raise AssertionError(f"version {version} was not written: {self.failures}")


@pytest.mark.parametrize(
    ("ends", "victim"), [*(("kill", victim) for victim in VICTIMS), ("stop", "the coordinator of transactions")]
)
def test_each_version_counts_once_where_a_leader_ends(cluster: EmbeddedCluster, ends: str, victim: str) -> None:
    job = Job(cluster)
    expected: list[str] = []
    for version in range(3):
        texts = [f"{version}a", f"{version}b"]
        expected += texts

        def end_a_node(version: int = version) -> None:
            if version == 1:
                getattr(cluster, ends)(VICTIMS[victim](cluster, job.query))

        job.count(version, texts, end_a_node)
    see(cluster.bootstrap, TOPIC, expected)
    with closing(open_cluster(ClusterSettings(parse_bootstrap(cluster.bootstrap)))) as opened:
        worker = TransactionClient(opened)
        until(lambda: worker.open_ids(f"hutong-{job.query}") == [], what="the end of all transactions", between_s=0.05)
