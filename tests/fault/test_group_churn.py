"""Groups whose members come, go, die and fall asleep: nothing is left out, nothing has two owners, no commit is early.

Members are processes (`tests/support/churn.py`) of several client libraries. The churn lasts TEST_CHURN_SECONDS, which
are few by default; with more than a minute the groups have twenty members.
"""

import os
import pathlib
import zlib
from collections.abc import Iterator

import pytest
from bench.raw_client import create_topic
from confluent_kafka import Consumer, TopicPartition
from tests.support.churn import Churn, Kind
from tests.support.load import RecordedLoad
from tests.support.log_checker import check
from tests.support.node import IS_HUTONG, Node

SECONDS = float(os.environ.get("TEST_CHURN_SECONDS", "2"))
IS_LONG = SECONDS > 60 or os.environ.get("TEST_LONG") == "1"
pytestmark = [pytest.mark.fault, pytest.mark.timeout(int(SECONDS) + 300)]
SEATS = 20 if SECONDS > 60 else 4
PARTITIONS = 12
PER_SECOND = 500
SESSION_MS = 1500 if IS_HUTONG else 6000  # the least that Kafka takes
TOPIC = "churned"
RESTLESS = {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": "300"}
RANGE = {**RESTLESS, "partition.assignment.strategy": "range"}
SERVER_SIDE = {"group.protocol": "consumer"}  # KIP-848
NODE_SETTINGS = (
    "group.min_session_timeout_ms=500",
    "group.consumer_min_session_timeout_ms=500",
    f"group.consumer_session_timeout_ms={SESSION_MS}",
    "group.consumer_min_heartbeat_interval_ms=100",
    "group.consumer_heartbeat_interval_ms=300",
)
COOPERATIVE = {**RESTLESS, "partition.assignment.strategy": "cooperative-sticky"}

long_only = pytest.mark.skipif(not IS_LONG, reason="takes long: TEST_LONG=1 or TEST_CHURN_SECONDS")
GROUPS = [
    pytest.param([Kind("confluent", RANGE), Kind("kafka-python", RANGE)], id="range-confluent-and-kafka-python"),
    pytest.param(
        [Kind("confluent", RANGE), Kind("aiokafka", RANGE)], id="range-confluent-and-aiokafka", marks=long_only
    ),
    pytest.param([Kind("confluent", COOPERATIVE)], id="cooperative-sticky", marks=long_only),
    pytest.param(
        [Kind("confluent", RANGE, is_static=True), Kind("confluent", RANGE)], id="static-and-dynamic", marks=long_only
    ),
    pytest.param([Kind("confluent", COOPERATIVE, is_static=True)], id="static-cooperative-sticky", marks=long_only),
    pytest.param(
        [Kind("confluent", SERVER_SIDE), Kind("confluent", {**SERVER_SIDE, "client.rack": "here"})], id="server-side"
    ),
    pytest.param([Kind("confluent", SERVER_SIDE, is_static=True)], id="static-server-side", marks=long_only),
]


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, *NODE_SETTINGS) as running:
        create_topic(running.address, TOPIC, partitions=PARTITIONS, records=0)
        yield running


def ends_of(node: Node) -> dict[int, int]:
    asker = Consumer({"bootstrap.servers": node.address, "group.id": "asker"})
    try:
        return {
            partition: asker.get_watermark_offsets(TopicPartition(TOPIC, partition), 30)[1]
            for partition in range(PARTITIONS)
        }
    finally:
        asker.close()


@pytest.mark.parametrize("kinds", GROUPS)
def test_a_group_in_churn_leaves_nothing_out(node: Node, kinds: list[Kind], request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.name.encode())
    seats = [kinds[number % len(kinds)] for number in range(SEATS)]
    churn = Churn(node.folder / "members", node.address, "churning", TOPIC, seats, seed)
    try:
        with RecordedLoad(node.address, TOPIC, PARTITIONS, per_second_max=PER_SECOND):
            churn.run(SECONDS)
        ends = ends_of(node)
        churn.settle(ends)
        churn.leave()
    finally:
        churn.close()
    history, wrong = churn.history()
    print(f"{churn.events}, {len(history.owners)} ownerships, {sum(ends.values())} records")
    assert wrong == []
    assert history.owners
    assert {share: len(done) for share, done in history.processed.items()} == {
        churn.share(partition): end for partition, end in ends.items()
    }
    final_commits = {churn.share(partition): end for partition, end in churn.committed(ends).items()}
    assert check(history, final_reads={}, final_commits=final_commits) == []
