"""kafka-python (synchronous), used as its documentation shows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from tests.compat.report import cells
from tests.support.node import Node
from tests.support.waiting import until

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("leaked_sockets"),
]
DEADLINE_S = 30.0
FILLS = cells("kafka-python", kafka.__version__)
RESTLESS_GROUP = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}


@contextmanager
def opened_producer(bootstrap: str, **settings: Any) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    try:
        yield producer
    finally:
        producer.close()


@contextmanager
def opened_consumer(bootstrap: str, *topics: str, **settings: Any) -> Iterator[KafkaConsumer]:
    grouped = RESTLESS_GROUP if settings.get("group_id") else {}
    consumer = KafkaConsumer(
        *topics, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **{**grouped, **settings}
    )
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def opened_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def send(bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0, **settings: Any) -> None:
    with opened_producer(bootstrap, **settings) as producer:
        futures = [producer.send(topic, value, partition=partition) for value in values]
        for future in futures:
            future.get(DEADLINE_S)


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    give_up = time.monotonic() + DEADLINE_S
    records: list[Any] = []
    while len(records) < count:
        for batch in consumer.poll(timeout_ms=100, max_records=count - len(records)).values():
            records += batch
        assert time.monotonic() < give_up, f"{len(records)} of {count} records"
    return records


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


def poll_until(condition: Callable[[], bool], *consumers: KafkaConsumer) -> None:
    """Polls the consumers until the condition holds; nothing may arrive meanwhile."""
    give_up = time.monotonic() + DEADLINE_S
    while not condition():
        for consumer in consumers:
            assert not consumer.poll(timeout_ms=50)
        assert time.monotonic() < give_up


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


@FILLS("headers")
def test_records_come_back_whole_and_in_order(bootstrap: str, topic: str) -> None:
    headers = [("trace", b"00-abc"), ("trace", b"again"), ("empty", b"")]
    with opened_producer(bootstrap) as producer:
        future = producer.send(topic, b"0", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123)
        sent = future.get(DEADLINE_S)
        assert (sent.partition, sent.offset) == (0, 0)
    with opened_consumer(bootstrap, topic) as consumer:
        (record,) = read(consumer, 1)
    assert (record.key, record.value, record.offset) == (b"key", b"0", 0)
    assert list(record.headers) == headers
    assert (record.timestamp, record.timestamp_type) == (1_700_000_000_123, 0)


@FILLS("compression")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_compression(bootstrap: str, topic: str, codec: str | None) -> None:
    sent = [b"compressible " * 50 + str(number).encode() for number in range(200)]
    try:
        send(bootstrap, topic, sent, compression_type=codec)
    except RuntimeError as error:  # it brings no library for any codec but gzip
        pytest.skip(f"kafka-python: {error}")
    with opened_consumer(bootstrap, topic) as consumer:
        assert values(read(consumer, 200)) == sent


@FILLS("produce-acks", "produce-idempotent")
@pytest.mark.parametrize(
    "settings",
    [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}],
    ids=["none", "leader", "all", "idempotent"],
)
def test_acknowledgement_modes(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    send(bootstrap, topic, numbered(300), **{"enable_idempotence": False, **settings})
    with opened_consumer(bootstrap, topic) as consumer:
        assert values(read(consumer, 300)) == numbered(300)


@FILLS("offsets-for-times")
def test_offsets_for_times_and_ends(bootstrap: str, topic: str) -> None:
    begun_ms = 1_700_000_000_000
    with opened_producer(bootstrap) as producer:
        for number in range(5):
            producer.send(topic, b"v", timestamp_ms=begun_ms + number * 1000).get(DEADLINE_S)
    partition = TopicPartition(topic, 0)
    with opened_consumer(bootstrap, topic) as consumer:
        found = consumer.offsets_for_times({partition: begun_ms + 1001})
        assert (found[partition].offset, found[partition].timestamp) == (2, begun_ms + 2000)
        assert consumer.offsets_for_times({partition: begun_ms + 9000}) == {partition: None}
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 5}


@FILLS("group-rebalance")
def test_two_members_share_a_group_and_rebalance(bootstrap: str, wide_topic: str) -> None:
    with opened_consumer(bootstrap, wide_topic, group_id=wide_topic) as first:
        poll_until(lambda: len(first.assignment()) == 4, first)
        with opened_consumer(bootstrap, wide_topic, group_id=wide_topic) as second:
            poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
            assert not first.assignment() & second.assignment()
            for partition in range(4):
                send(bootstrap, wide_topic, numbered(10, f"{partition}/"), partition=partition)
            seen = values(read(first, 20)) + values(read(second, 20))
            assert sorted(seen) == sorted(value for p in range(4) for value in numbered(10, f"{p}/"))
            first.commit()
            second.commit()
        poll_until(lambda: len(first.assignment()) == 4, first)
        send(bootstrap, wide_topic, [b"after"], partition=2)
        assert values(read(first, 1)) == [b"after"]


@FILLS("group-commit")
def test_a_restarted_consumer_resumes_where_it_committed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, numbered(30))
    partition = TopicPartition(topic, 0)
    settings = {"group_id": topic, "enable_auto_commit": False}
    with opened_consumer(bootstrap, topic, **settings) as consumer:
        assert values(read(consumer, 10)) == numbered(10)
        consumer.commit({partition: OffsetAndMetadata(10, "noted", -1)})
        assert consumer.committed(partition, metadata=True).metadata == "noted"
    with opened_consumer(bootstrap, topic, **settings) as consumer:
        assert values(read(consumer, 20)) == numbered(30)[10:]


@FILLS("topics")
def test_topics_are_created_described_and_deleted(bootstrap: str, name: str) -> None:
    with opened_admin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "3600000"})])
        until(lambda: name in admin.list_topics(), what="the topic is listed")
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        admin.delete_topics([name])
        until(lambda: name not in admin.list_topics(), what="the topic is gone")


@FILLS("groups-described")
def test_group_is_described_and_listed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, numbered(1))
    with opened_consumer(bootstrap, topic, group_id=topic) as consumer, opened_admin(bootstrap) as admin:
        assert values(read(consumer, 1)) == numbered(1)
        consumer.commit()
        assert topic in str(admin.list_groups())
        assert topic in str(admin.describe_groups([topic]))
        offsets = admin.list_group_offsets([topic])
        assert "offset=1" in str(offsets)


def test_clients_live_through_a_restart_of_the_node(own_node: Node, name: str) -> None:
    settings = {"group_id": name, "enable_auto_commit": False}
    with opened_producer(own_node.address, retry_backoff_ms=50, reconnect_backoff_max_ms=200) as producer:
        for value in numbered(20, "before/"):
            producer.send(name, value).get(DEADLINE_S)
        with opened_consumer(own_node.address, name, reconnect_backoff_max_ms=200, **settings) as consumer:
            assert values(read(consumer, 12)) == numbered(20, "before/")[:12]
            consumer.commit()
            own_node.restart()
            for value in numbered(20, "after/"):
                producer.send(name, value).get(DEADLINE_S)
            resumed = values(read(consumer, 28))
            assert sorted(set(resumed)) == sorted([*numbered(20, "before/")[12:], *numbered(20, "after/")])
        with opened_consumer(own_node.address, name, **settings) as consumer:
            assert values(read(consumer, 28)) == [*numbered(20, "before/")[12:], *numbered(20, "after/")]
