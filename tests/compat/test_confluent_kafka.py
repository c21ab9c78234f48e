"""confluent-kafka (librdkafka), used as its documentation shows."""

import importlib.metadata
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.compat.report import cells
from tests.support.confluent import consumer, producer, read, read_partition, send, values
from tests.support.node import Node
from tests.support.waiting import until

HOUR_MS = 3_600_000
FILLS = cells("confluent-kafka", importlib.metadata.version("confluent-kafka"))


@contextmanager
def member(bootstrap: str, group: str, topic: str, **settings: Any) -> Iterator[Consumer]:
    joined = consumer(bootstrap, group, **settings)
    joined.subscribe([topic])
    try:
        yield joined
    finally:
        joined.close()


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


@FILLS("headers")
def test_records_come_back_whole_and_in_order(bootstrap: str, topic: str) -> None:
    headers = [("trace", b"00-abc"), ("trace", b"again"), ("empty", b""), ("none", None)]
    send(producer(bootstrap), topic, numbered(100), key=b"key", headers=headers, timestamp=1_700_000_000_123)
    messages = read_partition(bootstrap, topic)
    assert values(messages) == numbered(100)
    assert [message.offset() for message in messages] == list(range(100))
    assert messages[7].key() == b"key"
    assert messages[7].headers() == headers
    assert messages[7].timestamp() == (1, 1_700_000_000_123)


@FILLS("nulls")
def test_null_key_and_null_value(bootstrap: str, topic: str) -> None:
    to = producer(bootstrap)
    to.produce(topic, None, key=b"tombstone")
    to.produce(topic, b"", key=None)
    assert to.flush(30) == 0
    messages = read_partition(bootstrap, topic)
    assert [(message.key(), message.value()) for message in messages] == [(b"tombstone", None), (None, b"")]


@FILLS("compression")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(bootstrap: str, topic: str, codec: str) -> None:
    sent = [b"compressible " * 50 + str(number).encode() for number in range(200)]
    send(producer(bootstrap, compression_type=codec), topic, sent)
    assert values(read_partition(bootstrap, topic)) == sent


@FILLS("produce-acks")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgement_modes(bootstrap: str, topic: str, acks: str) -> None:
    send(producer(bootstrap, acks=acks), topic, numbered(50))
    with member(bootstrap, topic, topic) as reader:
        assert values(read(reader, 50)) == numbered(50)


@FILLS("produce-idempotent")
def test_idempotent_producer(bootstrap: str, wide_topic: str) -> None:
    to = producer(bootstrap, enable_idempotence=True)
    for partition in range(4):
        send(to, wide_topic, numbered(500, f"{partition}/"), partition=partition)
    for partition in range(4):
        assert values(read_partition(bootstrap, wide_topic, partition)) == numbered(500, f"{partition}/")


@FILLS("offsets-for-times")
def test_offsets_for_times(bootstrap: str, topic: str) -> None:
    begun_ms = int(time.time() * 1000) - 10 * HOUR_MS
    to = producer(bootstrap)
    for number in range(10):
        send(to, topic, [str(number).encode()], timestamp=begun_ms + number * HOUR_MS)
    reader = consumer(bootstrap, topic)
    try:
        for after_ms, offset in {-1: 0, 0: 0, 1: 1, 5 * HOUR_MS: 5, 9 * HOUR_MS + 1: -1}.items():
            (found,) = reader.offsets_for_times([TopicPartition(topic, 0, begun_ms + after_ms)], 30)
            assert found.offset == offset
    finally:
        reader.close()


@FILLS("group-rebalance")
def test_two_members_share_a_group_and_rebalance(bootstrap: str, wide_topic: str) -> None:
    to = producer(bootstrap)
    with member(bootstrap, wide_topic, wide_topic) as first:
        until(lambda: first.poll(0.1) or len(first.assignment()) == 4, what="the first member owns everything")
        with member(bootstrap, wide_topic, wide_topic) as second:

            def shared() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return len(first.assignment()) == len(second.assignment()) == 2

            until(shared, what="an even share")
            assert not {p.partition for p in first.assignment()} & {p.partition for p in second.assignment()}
            for partition in range(4):
                send(to, wide_topic, numbered(10, f"{partition}/"), partition=partition)
            seen = read(first, 20) + read(second, 20)
            assert sorted(values(seen)) == sorted(value for p in range(4) for value in numbered(10, f"{p}/"))
            first.commit(asynchronous=False)
            second.commit(asynchronous=False)
        until(lambda: first.poll(0.1) or len(first.assignment()) == 4, what="the first member owns everything again")
        send(to, wide_topic, [b"after"], partition=2)
        assert values(read(first, 1)) == [b"after"]


@FILLS("group-rebalance", "group-cooperative")
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_assignment_strategies(bootstrap: str, wide_topic: str, strategy: str) -> None:
    settings = {"partition_assignment_strategy": strategy}
    with member(bootstrap, wide_topic, wide_topic, **settings) as first:
        until(lambda: first.poll(0.1) or len(first.assignment()) == 4)
        with member(bootstrap, wide_topic, wide_topic, **settings) as second:

            def shared() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return len(first.assignment()) == len(second.assignment()) == 2

            until(shared, what="an even share")


@FILLS("group-commit")
def test_a_restarted_consumer_resumes_where_it_committed(bootstrap: str, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(30))
    with member(bootstrap, topic, topic, enable_auto_commit=False) as reader:
        assert values(read(reader, 10)) == numbered(10)
        reader.commit(offsets=[TopicPartition(topic, 0, 10, metadata="noted")], asynchronous=False)
        (kept,) = reader.committed([TopicPartition(topic, 0)], 30)
        assert (kept.offset, kept.metadata) == (10, "noted")
    with member(bootstrap, topic, topic, enable_auto_commit=False) as reader:
        assert values(read(reader, 20)) == numbered(30)[10:]


@FILLS("seek")
def test_seek_pause_and_resume(bootstrap: str, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(10))
    reader = consumer(bootstrap, topic, enable_auto_commit=False)
    try:
        partition = TopicPartition(topic, 0, 0)
        reader.assign([partition])
        assert values(read(reader, 10)) == numbered(10)
        reader.seek(TopicPartition(topic, 0, 4))
        assert values(read(reader, 6)) == numbered(10)[4:]
        reader.pause([partition])
        send(producer(bootstrap), topic, [b"later"])
        assert reader.poll(0.3) is None
        reader.resume([partition])
        assert values(read(reader, 1)) == [b"later"]
        assert reader.get_watermark_offsets(partition, 30) == (0, 11)
    finally:
        reader.close()


def test_a_waiting_consumer_gets_a_record_before_its_wait_is_over(bootstrap: str, topic: str) -> None:
    """The node may hold a fetch for ten times as long as the reader here has patience."""
    reader = consumer(bootstrap, topic, fetch_wait_max_ms=300_000, socket_timeout_ms=300_000, fetch_min_bytes=1)
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        reader.poll(0.5)  # its fetch is parked at the node now
        send(producer(bootstrap, linger_ms=0), topic, [b"now"])
        assert values(read(reader, 1)) == [b"now"]
    finally:
        reader.close()


@FILLS("topics")
def test_topics_are_created_described_and_deleted(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, num_partitions=3, replication_factor=1, config={"retention.ms": "3600000"})
    admin.create_topics([new])[name].result(30)
    assert len(admin.list_topics(name, 30).topics[name].partitions) == 3
    assert name in admin.list_topics(timeout=30).topics
    resource = ConfigResource(ResourceType.TOPIC, name)
    settings = admin.describe_configs([resource])[resource].result(30)
    assert settings["retention.ms"].value == "3600000"
    assert not settings["retention.ms"].is_default
    assert settings["max.message.bytes"].value == "1048588"
    with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([new])[name].result(30)
    admin.delete_topics([name])[name].result(30)
    until(lambda: name not in admin.list_topics(timeout=30).topics, what="the topic is gone")
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics([name])[name].result(30)


@FILLS("groups-described", "cluster")
def test_groups_and_cluster_are_described(bootstrap: str, brokers: dict[int, str], topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with member(bootstrap, topic, topic, client_id="described") as reader:
        until(lambda: reader.poll(0.1) or reader.assignment(), what="an assignment")
        group = admin.describe_consumer_groups([topic])[topic].result(30)
        assert group.state.name == "STABLE"
        assert [(one.client_id, [p.topic for p in one.assignment.topic_partitions]) for one in group.members] == [
            ("described", [topic])
        ]
        listed = admin.list_consumer_groups().result(30)
        assert topic in [found.group_id for found in listed.valid]
    cluster = admin.describe_cluster().result(30)
    assert [f"{broker.host}:{broker.port}" for broker in cluster.nodes] == [*brokers.values()]


def test_clients_live_through_a_restart_of_the_node(own_node: Node, name: str) -> None:
    to = producer(own_node.address, enable_idempotence=True)
    send(to, name, numbered(100, "before/"))
    with member(own_node.address, name, name, enable_auto_commit=False) as reader:
        assert values(read(reader, 60)) == numbered(100, "before/")[:60]
        reader.commit(asynchronous=False)
        own_node.restart()
        send(to, name, numbered(100, "after/"))
        resumed = read(reader, 140)
        assert sorted(set(values(resumed))) == sorted([*numbered(100, "before/")[60:], *numbered(100, "after/")])
    with member(own_node.address, name, name) as successor:
        first = read(successor, 1)
        assert first[0].offset() == 60
    assert values(read_partition(own_node.address, name)) == numbered(100, "before/") + numbered(100, "after/")
