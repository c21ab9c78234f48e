"""What a cluster of real processes makes of its surroundings: a slow ZooKeeper, other clocks, other versions.

Nothing acknowledged is lost, and each node says in one sentence what is wrong.
"""

import pathlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import pytest
from bench.cluster_processes import PATH, ClusterProcess
from bench.processes import DidNotStart
from tests.fault.test_cluster_kill import judge, kill
from tests.support import altered_node
from tests.support.cluster import SESSION_MS, Cluster
from tests.support.cluster_load import ClusterLoad, create_topics
from tests.support.slow_way import SlowWay
from tests.support.waiting import until

HOUR_MS: Final = 60 * 60 * 1000
LATE_S: Final = 0.1  # in each direction
LATE: Final = 3  # the node whose clock is ahead, and which speaks a later version of the protocol, too
START_TIMEOUT_MS: Final = 5_000
pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]


class AlteredCluster(Cluster):
    """Nodes of which some are altered: `altered` has the words for `altered_node.py` by number."""

    def __init__(self, folder: pathlib.Path, altered: dict[int, Sequence[int]]) -> None:
        self.altered = altered
        super().__init__(folder, settings={"cluster.start_timeout_ms": START_TIMEOUT_MS, "node.log_level": "info"})

    def make_node(self, number: int) -> ClusterProcess:
        words = map(str, self.altered.get(number, ()))
        prefix = [sys.executable, altered_node.__file__, *words] if number in self.altered else []
        return ClusterProcess(number, self.folder / f"node-{number}", self.arguments, prefix=prefix)

    def said(self, number: int, words: str) -> list[str]:
        """The lines of a node's log with these words in them."""
        return [line for line in self.nodes[number].log.read_text().splitlines() if words in line]


class SlowCluster(Cluster):
    """Its nodes reach ZooKeeper by a way that can be slow."""

    def __init__(self, folder: pathlib.Path, stack: ExitStack) -> None:
        super().__init__(folder)
        self.way = stack.enter_context(SlowWay(self.zookeeper.address))
        words = [f"zk://{self.way.address}{PATH}" if word.startswith("zk://") else word for word in self.arguments]
        self._arguments[:] = words
        self.nodes = {number: self.make_node(number) for number in self.nodes}


def test_zookeeper_that_answers_later_than_a_session(tmp_path: pathlib.Path) -> None:
    """It is as good as away: everything goes on, and nodes may die after it."""
    with ExitStack() as stack:
        cluster = stack.enter_context(SlowCluster(tmp_path, stack))
        create_topics(cluster)
        with ClusterLoad(cluster.bootstrap) as load:
            load.wait_for_progress()
            cluster.way.delay_s = 2 * SESSION_MS / 1000
            load.wait_for_progress()
            cluster.way.delay_s = 0.0
            load.wait_for_progress()
            kill(cluster, load, cluster.controller())
        judge(cluster, load)


def test_zookeeper_that_answers_late_is_late_and_no_more(tmp_path: pathlib.Path) -> None:
    """Kazoo gives a heartbeat 267 ms at least, where a session is two seconds, so that leaders change as ever."""
    with ExitStack() as stack:
        cluster = stack.enter_context(SlowCluster(tmp_path, stack))
        create_topics(cluster)
        with ClusterLoad(cluster.bootstrap) as load:
            load.wait_for_progress()
            cluster.way.delay_s = LATE_S
            kill(cluster, load, cluster.controller())
        judge(cluster, load)


def test_a_clock_an_hour_ahead_and_a_later_version(tmp_path: pathlib.Path) -> None:
    """Node 3 speaks a version that nobody else speaks, and those of the others: all use the common one."""
    with AlteredCluster(tmp_path, {LATE: (HOUR_MS, 1, 2)}) as cluster:
        create_topics(cluster)
        until(lambda: all(cluster.said(number, f"The clock of node {LATE} is 3,600 s ahead of") for number in (1, 2)))
        assert cluster.said(LATE, "The clock of node 1 is 3,600 s behind")
        for number in cluster.nodes:
            # Once for each link: a busy machine may lose one.
            assert len(cluster.said(number, "The clock of node")) <= len(cluster.said(number, "Linked with node"))
        assert all("by version 1 of the protocol" in line for line in cluster.said(LATE, "Linked with node"))
        with ClusterLoad(cluster.bootstrap) as load:
            load.wait_for_progress()
            # The one that is ahead leads, and then the others follow it.
            for number in (1, LATE):
                kill(cluster, load, number)
        judge(cluster, load)


def test_a_node_without_a_common_version_does_not_start(tmp_path: pathlib.Path) -> None:
    with AlteredCluster(tmp_path, {4: (0, 2, 3)}) as cluster:
        create_topics(cluster)
        stranger = cluster.make_node(4)
        with ClusterLoad(cluster.bootstrap) as load:
            load.wait_for_progress()
            with pytest.raises(DidNotStart):
                stranger.start()
            load.wait_for_progress()
            refusal = "No link with node 4 "
            told = "no version of the protocol between nodes is common to both: "
            for number in cluster.nodes:
                [said] = cluster.said(number, refusal)
                assert told in said
            text = stranger.log.read_text()
            for number in cluster.nodes:
                assert text.count(f"No link with node {number} ") == 1
            assert text.count(told) == len(cluster.nodes)
            assert "Traceback" not in text
            # Another program on the same folder: the upgrade that was missing.
            cluster.altered[4] = (0, 1, 2)
            joined = cluster.nodes[4] = cluster.make_node(4)
            joined.start()
            load.wait_for_progress()
        del cluster.nodes[4]
        assert joined.stop() == 0
        judge(cluster, load)
