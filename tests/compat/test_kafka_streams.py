"""Kafka Streams with `group.protocol=streams` (KIP-1071): a word count with a repartition topic and a state store.

The program is `java_kafka/StreamsScenarios.java`: it starts two instances, ends one half-way, and prints what came of
it. With TEST_BROKER (see `support/node.py`) the same runs against Apache Kafka 4.3, which prints the same.
"""

import pathlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from tests.compat.report import cells
from tests.support.kafka_tools import QUICK_START, Shell, Tools
from tests.support.maven import java_program
from tests.support.node import Node

VERSION: Final = "4.3.0"
SOURCE: Final = pathlib.Path(__file__).parent / "java_kafka" / "StreamsScenarios.java"
RUN_S_MAX: Final = 180.0
FILLS: Final = cells("Java 4.x", VERSION)
AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"
WORDS: Final = ", ".join(f"word{number}=40" for number in range(10))
pytestmark = pytest.mark.timeout(300)


def expected(standbys: int) -> list[str]:
    """What the program prints: two members with eight tasks between them, then one with all of them."""
    return [
        "listed Streams Stable",
        f"members 2 active 8 standby {4 * standbys}",
        "subtopologies 2",
        f"counts {{all=400, {WORDS}}}",
        "exact true",
        "listed Streams Stable",
        "members 1 active 8 standby 0",
        "subtopologies 2",
    ]


def program() -> list[str]:
    return java_program(
        f"kafka-streams-{VERSION}",
        SOURCE,
        f"org.apache.kafka:kafka-streams:{VERSION}",
        "org.slf4j:slf4j-nop:1.7.36",
        options=QUICK_START,
    )


def counted(bootstrap: str, name: str, folder: pathlib.Path, guarantee: str, standbys: int) -> list[str]:
    words = [*program(), "count", bootstrap, name, str(folder), guarantee, str(standbys)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("guarantee", "standbys"),
    [
        pytest.param(EXACTLY_ONCE, 1, marks=FILLS("group-streams")),
        pytest.param(AT_LEAST_ONCE, 0, marks=pytest.mark.thorough),
    ],
)
def test_words_are_counted_while_instances_come_and_go(
    bootstrap: str, name: str, tmp_path: pathlib.Path, guarantee: str, standbys: int
) -> None:
    assert counted(bootstrap, name, tmp_path, guarantee, standbys) == expected(standbys)


@contextmanager
def instance(bootstrap: str, folder: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    words = [*program(), "run", bootstrap, "app", str(folder), EXACTLY_ONCE, "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("state RUNNING" in line for line in process.stdout), "the instance ended before it ran"
            yield process
        finally:
            process.kill()


@pytest.mark.thorough
def test_a_killed_instance_loses_nothing(tmp_path: pathlib.Path) -> None:
    settings = (
        "group.streams_session_timeout_ms=6000",
        "group.streams_min_session_timeout_ms=6000",
        "group.streams_heartbeat_interval_ms=1000",
        "group.streams_min_heartbeat_interval_ms=1000",
    )
    with Node(tmp_path, *settings) as node:
        producer = Producer({"bootstrap.servers": node.address})
        for topic in ("app-lines", "app-counts"):
            producer.list_topics(topic, timeout=10)
        with instance(node.address, tmp_path / "one"), instance(node.address, tmp_path / "other") as other:
            for number in range(500):
                producer.produce("app-lines", f"word{number % 10} all", str(number))
            producer.flush()
            other.kill()
            for number in range(500, 1000):
                producer.produce("app-lines", f"word{number % 10} all", str(number))
            producer.flush()
            numbers = counts_until(node.address, 1000)
    assert {word: values[-1] for word, values in numbers.items()} == {
        "all": 1000,
        **{f"word{number}": 100 for number in range(10)},
    }
    assert all(values == sorted(set(values)) for values in numbers.values()), "a count came twice"


DESCRIBED: Final = """\
$ streams-groups --list --state
GROUP STATE
app Stable

$ streams-groups --describe --group app --state
GROUP COORDINATOR (ID) STATE #MEMBERS
app HOST:PORT (1) Stable 1

$ streams-groups --describe --group app --members
GROUP MEMBER PROCESS CLIENT-ID ASSIGNMENTS
app MEMBER UUID app-UUID-StreamThread-1-consumer ACTIVE: 0:[0]; 1:[0];

$ streams-groups --delete --group app

Error: Deletion of some streams groups failed:
* Group 'app' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException: REASON

"""


@pytest.mark.thorough
def test_kafkas_tool_describes_a_running_application(tmp_path: pathlib.Path) -> None:
    with Node(tmp_path) as node, Tools() as tools:
        producer = Producer({"bootstrap.servers": node.address})
        for topic in ("app-lines", "app-counts"):
            producer.list_topics(topic, timeout=10)
        with instance(node.address, tmp_path / "one"):
            shell = Shell(tools, node.address, "run", tmp_path)
            shell("streams-groups", "--list", "--state")
            shell("streams-groups", "--describe", "--group", "app", "--state")
            members = ("--describe", "--group", "app", "--members")
            shell("streams-groups", *members, then=[lambda text: re.sub(r"app [\w-]{22} ", "app MEMBER ", text)])
            shell("streams-groups", "--delete", "--group", "app")
    assert shell.transcript == DESCRIBED


def counts_until(bootstrap: str, total: int) -> dict[str, list[int]]:
    """The counts of each word, until all words have come so often."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.subscribe(["app-counts"])
    numbers: dict[str, list[int]] = {}
    while sum(values[-1] for values in numbers.values()) < 2 * total:
        message = consumer.poll(60)
        assert message is not None, f"no more counts after {numbers}"
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        numbers.setdefault(key.decode(), []).append(int.from_bytes(value, "big"))
    consumer.close()
    return numbers
