"""kafka-python, what the table asks beyond test_kafka_python.py: refusals, groups, administration, transactions."""

import os
from typing import Any, Final

import kafka
import pytest
from bench.raw_client import create_topic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import InvalidTopicError, KafkaTimeoutError, MessageSizeTooLargeError, ProducerFencedError
from tests.compat.report import cells
from tests.compat.test_kafka_python import (
    numbered,
    opened_admin,
    opened_consumer,
    opened_producer,
    poll_until,
    read,
    send,
    values,
)
from tests.support.waiting import until

FILLS: Final = cells("kafka-python", kafka.__version__)
thorough = pytest.mark.thorough
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("leaked_sockets"),
]
ANSWER_S: Final = 30.0


def read_all(bootstrap: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    with opened_consumer(bootstrap, topic, **settings) as consumer:
        return values(read(consumer, count))


@thorough
@FILLS("nulls")
def test_null_key_and_null_value(bootstrap: str, topic: str) -> None:
    with opened_producer(bootstrap) as producer:
        producer.send(topic, None, key=b"tombstone").get(ANSWER_S)
        producer.send(topic, b"", key=None).get(ANSWER_S)
    with opened_consumer(bootstrap, topic) as consumer:
        seen = read(consumer, 2)
    assert [(record.key, record.value) for record in seen] == [(b"tombstone", None), (None, b"")]


@thorough
@FILLS("large-records")
def test_large_records(bootstrap: str, topic: str) -> None:
    sent = [os.urandom(900_000) for _ in range(5)]
    send(bootstrap, topic, sent, max_request_size=1_000_000)
    assert read_all(bootstrap, topic, 5, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) == sent


@thorough
@FILLS("produce-errors")
def test_refusals(bootstrap: str, topic: str) -> None:
    with (
        pytest.raises(MessageSizeTooLargeError),
        opened_producer(bootstrap, max_request_size=8 << 20) as producer,
    ):
        producer.send(topic, os.urandom(2 << 20)).get(ANSWER_S)  # an idempotent producer of it is of no use any more
    with opened_producer(bootstrap, max_block_ms=2000) as producer:
        with pytest.raises((InvalidTopicError, KafkaTimeoutError, ValueError)):
            producer.send("no topic!", b"").get(ANSWER_S)
        producer.send(topic, b"after").get(ANSWER_S)


def assigned(consumer: KafkaConsumer, topic: str, offset: int) -> TopicPartition:
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    return partition


@thorough
@FILLS("consume-range", "seek", "out-of-range")
def test_from_anywhere(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, numbered(20))
    with opened_consumer(bootstrap) as consumer:
        partition = assigned(consumer, topic, 15)
        assert values(read(consumer, 5)) == numbered(20)[15:]
        consumer.seek_to_beginning(partition)
        assert values(read(consumer, 20)) == numbered(20)
        consumer.seek(partition, 1000)
        assert values(read(consumer, 20)) == numbered(20)  # reset to the earliest
        consumer.seek(partition, 3)
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 20
        send(bootstrap, topic, [b"new"])
        assert values(read(consumer, 1)) == [b"new"]


@thorough
@FILLS("group-static")
def test_a_static_member_comes_back_to_its_share(bootstrap: str, wide_topic: str) -> None:
    def settings(name: str) -> dict[str, Any]:
        return {"group_id": wide_topic, "group_instance_id": name}

    with opened_consumer(bootstrap, wide_topic, **settings("two")) as other:
        with opened_consumer(bootstrap, wide_topic, **settings("one")) as first:
            poll_until(lambda: len(first.assignment()) == len(other.assignment()) == 2, first, other)
            before = first.assignment(), other.assignment()
        with opened_consumer(bootstrap, wide_topic, **settings("one")) as first:
            poll_until(lambda: len(first.assignment()) == 2, first, other)
            assert (first.assignment(), other.assignment()) == before


@thorough
@FILLS("group-cooperative")
def test_a_cooperative_group(bootstrap: str, wide_topic: str) -> None:
    settings = {"group_id": wide_topic, "partition_assignment_strategy": [CooperativeStickyAssignor]}
    with opened_consumer(bootstrap, wide_topic, **settings) as first:
        poll_until(lambda: len(first.assignment()) == 4, first)
        with opened_consumer(bootstrap, wide_topic, **settings) as second:
            poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
        poll_until(lambda: len(first.assignment()) == 4, first)


@thorough
@FILLS("partitions", "configs", "cluster", "log-dirs")
def test_administration_of_topics(bootstrap: str, brokers: dict[int, str], topic: str) -> None:
    resource = ConfigResourceType.TOPIC
    with opened_admin(bootstrap) as admin:
        admin.create_partitions({topic: 3})
        until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3, what="three partitions")
        admin.alter_configs([ConfigResource(resource, topic, {"retention.ms": "60000"})])
        until(lambda: "60000" in str(admin.describe_configs([ConfigResource(resource, topic)])), what="retention.ms")
        admin.reset_configs([ConfigResource(resource, topic, {"retention.ms": None})])
        until(lambda: "60000" not in str(admin.describe_configs([ConfigResource(resource, topic)])), what="the default")
        known = admin.describe_cluster()["brokers"]
        assert [f"{broker['host']}:{broker['port']}" for broker in known] == [*brokers.values()]
        assert topic in str(admin.describe_log_dirs([topic]))


@thorough
@FILLS("groups-deleted", "group-offsets")
def test_offsets_of_a_group_are_altered_and_the_group_deleted(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, numbered(10))
    partition = TopicPartition(topic, 0)
    with opened_admin(bootstrap) as admin:

        def committed() -> int:
            return int(admin.list_group_offsets([topic])[topic][partition].offset)

        with opened_consumer(bootstrap, topic, group_id=topic, enable_auto_commit=False) as consumer:
            assert values(read(consumer, 5)) == numbered(5)
            consumer.commit({partition: OffsetAndMetadata(5, "", -1)})
            assert committed() == 5
            assert "NonEmptyGroup" in str(admin.delete_groups([topic]))
        admin.alter_group_offsets(topic, {partition: OffsetAndMetadata(2, "", -1)})
        assert committed() == 2
        admin.reset_group_offsets(topic, {partition: OffsetSpec.LATEST})
        assert committed() == 10
        admin.delete_group_offsets(topic, [partition])
        admin.delete_groups([topic])
        assert topic not in str(admin.list_groups())


@thorough
@FILLS("delete-records", "list-offsets")
def test_records_are_deleted_and_offsets_listed(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, numbered(10))
    partition = TopicPartition(topic, 0)
    with opened_admin(bootstrap) as admin:

        def offset(spec: OffsetSpec) -> int:
            return int(admin.list_partition_offsets({partition: spec})[partition].offset)

        assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (0, 10)
        assert 0 <= offset(OffsetSpec.MAX_TIMESTAMP) < 10
        admin.delete_records({partition: 4})
        assert offset(OffsetSpec.EARLIEST) == 4
    assert read_all(bootstrap, topic, 6) == numbered(10)[4:]


def in_transaction(producer: KafkaProducer, topic: str, sent: list[bytes], *, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in sent:
        producer.send(topic, value, partition=0)
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


@thorough
@FILLS("txn-commit")
def test_committed_records_are_seen(bootstrap: str, topic: str) -> None:
    with opened_producer(bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        in_transaction(producer, topic, numbered(10, "a"))
        in_transaction(producer, topic, numbered(10, "b"))
    seen = read_all(bootstrap, topic, 20, isolation_level="read_committed")
    assert seen == numbered(10, "a") + numbered(10, "b")


@thorough
@FILLS("txn-abort")
def test_aborted_records_are_hidden(bootstrap: str, topic: str) -> None:
    with opened_producer(bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        in_transaction(producer, topic, numbered(10, "no"), commit=False)
        in_transaction(producer, topic, numbered(10, "yes"))
        in_transaction(producer, topic, numbered(10, "no"), commit=False)
    send(bootstrap, topic, [b"plain"])
    assert read_all(bootstrap, topic, 11, isolation_level="read_committed") == [*numbered(10, "yes"), b"plain"]
    assert len(read_all(bootstrap, topic, 31)) == 31


@thorough
@FILLS("txn-offsets")
def test_offsets_go_with_the_transaction(bootstrap: str, topic: str) -> None:
    out = f"{topic}-out"
    create_topic(bootstrap, out, records=0)
    send(bootstrap, topic, numbered(20))
    partition = TopicPartition(topic, 0)
    settings = {"group_id": topic, "enable_auto_commit": False, "isolation_level": "read_committed"}
    with opened_producer(bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()

        def move(value: bytes, consumer: KafkaConsumer, *, commit: bool) -> None:
            producer.begin_transaction()
            producer.send(out, b"V" + value, partition=0)
            offsets = {partition: OffsetAndMetadata(int(value) + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

        for turn in range(2):  # the second member resumes where the first committed
            with opened_consumer(bootstrap, topic, **settings) as consumer:
                for value in values(read(consumer, 10)):
                    if value == b"7":
                        move(value, consumer, commit=False)
                    move(value, consumer, commit=True)
                assert consumer.committed(partition) == 10 * (turn + 1)
    seen = read_all(bootstrap, out, 20, isolation_level="read_committed")
    assert seen == [b"V" + value for value in numbered(20)]


@thorough
@FILLS("txn-fencing")
def test_an_older_producer_is_fenced(bootstrap: str, topic: str) -> None:
    with opened_producer(bootstrap, transactional_id=topic) as young:
        old = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"old").get(ANSWER_S)
        young.init_transactions()
        in_transaction(young, topic, [b"young"])
        with pytest.raises(ProducerFencedError):
            old.commit_transaction()
        old.close(timeout=0)
    assert read_all(bootstrap, topic, 1, isolation_level="read_committed") == [b"young"]


@thorough
@FILLS("describe-transactions")
def test_transactions_are_described(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with opened_producer(bootstrap, transactional_id=topic) as producer, opened_admin(bootstrap) as admin:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).get(ANSWER_S)
        described = state_of(admin, topic)
        assert (described.state.value, described.topic_partitions) == ("Ongoing", {partition})
        listed = [one for of_broker in admin.list_transactions().values() for one in of_broker]
        assert (topic, described.producer_id) in [(one.transactional_id, one.producer_id) for one in listed]
        (active,) = admin.describe_producers([partition])[partition].active_producers
        assert (active.producer_id, active.current_transaction_start_offset) == (described.producer_id, 0)
        producer.commit_transaction()
        until(lambda: state_of(admin, topic).state.value == "CompleteCommit", what="the end")


def state_of(admin: KafkaAdminClient, transactional_id: str) -> Any:
    return admin.describe_transactions([transactional_id])[transactional_id]
