"""Compacted topics, as clients see them: made by admin requests, cleaned while in use, read across gaps.

The cleaning itself is awaited through the client: a partition is read again and again until it holds what it should.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from tests.support.confluent import DEADLINE_S, POLL_S, consumer, producer, read, read_partition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not IS_HUTONG, reason="Kafka cleans too seldom to wait for")
EAGER = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3600000",
}
_groups = itertools.count(1)


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that looks for something to clean all the time. Tests may restart it."""
    with Node(tmp_path_factory.mktemp("cleaning"), "log.cleaner_backoff_ms=20") as running:
        yield running


def create(node: Node, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    named = EAGER | {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=named)]).values():
        future.result(DEADLINE_S)


def put(to: Producer, topic: str, pairs: list[tuple[bytes | None, bytes | None]]) -> list[int]:
    """Sends each pair in a batch of its own or a shared one, as the client likes; returns their offsets."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        offsets.append(message.offset() or 0)

    for key, value in pairs:
        to.produce(topic, value, key=key, on_delivery=delivered)
    assert to.flush(DEADLINE_S) == 0
    if errors:
        raise KafkaException(errors[0])
    return offsets


def contents(node: Node, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """The whole partition as (offset, key, value), read to its end, wherever that is."""
    reader = Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": f"reader-{next(_groups)}",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while True:
            (message,) = until(lambda: reader.consume(1, POLL_S), what="the end of the partition")
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            found.append((message.offset() or 0, message.key(), message.value()))
    finally:
        reader.close()


def cleaned(node: Node, topic: str, expected: list[tuple[int, bytes | None, bytes | None]]) -> None:
    """Wait until the partition holds just that."""
    last: list[Any] = []

    def is_clean() -> bool:
        last[:] = contents(node, topic)
        return last == expected

    try:
        until(is_clean, what="the cleaning")
    except AssertionError:
        assert last == expected
        raise


def overwritten(node: Node, topic: str, **settings: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    """Write 20 keys again and again, delete some, and return what must be left."""
    to = producer(node.address, linger_ms=1, batch_num_messages=7, **settings)
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"key-%d" % (number % 20), b"value-%d" % number + b"." * 300) for number in range(400)
    ]
    pairs += [(b"key-%d" % number, None) for number in range(5)]
    offsets = put(to, topic, pairs)
    newest = {key: (offset, key, value) for offset, (key, value) in zip(offsets, pairs, strict=True)}
    return sorted(newest.values())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_newest_value_of_each_key_stays(cleaning: Node, name: str, codec: str) -> None:
    create(cleaning, name)
    expected = overwritten(cleaning, name, compression_type=codec)
    cleaned(cleaning, name, expected)


def test_a_restart_changes_nothing_and_positions_in_gaps_are_good(cleaning: Node, name: str) -> None:
    create(cleaning, name)
    expected = overwritten(cleaning, name, enable_idempotence=True)
    cleaned(cleaning, name, expected)
    cleaning.restart()
    assert contents(cleaning, name) == expected
    offsets = [offset for offset, _, _ in expected]
    reader = consumer(cleaning.address, name, enable_auto_commit=False)
    try:
        low, high = reader.get_watermark_offsets(TopicPartition(name, 0), DEADLINE_S)
        assert (low, high) == (0, 405)
        for position in (0, 1, offsets[0] - 1, offsets[0], offsets[3] + 1, offsets[-1]):
            reader.assign([TopicPartition(name, 0, position)])
            (message,) = read(reader, 1)
            assert message.offset() == min(offset for offset in offsets if offset >= position)
    finally:
        reader.close()
    overwritten_again = overwritten(cleaning, name)
    cleaned(cleaning, name, overwritten_again)


def test_kafka_python_reads_across_gaps(cleaning: Node, name: str) -> None:
    create(cleaning, name)
    expected = overwritten(cleaning, name, enable_idempotence=True)
    cleaned(cleaning, name, expected)
    reader = KafkaConsumer(bootstrap_servers=cleaning.address, enable_auto_commit=False)
    try:
        partition = PythonPartition(name, 0)
        reader.assign([partition])
        for position in (0, 7, expected[4][0] + 1):
            reader.seek(partition, position)
            found: list[Any] = []

            def is_through(found: list[Any] = found) -> bool:
                for records in reader.poll(timeout_ms=100).values():
                    found += [(record.offset, record.key, record.value) for record in records]
                return bool(reader.position(partition) == 405)

            until(is_through, what="the end of the partition")
            assert found == [record for record in expected if record[0] >= position]
    finally:
        reader.close()


def test_a_tombstone_goes_when_its_time_is_over(cleaning: Node, name: str) -> None:
    create(cleaning, name, delete_retention_ms="0")
    to = producer(cleaning.address, enable_idempotence=True)
    put(to, name, [(b"a", b"1")])
    put(to, name, [(b"b", b"1")])
    put(to, name, [(b"a", None)])
    put(to, name, [(b"b", None)])

    def is_gone() -> bool:
        put(to, name, [(b"tick", b"tock")])
        return {key for _, key, _ in contents(cleaning, name)} == {b"tick"}

    until(is_gone, what="the end of the tombstones")


def test_a_record_without_a_key_is_refused(cleaning: Node, name: str) -> None:
    create(cleaning, name)
    to = producer(cleaning.address, compression_type="gzip")
    with pytest.raises(KafkaException) as refused:
        put(to, name, [(None, b"stray")])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD
    put(to, name, [(b"key", b"1")])
    assert [key for _, key, _ in contents(cleaning, name)] == [b"key"]


def test_what_is_young_is_left_alone(cleaning: Node, name: str) -> None:
    create(cleaning, name, min_compaction_lag_ms="3600000")
    create(cleaning, name + "-eager")
    to = producer(cleaning.address)
    for topic in (name, name + "-eager"):
        put(to, topic, [(b"k", b"%d" % number) for number in range(10)])
    cleaned(cleaning, name + "-eager", [(9, b"k", b"9")])
    assert len(contents(cleaning, name)) == 10


def test_a_topic_may_become_compacted_and_readers_pass_what_is_empty(cleaning: Node, name: str) -> None:
    create(cleaning, name, cleanup_policy="delete")
    to = producer(cleaning.address)
    for record in ((b"k", b"1"), (None, b"stray"), (b"k", b"2"), (None, b"stray too")):
        put(to, name, [record])
    admin = AdminClient({"bootstrap.servers": cleaning.address})
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in EAGER.items()]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)
    cleaned(cleaning, name, [(2, b"k", b"2")])
    reader = KafkaConsumer(bootstrap_servers=cleaning.address, enable_auto_commit=False)
    try:
        partition = PythonPartition(name, 0)
        reader.assign([partition])
        reader.seek(partition, 3)  # what is left there is a batch without records

        def is_through() -> bool:
            assert not reader.poll(timeout_ms=100)
            return bool(reader.position(partition) == 4)

        until(is_through, what="the end of the partition")
    finally:
        reader.close()


def test_deleted_records_stay_deleted_over_a_kill(tmp_path: Path, name: str) -> None:
    with Node(tmp_path, "log.cleaner_backoff_ms=20") as node:
        create(node, name, cleanup_policy="compact,delete")
        put(producer(node.address), name, [(b"key-%d" % number, b"1") for number in range(50)])
        admin = AdminClient({"bootstrap.servers": node.address})
        for future in admin.delete_records([TopicPartition(name, 0, 30)]).values():
            assert future.result(DEADLINE_S).low_watermark == 30
        node.kill()
        node.start()
        messages = read_partition(node.address, name)
        assert [message.offset() for message in messages] == list(range(30, 50))
