"""`hutong cluster verify` on three nodes: replicas that agree while producers write, and one that was damaged."""

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer

from hutong.cli import main
from hutong.cli.cluster import verification
from hutong.foundation.checksum import crc32c
from hutong.foundation.errors import ExitCode
from hutong.testing import EmbeddedCluster, Topic
from hutong.testing.cluster.member import ClusterMember
from hutong.wire.kafka.batch.records import CRC_START, parse_batch_header

TIMEOUT_S = 30
CRC_AT = CRC_START - 4
RECORDS = 40
SPOILED = 20
VALUE = b"record-%05d"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "LOOK_AGAIN_SECONDS", 0.01)


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as started:
        started.wait_until_in_sync()
        yield started


@pytest.fixture
def cluster(running: EmbeddedCluster, request: pytest.FixtureRequest) -> tuple[EmbeddedCluster, str]:
    """The cluster, and a topic of this test with one batch for each record, all in partition 1."""
    topic = f"orders-{request.node.name.partition('[')[0]}-{len(running.topics())}"
    running.create_topic(topic, partitions=3)
    producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0, "batch.num.messages": 1})
    for number in range(RECORDS):
        producer.produce(topic, VALUE % number + topic.encode(), partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    return running, topic


def verify(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document."""
    capsys.readouterr()
    code = main.run(["cluster", "verify", "-b", cluster.bootstrap, "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def change(member: ClusterMember, topic: str, *, seals: bool) -> None:
    """Change a byte of one record in a node's files; with `seals` the check sum of its batch agrees with that."""
    disk, wanted = member._disk, VALUE % SPOILED + topic.encode()
    changed = 0
    for path in list(disk._inner._names):  # type: ignore[attr-defined]
        with closing(disk.open(path)) as file:
            content = bytes(file.read(file.size(), 0))
            at = content.find(wanted)
            if path.suffix != ".journal" or at < 0:
                continue
            start = content.rindex(struct.pack(">q", SPOILED), 0, at)  # the base offset, with which its batch begins
            batch = bytearray(content[start : start + parse_batch_header(content, start).size])
            batch[at - start] ^= 1
            if seals:
                struct.pack_into(">I", batch, CRC_AT, crc32c(batch[CRC_START:]))
            file.write([bytes(batch)], start)
            changed += 1
    assert changed == 1


def holds_spoiled_record(member: ClusterMember, topic: str) -> bool:
    """Return True if the node's files have the record that `change` changes as it was sent."""
    disk = member._disk
    for path in list(disk._inner._names):  # type: ignore[attr-defined]
        with closing(disk.open(path)) as file:
            if path.suffix == ".journal" and VALUE % SPOILED + topic.encode() in bytes(file.read(file.size(), 0)):
                return True
    return False


def test_replicas_agree_while_producers_write(
    cluster: tuple[EmbeddedCluster, str], capsys: pytest.CaptureFixture[str]
) -> None:
    running, topic = cluster
    is_over = threading.Event()
    producer = Producer({"bootstrap.servers": running.bootstrap, "log_level": 0})

    def write() -> None:
        while not is_over.is_set():
            producer.produce(topic, b"more", partition=0)
            producer.poll(0.001)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        outcomes = [verify(running, capsys) for _ in range(3)]
    finally:
        is_over.set()
        writing.join()
        producer.flush(TIMEOUT_S)
    assert [code for code, _ in outcomes] == [0, 0, 0]
    for _, document in outcomes:
        assert document["differences"] == []
        assert {row["group"] for row in document["groups"]} >= {"metadata", "offsets", "transactions", "share"}
        assert sum(row["offsets"] for row in document["groups"] if row["group"].startswith("days")) >= RECORDS


@pytest.mark.parametrize(("seals", "what"), [(False, "cannot be read"), (True, "is not the same")])
@pytest.mark.parametrize("of_leader", [False, True])
def test_a_damaged_replica_is_named(
    cluster: tuple[EmbeddedCluster, str],
    capsys: pytest.CaptureFixture[str],
    seals: bool,
    what: str,
    of_leader: bool,
) -> None:
    running, topic = cluster
    leader = running.leader_of(topic, 1)
    node = leader if of_leader else next(each.number for each in running.nodes if each.number != leader)
    change(running.node(node), topic, seals=seals)
    code, document = verify(running, capsys, "--topic", topic)
    assert code == ExitCode.DATAERR
    (found,) = document["differences"]
    assert (found["topic"], found["partition"], found["offset"]) == (topic, 1, SPOILED)
    assert found["group"].startswith("days")
    assert what in found["what"]
    # Of sound batches nobody knows which are right: those that differ from the leader's are named.
    assert found["nodes"] == (
        [each.number for each in running.nodes if each.number != leader] if seals and of_leader else [node]
    )


def test_a_replica_that_was_damaged_while_its_node_was_down(capsys: pytest.CaptureFixture[str]) -> None:
    """Its node finds the damage itself where that lies behind its last checkpoint; else the comparison does."""
    with EmbeddedCluster(topics=[Topic("down", partitions=2)]) as cluster:
        cluster.wait_until_in_sync()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "batch.num.messages": 1})
        for number in range(RECORDS):
            producer.produce("down", VALUE % number + b"down", partition=1)
        assert producer.flush(TIMEOUT_S) == 0
        node = next(each.number for each in cluster.nodes if each.number != cluster.leader_of("down", 1))
        cluster.stop(node)
        change(cluster.node(node), "down", seals=False)
        cluster.start(node)

        code, document = verify(cluster, capsys, "--topic", "down")
        if code == 0:
            # Behind its last checkpoint the node has cut it off, and may have it from the leader again by now.
            assert holds_spoiled_record(cluster.node(node), "down")
            return
        assert code == (ExitCode.DATAERR if document["differences"] else ExitCode.TEMPFAIL)
        rows = [row["nodes"] for row in document["differences"]] + [row["not_in_sync"] for row in document["groups"]]
        assert {each for nodes in rows for each in nodes} == {node}


def test_a_topic_that_is_not_there_is_told(running: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["cluster", "verify", "-b", running.bootstrap, "--topic", "none"]) == ExitCode.NOINPUT
    assert "No partition of none" in capsys.readouterr().err
