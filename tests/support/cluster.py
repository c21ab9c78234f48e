"""A cluster of real processes for tests: its standing as a client sees it, and what its nodes have on their disks.

Strategy: whether a cluster is whole again is asked of every node, by Kafka's metadata. Replicas are compared by the
offline reader of journals: a journal is the same on all replicas, byte for byte, up to the last chunk they share.

Skips where ZooKeeper's jars or a Java are missing. Knows nothing of tests.
"""

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from bench.cluster_processes import ClusterProcesses
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic
from tests.support.confluent import consumer
from tests.support.waiting import until
from tests.support.zookeeper import make_zookeeper

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.journal.files.disk import RealDisk
from hutong.journal.recover.inspect import Inspector, JournalProblem

SESSION_MS: Final = 2000
ANSWER_S: Final = 10.0
LOOK_S: Final = 0.1
WHOLE_S_MAX: Final = 60.0
UNKNOWN: Final = -1
SETTINGS: Final[Mapping[str, object]] = {"cluster.session_timeout_ms": SESSION_MS}
Ends = Mapping[tuple[str, int], int]


class StoredChunk(NamedTuple):
    """One chunk of a journal, with a check sum of all of its bytes."""

    position: int
    epoch: int
    checksum: int


class Cluster(ClusterProcesses):
    """Nodes that a test may kill, stop and start again, and a client's view of them."""

    def __init__(self, folder: Path, count: int = 3, settings: Mapping[str, object] | None = None) -> None:
        zookeeper = self.make_zookeeper(folder / "zookeeper")
        super().__init__(folder, count, {**SETTINGS, **(settings or {})}, zookeeper=zookeeper)

    def make_zookeeper(self, folder: Path) -> DevelopmentZooKeeper:
        return make_zookeeper(folder)

    def metadata(self, number: int | None = None) -> ClusterMetadata | None:
        """The cluster as a node, or any, describes it; None where none answers in time."""
        address = self.bootstrap if number is None else self.nodes[number].address
        try:
            return AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=ANSWER_S)
        except KafkaException:
            return None

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Make a topic with three replicas, and return once all nodes know it and all replicas are in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = admin.create_topics([NewTopic(topic, partitions, -1, config=dict(configs or {}))])
        made[topic].result(ANSWER_S)
        self.wait_whole(topic)

    def wait_whole(self, topic: str) -> None:
        """Return once every running node says that all replicas of the topic are in sync, and agrees on who leads."""

        def is_whole() -> bool:
            return len({self._standing(number, topic) for number in self._running()} - {None}) == 1 and not any(
                self._standing(number, topic) is None for number in self._running()
            )

        until(is_whole, deadline_s=WHOLE_S_MAX, what=f"{topic} in sync on {self._running()}", between_s=LOOK_S)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node that leads the partition, by the word of any."""

        def leader() -> int:
            metadata = self.metadata()
            found = metadata.topics.get(topic) if metadata else None
            return found.partitions[partition].leader if found and partition in found.partitions else -1

        return until(lambda: max(0, leader()), what=f"a leader of {topic}", between_s=LOOK_S)

    def controller(self) -> int:
        def found() -> int:
            metadata = self.metadata()
            return max(0, metadata.controller_id) if metadata else 0

        return until(found, what="a controller", between_s=LOOK_S)

    def ends(self, topic: str, partitions: int) -> dict[tuple[str, int], int]:
        """The high watermark of each partition. Leaders may still move back to where they belong."""
        asker = consumer(self.bootstrap, "asker")

        def end(partition: int) -> int:
            try:
                return asker.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)[1]
            except KafkaException:
                return UNKNOWN

        def known_end(partition: int) -> int:
            found = until(lambda: end(partition) - UNKNOWN, what=f"the end of {topic}/{partition}", between_s=LOOK_S)
            return found + UNKNOWN

        try:
            return {(topic, number): known_end(number) for number in range(partitions)}
        finally:
            asker.close()

    def tails(self, lines: int = 15) -> str:
        """The ends of all logs, for a failure."""
        shown = []
        for node in self.nodes.values():
            text = node.log.read_text(errors="replace") if node.log.exists() else ""
            shown.append(f"--- node {node.number}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(shown)

    def _running(self) -> list[int]:
        return [number for number, node in self.nodes.items() if node.is_running and not node.is_paused]

    def _standing(self, number: int, topic: str) -> tuple[tuple[int, int, int], ...] | None:
        """(partition, leader, replicas) of the topic; None where a leader or a replica in sync is missing."""
        metadata = self.metadata(number)
        found = metadata.topics.get(topic) if metadata else None
        if found is None or found.error is not None or not found.partitions:
            return None
        rows = []
        for index, partition in sorted(found.partitions.items()):
            if partition.leader < 0 or set(partition.isrs) != set(partition.replicas):
                return None
            rows.append((index, partition.leader, len(partition.replicas)))
        return tuple(rows)


def stored_journals(data: Path) -> dict[str, list[StoredChunk]]:
    """All chunks of each partition group in the folder of a stopped node. Raises AssertionError for damage."""
    return {path.name: list(_stored_chunks(path)) for path in sorted((data / "groups").iterdir()) if path.is_dir()}


def _stored_chunks(path: Path) -> Iterator[StoredChunk]:
    content_of: tuple[Path | None, bytes] = (None, b"")  # of the segment that is read, once: it has thousands of chunks
    for segment, part in Inspector(RealDisk(), path).contents():
        assert not isinstance(part, JournalProblem), str(part)
        if content_of[0] != segment.path:
            content_of = segment.path, segment.path.read_bytes()
        start = part.header.position - segment.base_position
        content = memoryview(content_of[1])[start : start + part.header.end - part.header.position]
        yield StoredChunk(part.header.position, part.header.leader_epoch, zlib.crc32(content))


def replica_differences(folders: Sequence[Path]) -> list[str]:
    """Where the journals of stopped replicas differ below the last chunk that two of them share.

    Two logs with a chunk of one epoch at one position must be the same up to it: what lies behind was never committed.
    """
    stored = [stored_journals(folder) for folder in folders]
    found = []
    for (one, ones), (other, others) in combinations(zip(folders, stored, strict=True), 2):
        for group in sorted(ones.keys() & others.keys()):
            difference = _first_difference(ones[group], others[group])
            if difference:
                found.append(f"{group} of {one} and {other}: {difference}")
    return found


def _first_difference(one: Sequence[StoredChunk], other: Sequence[StoredChunk]) -> str:
    # Retention and cleaning remove chunks at the front of each replica as it likes.
    start = max(chunks[0].position if chunks else 0 for chunks in (one, other))
    ours, theirs = ({chunk.position: chunk for chunk in chunks if chunk.position >= start} for chunks in (one, other))
    shared = [at for at in ours.keys() & theirs.keys() if ours[at].epoch == theirs[at].epoch]
    if not shared:
        return "nothing is shared" if ours and theirs else ""
    end = max(shared)
    for at in sorted(ours.keys() | theirs.keys()):
        if at > end:
            break
        if ours.get(at) != theirs.get(at):
            return f"at position {at}: {ours.get(at)} and {theirs.get(at)}"
    return ""


def missing_below(folders: Sequence[Path], topic: str, ends: Ends) -> list[str]:
    """Replicas of stopped nodes that lack records below the high watermarks."""
    hutong = Path(sys.executable).with_name("hutong")
    found = []
    for folder in folders:
        words = [str(hutong), "dump", str(folder), "--topic", topic, "--runs", "--json", "--limit", "0"]
        output = subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout
        reached: dict[str, int] = {}
        for run in map(json.loads, output.splitlines()):
            reached[run["log"]] = max(reached.get(run["log"], 0), run["base_offset"] + run["offsets"])
        for (name, partition), end in ends.items():
            if reached.get(f"{name}/{partition}", 0) < end:
                found.append(f"{folder}: {name}/{partition} ends at {reached.get(f'{name}/{partition}', 0)} of {end}")
    return found
