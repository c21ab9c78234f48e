"""kcat, the command-line client of librdkafka."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.compat.report import cells
from tests.support.node import Node

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
DEADLINE_S = 30.0


def version() -> str:
    if KCAT is None:
        return ""
    told = subprocess.run([KCAT, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version (\S+) .*librdkafka ([0-9.]+)", told)
    return f"{found[1]} (librdkafka {found[2]})" if found else ""


FILLS = cells("kcat", version)
thorough = pytest.mark.thorough
LINES = b"".join(b"%d\n" % number for number in range(20))


def kcat(bootstrap: str, *words: str, standard_input: bytes = b"") -> bytes:
    command = [str(KCAT), "-b", bootstrap, *words]
    return subprocess.run(command, input=standard_input, capture_output=True, check=True, timeout=DEADLINE_S).stdout


@FILLS("headers", "cluster")
def test_lists_produces_and_consumes(bootstrap: str, brokers: dict[int, str], topic: str) -> None:
    metadata = json.loads(kcat(bootstrap, "-L", "-J"))
    assert {broker["id"]: broker["name"] for broker in metadata["brokers"]} == brokers
    assert topic in [found["topic"] for found in metadata["topics"]]
    lines = b"".join(b"%d:value %d\n" % (number, number) for number in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-H", "from=kcat", "-z", "lz4", standard_input=lines)
    read = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %s %h\n").splitlines()
    assert read == [b"%d %d value %d from=kcat" % (number, number, number) for number in range(100)]


def test_a_new_node_lists_no_topic_and_the_internal_ones_with_their_use(tmp_path: Path) -> None:
    """As Apache Kafka does, which makes `__consumer_offsets` for the first group."""
    with Node(tmp_path) as node:
        head = f"Metadata for all topics (from broker 1: {node.address}/1):\n 1 brokers:\n  broker 1 at {node.address} "
        told = kcat(node.address, "-L").decode()
        assert told == f"{head}(controller)\n 0 topics:\n"
        kcat(node.address, "-P", "-t", "orders", standard_input=b"1\n")
        kcat(node.address, "-G", "billing", "orders", "-c", "1", "-X", "auto.offset.reset=earliest")
        told = kcat(node.address, "-L").decode()
        assert re.findall(r'topic "(\S+)" with 1 partitions', told) == ["__consumer_offsets", "orders"]
        assert told.count("    partition 0, leader 1, replicas: 1, isrs: 1\n") == 2
        assert b"1 topics" in kcat(node.address, "-L", "-t", "__hutong_metadata"), "by name it is there"


@FILLS("group-commit")
def test_balanced_consumer_resumes(bootstrap: str, topic: str) -> None:
    def consume(count: int) -> bytes:
        return kcat(bootstrap, "-G", topic, topic, "-c", str(count), "-q", "-X", "auto.offset.reset=earliest")

    kcat(bootstrap, "-P", "-t", topic, standard_input=b"0\n1\n2\n3\n4\n")
    assert consume(3) == b"0\n1\n2\n"
    assert consume(2) == b"3\n4\n"


@FILLS("offsets-for-times")
def test_query_of_offsets_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, standard_input=b"0\n1\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").split() == [f"{topic}".encode(), b"[0]", b"offset", b"0"]


def produce(bootstrap: str, topic: str, lines: bytes = LINES, *words: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, *words, standard_input=lines)


def consume(bootstrap: str, topic: str, *words: str) -> bytes:
    return kcat(bootstrap, "-C", "-t", topic, "-e", "-q", *words)


@thorough
@FILLS("produce-acks", "produce-idempotent")
@pytest.mark.parametrize("setting", ["acks=0", "acks=1", "acks=all", "enable.idempotence=true"])
def test_acknowledgement_modes(bootstrap: str, topic: str, setting: str) -> None:
    produce(bootstrap, topic, LINES, "-X", setting)
    produce(bootstrap, topic, b"last\n")
    assert sorted(consume(bootstrap, topic).splitlines()) == sorted([*LINES.splitlines(), b"last"])


@thorough
@FILLS("compression")
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(bootstrap: str, topic: str, codec: str) -> None:
    lines = b"".join(b"compressible " * 50 + b"%d\n" % number for number in range(200))
    produce(bootstrap, topic, lines, "-z", codec)
    assert consume(bootstrap, topic) == lines


@thorough
@FILLS("nulls")
def test_null_key_and_null_value(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, b"tombstone:\n", "-K", ":", "-Z")
    produce(bootstrap, topic, b"value\n")
    read = consume(bootstrap, topic, "-J").splitlines()
    assert [(json.loads(line)["key"], json.loads(line)["payload"]) for line in read] == [
        ("tombstone", None),
        (None, "value"),
    ]


@thorough
@FILLS("large-records", "produce-errors")
def test_large_records(bootstrap: str, topic: str) -> None:
    line = os.urandom(450_000).hex().encode() + b"\n"
    produce(bootstrap, topic, line * 3, "-X", "message.max.bytes=1000000")
    assert consume(bootstrap, topic, "-X", "fetch.message.max.bytes=1000") == line * 3
    too_large = os.urandom(1_000_000).hex().encode() + b"\n"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        produce(bootstrap, topic, too_large, "-X", "message.max.bytes=8000000")
    assert b"Message size too large" in caught.value.stderr


@thorough
@FILLS("consume-range", "seek", "out-of-range", "offsets-for-times")
def test_from_anywhere(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic)
    numbers = LINES.splitlines()
    for begin, wanted in {"beginning": numbers, "15": numbers[15:], "-3": numbers[17:], "s@1": numbers}.items():
        assert consume(bootstrap, topic, "-o", begin).splitlines() == wanted
    beyond = consume(bootstrap, topic, "-o", "1000", "-X", "auto.offset.reset=earliest")
    assert beyond.splitlines() == numbers


class Member:
    """A member of a group named after the topic; what it owns is read from what it tells about rebalances."""

    def __init__(self, bootstrap: str, topic: str, *words: str) -> None:
        settings = ["session.timeout.ms=6000", "heartbeat.interval.ms=200", "auto.offset.reset=earliest", *words]
        options = [word for setting in settings for word in ("-X", setting)]
        command = [str(KCAT), "-b", bootstrap, "-G", topic, *options, topic]
        self._partition = re.compile(rf"{re.escape(topic)} \[(\d+)\]")
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._owned: set[str] = set()

    def owns(self, count: int) -> None:
        """Returns once it owns that many partitions."""
        assert self._process.stderr
        for line in self._process.stderr:
            parts = set(self._partition.findall(line))
            if "revoke" in line:
                self._owned -= parts
            elif "assign" in line:
                self._owned |= parts
            if len(self._owned) == count:
                return

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with self._process:
            pass


@thorough
@FILLS("group-rebalance", "group-cooperative", "group-static")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("static", [False, True])
def test_two_members_share(bootstrap: str, wide_topic: str, strategy: str, static: bool) -> None:
    def words(name: str) -> list[str]:
        return [f"partition.assignment.strategy={strategy}", *([f"group.instance.id={name}"] if static else [])]

    with Member(bootstrap, wide_topic, *words("one")) as first:
        first.owns(4)
        with Member(bootstrap, wide_topic, *words("two")) as second:
            first.owns(2)
            second.owns(2)
        first.owns(4)  # of a static member's share after the end of its session


@thorough
@FILLS("txn-commit")
def test_a_transaction_of_all_its_input(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, LINES, "-X", f"transactional.id={topic}")
    assert consume(bootstrap, topic, "-X", "isolation.level=read_committed") == LINES
