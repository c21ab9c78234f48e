"""The pause of RocketMQ's producers when a node dies: `python -m bench rocketmq-failover [--rounds 10]`.

Strategy: three nodes, each message on all three. RocketMQ's Java client, with the settings that it comes with, sends by
some threads, each one message after another. Each round a node that leads queues is killed with SIGKILL. The pause of a
thread is the longest time between two of its acknowledgements, from the kill on until it has sent a message that it
began later. Then the node starts again, and the next round waits until all replicas are in sync.

In the end everything is read by Kafka's protocol: what was acknowledged must be there. A message may be there twice,
since the node that has it and the client both try again at the next leader.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.rocketmq import NEW, SOURCE, RocketPeer

from bench.cluster_processes import HOST, ClusterProcess, ClusterProcesses
from bench.failover import CLIENT, NODES, PARTITIONS, STEADY_S, TOPIC, WAIT_S_MAX, until_true, victim_of, whole
from bench.figures import WeightedSamples
from bench.targets import free_port, scratch_folder

THREADS: Final = 8
INTERVAL_MS: Final = 10
END_S_MAX: Final = 30.0


@dataclass(slots=True)
class Sender:
    """The acknowledgements of one thread of the client."""

    times_s: list[float] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    longest_ms: int = 0  # of one send, since the last look
    newest_begun_s: float = 0.0  # when the newest acknowledged send began


class JavaLoad:
    """Java's client, sending while entered."""

    def __init__(self, name_servers: str, folder: pathlib.Path) -> None:
        self.senders = [Sender() for _ in range(THREADS)]
        self.failures: Counter[str] = Counter()
        peer = RocketPeer(NEW, folder, source=SOURCE.with_name("SteadyPeer.java"))
        self._process = peer.start_with_input(name_servers, TOPIC, str(THREADS), str(INTERVAL_MS))
        self._reader = threading.Thread(target=self._read, name="acknowledgements")

    def __enter__(self) -> "JavaLoad":
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            thread, number, outcome, took_ms, _queue = line.split()
            sender, now_s = self.senders[int(thread)], time.monotonic()
            sender.longest_ms = max(sender.longest_ms, int(took_ms))
            if outcome != "ok":
                self.failures[outcome] += 1
                continue
            sender.times_s.append(now_s)
            sender.numbers.append(f"{thread}-{number}")
            sender.newest_begun_s = now_s - int(took_ms) / 1e3

    def wait_for_begun_after(self, moment_s: float) -> None:
        """Return when each thread has an acknowledgement of a send that began after that moment."""
        until_true(lambda: all(each.newest_begun_s > moment_s for each in self.senders), "sends taken")


def main(words: Sequence[str]) -> int:
    options = _arguments(words)
    with scratch_folder(options.dir) as scratch:
        folder = pathlib.Path(scratch)
        cluster = ClusterProcesses(folder / "nodes", NODES)
        ports = {number: free_port() for number in cluster.nodes}
        for number, port in ports.items():
            own = [*cluster.arguments, "--rocketmq", f"{HOST}:{port}"]
            cluster.nodes[number] = ClusterProcess(number, folder / f"node-{number}", own)
        with cluster:
            name_servers = ";".join(f"{HOST}:{port}" for port in ports.values())
            pauses_s, problems = _measure(cluster, name_servers, folder, options.rounds)
    samples = WeightedSamples()
    for pause_s in pauses_s:
        samples.add(pause_s, 1)
    p50, p99, longest = samples.percentiles(0.50, 0.99, 1.0)
    print(
        f"pause p50 {p50 * 1e3:.0f}, p99 {p99 * 1e3:.0f}, longest {longest * 1e3:.0f} ms, of {THREADS} threads in "
        f"{options.rounds} rounds"
    )
    for problem in problems:
        print(problem)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"pauses_s": pauses_s, "problems": problems}) + "\n")
    return 1 if problems else 0


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench rocketmq-failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="default %(default)s")
    parser.add_argument("--dir", metavar="DIR", help="where nodes keep their data (default: the temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="also write every pause as JSON")
    return parser.parse_args(words)


def _measure(
    cluster: ClusterProcesses, name_servers: str, folder: pathlib.Path, rounds: int
) -> tuple[list[float], list[str]]:
    """Every pause, and what is wrong in the end."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **CLIENT})
    until_true(lambda: len(admin.list_topics(timeout=10).brokers) == NODES, "all nodes are known")
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, NODES)]).values():
        made.result(WAIT_S_MAX)
    pauses_s: list[float] = []
    victims = itertools.cycle(range(1, NODES + 1))
    with JavaLoad(name_servers, folder) as load:
        for number in range(rounds):
            victim, _ = victim_of(whole(admin), victims)
            load.wait_for_begun_after(time.monotonic())
            time.sleep(STEADY_S)
            for sender in load.senders:
                sender.longest_ms = 0
            since_s = time.monotonic()
            cluster.nodes[victim].kill()
            load.wait_for_begun_after(time.monotonic())
            found = [_pause_s(sender, since_s) for sender in load.senders]
            longest_ms = max(sender.longest_ms for sender in load.senders)
            cluster.nodes[victim].start()
            told = ", ".join(f"{pause * 1e3:.0f}" for pause in found)
            print(f"kill {number + 1}: node {victim}, {told} ms; longest send {longest_ms} ms", file=sys.stderr)
            pauses_s += found
    return pauses_s, _wrong(cluster.bootstrap, load)


def _pause_s(sender: Sender, since_s: float) -> float:
    """The longest time without an acknowledgement that ended after `since_s`."""
    return max((later - earlier for earlier, later in pairwise(list(sender.times_s)) if later > since_s), default=0.0)


def _wrong(bootstrap: str, load: JavaLoad) -> list[str]:
    """Acknowledged messages that are not there."""
    stored = Counter(value for partition in range(PARTITIONS) for value in _values(bootstrap, partition))
    acknowledged = [number for sender in load.senders for number in sender.numbers]
    lost = [number for number in acknowledged if number not in stored]
    twice = sum(count - 1 for count in stored.values())
    print(
        f"{len(acknowledged)} messages acknowledged, {len(lost)} of them lost; {twice} stored twice; failed sends: "
        f"{dict(load.failures) or 'none'}"
    )
    return [f"{len(lost)} acknowledged messages are lost: {lost[:3]}"] if lost else []


def _values(bootstrap: str, partition: int) -> list[str]:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **CLIENT})
    found: list[str] = []
    try:
        _, end = reader.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_S_MAX)
        reader.assign([TopicPartition(TOPIC, partition, 0)])
        give_up, newest = time.monotonic() + WAIT_S_MAX, -1
        while newest < end - 1 and time.monotonic() < give_up:
            for message in reader.consume(1000, 0.1):
                value, offset = message.value(), message.offset()
                if message.error() is None and isinstance(value, bytes) and offset is not None:
                    found.append(value.decode())
                    newest = offset
    finally:
        reader.close()
    return found
