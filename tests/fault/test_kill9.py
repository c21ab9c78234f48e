"""A node that is killed, or told to stop, under load: what was acknowledged is there, in order, and nothing is doubled.

TEST_KILL_ROUNDS says how often it is killed (3 by default).
"""

import os
import pathlib
import signal
from collections.abc import Callable, Iterator

import pytest
from bench.kafka_bytes import fetch_request, produce_request, record_batch
from bench.raw_client import RawConnection, create_topic
from confluent_kafka import TopicPartition
from tests.support.confluent import consumer, offset_of, producer, read, read_partition, send, values
from tests.support.load import CARELESS, RecordedLoad
from tests.support.log_checker import LOST, Anomaly, check
from tests.support.mixed_load import MixedLoad
from tests.support.node import IS_HUTONG, Node

from hutong.journal.files.disk import RealDisk
from hutong.journal.recover.inspect import Inspector

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]
ROUNDS = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
PARTITIONS = 4
KILLS_UNTIL_FELT_MAX = 5
RECORDS_PER_ROUND = 3000
MIXED_PER_ROUND = 1000  # of every producer
TOPIC = "load"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    # Small files: they die while the node runs, and become new segments.
    with Node(tmp_path, *(["log.segment_bytes=2097152"] if IS_HUTONG else [])) as running:
        create_topic(running.address, TOPIC, partitions=PARTITIONS, records=0)
        yield running


def kill(node: Node) -> None:
    node.kill()


def stop(node: Node) -> None:
    assert node.stop() == 0


def anomalies(node: Node, load: RecordedLoad, topic: str = TOPIC) -> list[Anomaly]:
    """Reads every partition whole and judges the history by it."""
    final = {(topic, partition): final_read(node, topic, partition) for partition in range(PARTITIONS)}
    return check(load.history, final_reads=final)


def problems_in(node: Node) -> list[str]:
    """The findings of `hutong doctor` in the files of a stopped node."""
    groups = (node.folder / "data" / "groups").iterdir()
    return [str(problem) for group in groups for problem in Inspector(RealDisk(), group).problems()]


def final_read(node: Node, topic: str, partition: int) -> list[tuple[int, bytes]]:
    messages = read_partition(node.address, topic, partition)
    return list(zip(map(offset_of, messages), values(messages), strict=True))


@pytest.mark.parametrize("end", [kill, stop], ids=["kill", "stop"])
def test_acknowledged_records_outlive_the_process(node: Node, end: Callable[[Node], None]) -> None:
    with RecordedLoad(node.address, TOPIC, PARTITIONS) as load:
        for _ in range(ROUNDS):
            load.wait_for_acknowledged(RECORDS_PER_ROUND)
            end(node)
            node.start()
        load.wait_for_acknowledged(RECORDS_PER_ROUND)
    assert not load.errors
    assert load.acknowledged >= (ROUNDS + 1) * RECORDS_PER_ROUND
    assert anomalies(node, load) == []


def test_several_producers_and_a_kill_while_starting(node: Node) -> None:
    with RecordedLoad(node.address, TOPIC, PARTITIONS) as load:
        for _ in range(ROUNDS):
            load.wait_for_acknowledged(RECORDS_PER_ROUND // 3)
            kill(node)
            node.start()
            kill(node)  # again, before or while the clients are back
            node.start()
        load.wait_for_acknowledged(RECORDS_PER_ROUND // 3)
    assert not load.errors
    assert anomalies(node, load) == []


def test_everything_at_once_survives_kill_9(node: Node) -> None:
    with MixedLoad(node.address) as load:
        for _ in range(ROUNDS):
            load.wait_for_acknowledged(MIXED_PER_ROUND)
            kill(node)
            node.start()
        load.wait_for_acknowledged(MIXED_PER_ROUND)
    assert load.anomalies(node.address) == []
    assert load.wrong_topics(node.address) == set()
    assert load.history.committed, "the group never came to commit"
    assert node.stop() == 0
    if IS_HUTONG:
        assert problems_in(node) == []


@pytest.mark.skipif(not IS_HUTONG, reason="the quality of service is Hutong's")
def test_a_kill_is_felt_where_records_are_acknowledged_from_memory(node: Node) -> None:
    """Shows that the tests above can fail: QoS RECEIVE promises nothing over a kill, and the loss is found.

    A kill that comes just after a flush loses nothing, so there may be several.
    """
    for attempt in range(KILLS_UNTIL_FELT_MAX):
        topic = f"careless-{attempt}"
        create_topic(node.address, topic, partitions=PARTITIONS, configs={"hutong.qos": "receive"}, records=0)
        with RecordedLoad(node.address, topic, PARTITIONS, **CARELESS) as load:
            load.wait_for_acknowledged(RECORDS_PER_ROUND)
            kill(node)
            node.start()
            load.wait_for_acknowledged(1)
        if LOST in {anomaly.kind for anomaly in anomalies(node, load, topic)}:
            return
    pytest.fail(f"{KILLS_UNTIL_FELT_MAX} kills lost nothing that was in memory alone")


def test_committed_offsets_outlive_the_process(node: Node) -> None:
    send(producer(node.address), TOPIC, [b"%d" % number for number in range(100)], partition=0)
    place = TopicPartition(TOPIC, 0)
    for committed in (10, 40, 70):
        group = f"readers-{committed}"
        reader = consumer(node.address, group, enable_auto_commit=False)
        reader.subscribe([TOPIC])
        try:
            read(reader, 1)
            reader.commit(offsets=[TopicPartition(TOPIC, 0, committed)], asynchronous=False)
        finally:
            node.kill()
            node.start()
            reader.close()
        reader = consumer(node.address, group, enable_auto_commit=False)
        (kept,) = reader.committed([place], 30)
        reader.close()
        assert kept.offset == committed


def test_a_topic_outlives_the_process_as_it_was_made(node: Node) -> None:
    create_topic(node.address, "made", partitions=7, configs={"retention.ms": "123456"}, records=0)
    sent = [b"first", b"second"]
    send(producer(node.address), "made", sent, partition=6)
    node.kill()
    node.start()
    asker = producer(node.address)
    assert len(asker.list_topics("made", 30).topics["made"].partitions) == 7
    assert values(read_partition(node.address, "made", 6)) == sent


def test_a_stopping_node_answers_what_it_took(node: Node) -> None:
    """Every request that was received before the signal is answered, parked fetches included."""
    create_topic(node.address, "drained")
    batch = record_batch([b"value"])
    with RawConnection(node.address) as writing, RawConnection(node.address) as waiting:
        waiting.send(fetch_request("drained", 1, wait_ms=60_000))
        for number in range(64):
            writing.send(produce_request("drained", batch, correlation_id=number))
        assert writing.receive()[4:8] == (0).to_bytes(4, "big")  # they are being taken in order
        node.process.send_signal(signal.SIGTERM)
        answered = 1
        try:
            while True:
                assert writing.receive()[4:8] == answered.to_bytes(4, "big")
                answered += 1
        except ConnectionError:
            pass
        assert node.process.wait(60) == 0
    node.start()
    stored = len(read_partition(node.address, "drained")) - 1
    assert answered <= stored <= 64
