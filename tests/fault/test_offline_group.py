"""A node one of whose partition groups is damaged: its topics are offline, all others are served, and it says so."""

import pathlib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from bench.kafka_bytes import FetchLayout, ProduceReplyLayout, fetch_request, produce_request, record_batch
from bench.processes import DidNotStart
from bench.raw_client import RawConnection, create_topic
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.support.confluent import DEADLINE_S, consumer, read_partition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not IS_HUTONG, reason="knows the layout of Hutong's files"),
]
LOST, SOUND = "lost", "sound"  # in the groups `days` and `hours`
STORAGE_ERROR = 56


def produce(node: Node, topic: str) -> int:
    with RawConnection(node.address) as connection:
        return ProduceReplyLayout.of(topic).error_code(connection.call(produce_request(topic, record_batch([b"v"]))))


def fetch(node: Node, topic: str, offset: int) -> int:
    with RawConnection(node.address) as connection:
        return FetchLayout.of(topic).error_code(connection.call(fetch_request(topic, offset, wait_ms=0)))


def damage(journal: pathlib.Path) -> None:
    """Rot in what was flushed, with more behind it."""
    content = bytearray(journal.read_bytes())
    content[130] ^= 1
    journal.write_bytes(content)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    """Killed before any checkpoint, with five records in each topic and a member at offset 3."""
    with Node(tmp_path, "metrics.listen=127.0.0.1:0") as running:
        create_topic(running.address, LOST, records=0)
        create_topic(running.address, SOUND, configs={"retention.ms": "3600000"}, records=0)
        for topic in (LOST, SOUND) * 5:
            assert produce(running, topic) == 0
        member = consumer(running.address, "group")
        for offset in (1, 2, 3):  # damage in the only chunk would be taken for a torn tail
            member.commit(offsets=[TopicPartition(LOST, 0, offset)], asynchronous=False)
        member.close()
        running.kill()
        yield running


def test_the_other_groups_are_served_and_it_is_told(node: Node) -> None:
    (journal,) = (node.folder / "data" / "groups" / "days").glob("*.journal")
    damage(journal)
    before = journal.read_bytes()
    node.start()
    assert len(read_partition(node.address, SOUND)) == 5
    assert produce(node, SOUND) == 0
    assert produce(node, LOST) == STORAGE_ERROR
    assert [fetch(node, LOST, offset) for offset in (0, 3, 500)] == [STORAGE_ERROR] * 3, "never out of range"
    admin = AdminClient({"bootstrap.servers": node.address})
    about = admin.list_topics(timeout=DEADLINE_S).topics
    assert about[LOST].partitions[0].leader == -1
    error = about[LOST].partitions[0].error
    assert error is not None
    assert error.code() == KafkaError.LEADER_NOT_AVAILABLE
    assert about[SOUND].partitions[0].leader >= 0
    (sentence,) = [line for line in node.log_path.read_text().splitlines() if "group days is offline" in line]
    assert str(journal) in sentence
    assert f"`hutong doctor {node.folder / 'data'}` says what can be done" in sentence
    check_what_is_told_over_http(node)
    check_that_nobody_begins_anew(node)
    with pytest.raises(KafkaException, match="offline"):
        admin.create_topics([NewTopic("more", 1)])["more"].result(DEADLINE_S)
    assert node.stop() == 0
    assert journal.read_bytes() == before, "nothing was changed"


def check_what_is_told_over_http(node: Node) -> None:
    page = f"http://{node.process.fields['metrics']}"
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(f"{page}/readyz", timeout=10)
    assert b"partition group days is offline: " in refused.value.read()
    with urllib.request.urlopen(f"{page}/metrics?detail=full", timeout=10) as metrics:
        lines = metrics.read().decode().splitlines()
    assert 'hutong_group_failed{group="days"} 1' in lines
    assert 'hutong_group_failed{group="hours"} 0' in lines


def check_that_nobody_begins_anew(node: Node) -> None:
    """A member that would read from the beginning, were it told that its offset is out of range."""
    admin = AdminClient({"bootstrap.servers": node.address, "socket.timeout.ms": 5_000})
    asked = admin.list_offsets({TopicPartition(LOST, 0): OffsetSpec.latest()}, request_timeout=5)
    with pytest.raises(KafkaException):
        asked[TopicPartition(LOST, 0)].result(DEADLINE_S)
    member: Consumer = consumer(node.address, "group")
    (committed,) = member.committed([TopicPartition(LOST, 0)], timeout=DEADLINE_S)
    member.close()
    assert committed.offset == 3


def test_a_repaired_group_is_back(node: Node) -> None:
    (journal,) = (node.folder / "data" / "groups" / "days").glob("*.journal")
    damage(journal)
    node.start()
    assert produce(node, LOST) == STORAGE_ERROR
    node.stop()
    doctor = [sys.executable, "-m", "hutong", "doctor", "--repair", "--yes", str(node.folder / "data")]
    subprocess.run(doctor, check=True, capture_output=True)
    node.start()
    assert produce(node, LOST) == 0
    until(lambda: len(read_partition(node.address, LOST)) == 5, what="what was not lost, and the new one")


@pytest.mark.parametrize("group", ["metadata", "offsets"])
def test_without_its_state_a_node_does_not_start(node: Node, group: str) -> None:
    (journal,) = (node.folder / "data" / "groups" / group).glob("*.journal")
    damage(journal)
    with pytest.raises(DidNotStart) as refused:
        node.start()
    (sentence,) = [line for line in str(refused.value).splitlines() if line.startswith("hutong: ")]
    assert "says what can be done" in sentence
