"""The cost of shards of coordinators, and their gain: `python -m bench coordinators`.

Strategy: for each number of shards (`cluster.coordinators`) three nodes of their own, and a ZooKeeper. Figures of an
idle node come from the kernel, as the least and the most of the three nodes. Then groups commit offsets, each its next
one as soon as the last is answered. Clusters take turns. The start is that of an embedded cluster in this process.

Prints the table of docs/cluster.md.
"""

import argparse
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_processes import ClusterProcess, ClusterProcesses
from bench.figures import cpu_seconds, memory
from hutong.testing import EmbeddedCluster

NODES: Final = 3
SHARDS: Final = (1, 3, 12)
TOPIC: Final = "committed"
ANSWER_S: Final = 30.0
AGAIN_S: Final = 0.1
COLUMNS: Final = (
    "`cluster.coordinators`",
    "Partition groups",
    "Threads of a node",
    "Its memory",
    "Its idle processor time",
    "Open files",
    "Start in one process",
    "Commits a second",
)


@dataclass(slots=True)
class Shards:
    """All that was measured with one number of shards, a value for each node and turn."""

    count: int
    groups: set[int] = field(default_factory=set)
    threads: list[int] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    cpu_percent: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    start_s: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)

    def row(self) -> str:
        """Its row of the table."""
        cells = (
            str(self.count),
            _span(sorted(self.groups), "{:d}"),
            _span(self.threads, "{:d}"),
            f"{_span(self.rss_mb, '{:.0f}')} MB",
            f"{statistics.median(self.cpu_percent):.1f} %",
            _span(self.files, "{:d}"),
            f"{_span(self.start_s, '{:.1f}')} s",
            _span(self.commits, "{:,.0f}"),
        )
        return f"| {' | '.join(cells)} |"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench coordinators", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="of each number of shards (default %(default)s)")
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS, help="numbers of shards (default %(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="(default %(default)s)")
    parser.add_argument("--groups", type=int, default=48, help="that commit (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of commits (default %(default)s)")
    options = parser.parse_args(words)
    measured = [Shards(count) for count in options.shards]
    for _ in range(options.turns):
        for shards in measured:
            shards.start_s.append(_embedded_start_s(shards.count))
            with tempfile.TemporaryDirectory(prefix="hutong-bench-") as folder:
                settings = {"cluster.coordinators": shards.count}
                with ClusterProcesses(pathlib.Path(folder), NODES, settings) as cluster:
                    _look(cluster, shards, options.idle_seconds)
                    shards.commits.append(_commits_a_second(cluster.bootstrap, options.groups, options.seconds))
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for shards in measured:
        print(shards.row())
    return 0


def _embedded_start_s(count: int) -> float:
    """Seconds in which a whole cluster starts in this process."""
    begun_s = time.perf_counter()
    with EmbeddedCluster(NODES, settings={"cluster.coordinators": str(count)}):
        return time.perf_counter() - begun_s


def _look(cluster: ClusterProcesses, shards: Shards, idle_s: float) -> None:
    """Note the figures of all nodes, of which no client wants anything."""
    nodes = list(cluster.nodes.values())
    begun = [cpu_seconds(_pid(node)) for node in nodes]
    begun_s = time.perf_counter()
    threading.Event().wait(idle_s)
    elapsed_s = time.perf_counter() - begun_s
    shards.cpu_percent += [
        100 * (cpu_seconds(_pid(node)) - before) / elapsed_s for node, before in zip(nodes, begun, strict=True)
    ]
    for node in nodes:
        process = pathlib.Path(f"/proc/{_pid(node)}")
        shards.groups.add(sum(path.is_dir() for path in (node.data / "groups").iterdir()))
        shards.threads.append(len(list((process / "task").iterdir())))
        shards.files.append(len(list((process / "fd").iterdir())))
        shards.rss_mb.append(memory(_pid(node)).rss_mb)


def _pid(node: ClusterProcess) -> int:
    assert node.process is not None, "it runs"
    return node.process.process.pid


def _commits_a_second(bootstrap: str, groups: int, seconds: float) -> float:
    """Answered commits of all groups together."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, -1)])[TOPIC].result(ANSWER_S)
    settings = {"bootstrap.servers": bootstrap, "enable.auto.commit": False, "log_level": 2}
    members = [Consumer({**settings, "group.id": f"group-{number}"}) for number in range(groups)]
    with ThreadPoolExecutor(groups) as pool:
        list(pool.map(_commit_first, members))  # finds its coordinator before the clock runs
        until_s = time.perf_counter() + seconds
        counts = list(pool.map(lambda member: _commit_until(member, until_s), members))
        list(pool.map(Consumer.close, members))
    return sum(counts) / seconds


def _commit_first(member: Consumer) -> None:
    until_s = time.perf_counter() + ANSWER_S
    while True:
        try:
            member.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        except KafkaException:
            # A coordinator of a new cluster may still load, or hand over to the node that is to lead.
            if time.perf_counter() > until_s:
                raise
            threading.Event().wait(AGAIN_S)
        else:
            return


def _commit_until(member: Consumer, until_s: float) -> int:
    count = 0
    while time.perf_counter() < until_s:
        count += 1
        member.commit(offsets=[TopicPartition(TOPIC, 0, count)], asynchronous=False)
    return count


def _span(values: Sequence[float], form: str) -> str:
    """The least and the most, or the one value."""
    show: Callable[[float], str] = form.format
    least, most = show(min(values)), show(max(values))
    return least if least == most else f"{least} to {most}"
