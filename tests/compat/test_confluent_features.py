"""confluent-kafka, what the table asks beyond test_confluent_kafka.py: refusals, more groups, more administration."""

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import pytest
from bench.raw_client import create_topic
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from tests.compat.report import cells
from tests.support.confluent import consumer, producer, read, read_partition, send, values
from tests.support.waiting import until

FILLS: Final = cells("confluent-kafka", importlib.metadata.version("confluent-kafka"))
thorough = pytest.mark.thorough
ANSWER_S: Final = 30.0


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@contextmanager
def member(bootstrap: str, group: str, topic: str, **settings: Any) -> Iterator[Consumer]:
    with closing(consumer(bootstrap, group, **settings)) as joined:
        joined.subscribe([topic])
        yield joined


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


@thorough
@FILLS("large-records")
def test_large_records(bootstrap: str, topic: str) -> None:
    sent = [os.urandom(900_000) for _ in range(5)]
    send(producer(bootstrap), topic, sent)
    assert values(read_partition(bootstrap, topic)) == sent
    with closing(consumer(bootstrap, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1_000_000)) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        assert values(read(reader, 5)) == sent


@thorough
@FILLS("produce-errors")
@pytest.mark.parametrize(
    ("name_of", "size", "code"),
    [
        ("{}", 2 << 20, KafkaError.MSG_SIZE_TOO_LARGE),
        ("{}!", 1, KafkaError.TOPIC_EXCEPTION),
        ("{}-unknown", 1, KafkaError.UNKNOWN_TOPIC_OR_PART),
    ],
)
def test_refusals(bootstrap: str, topic: str, name_of: str, size: int, code: int) -> None:
    settings = {"allow_auto_create_topics": False, "topic_metadata_propagation_max_ms": 100}
    to = producer(bootstrap, message_max_bytes=8 << 20, **settings)
    errors: list[KafkaError | None] = []
    to.produce(name_of.format(topic), os.urandom(size), on_delivery=lambda error, _: errors.append(error))
    to.flush(ANSWER_S)
    assert [error and error.code() for error in errors] == [code]


@thorough
@FILLS("consume-range")
def test_from_the_beginning_and_from_the_end(bootstrap: str, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(20))
    with closing(consumer(bootstrap, topic)) as reader:
        reader.assign([TopicPartition(topic, 0, -2)])
        assert values(read(reader, 20)) == numbered(20)
    with closing(consumer(bootstrap, topic)) as reader:
        reader.assign([TopicPartition(topic, 0, 15)])
        assert values(read(reader, 5)) == numbered(20)[15:]
        send(producer(bootstrap), topic, [b"new"])
        assert values(read(reader, 1)) == [b"new"]


@thorough
@FILLS("out-of-range")
def test_an_offset_that_is_gone(bootstrap: str, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(10))
    with closing(consumer(bootstrap, topic)) as reader:
        reader.assign([TopicPartition(topic, 0, 1000)])
        assert values(read(reader, 10)) == numbered(10)
    with closing(consumer(bootstrap, topic, auto_offset_reset="error")) as reader:
        reader.assign([TopicPartition(topic, 0, 1000)])
        (message,) = until(lambda: reader.consume(1, 1))
        error = message.error()
        assert error
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


@thorough
@FILLS("group-static")
def test_a_static_member_comes_back_to_its_share(bootstrap: str, admin: AdminClient, wide_topic: str) -> None:
    events: list[str] = []
    with closing(consumer(bootstrap, wide_topic, group_instance_id="two")) as other:
        other.subscribe([wide_topic], on_assign=lambda *_: events.append("assigned"))
        with member(bootstrap, wide_topic, wide_topic, group_instance_id="one") as first:
            until(lambda: (first.poll(0.05), other.poll(0.05)) and len(first.assignment()) == 2, what="an even share")
            until(lambda: other.poll(0.05) or len(other.assignment()) == 2)
            before = {part.partition for part in first.assignment()}
        events.clear()
        with member(bootstrap, wide_topic, wide_topic, group_instance_id="one") as first:
            until(lambda: (first.poll(0.05), other.poll(0.05)) and len(first.assignment()) == 2)
            assert {part.partition for part in first.assignment()} == before
            assert events == []
            group = admin.describe_consumer_groups([wide_topic])[wide_topic].result(ANSWER_S)
            assert {one.group_instance_id for one in group.members} == {"one", "two"}


def joined_by_848(bootstrap: str, group: str) -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    return Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})


@FILLS("group-848")
def test_a_member_of_the_consumer_protocol_commits_and_resumes(bootstrap: str, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(20))
    for wanted in (numbered(20)[:10], numbered(20)[10:]):
        with closing(joined_by_848(bootstrap, topic)) as reader:
            reader.subscribe([topic])
            assert values(read(reader, 10)) == wanted
            reader.commit(offsets=reader.position(reader.assignment()), asynchronous=False)


@thorough
@FILLS("group-848")
def test_members_of_the_consumer_protocol(bootstrap: str, admin: AdminClient, wide_topic: str) -> None:
    with closing(joined_by_848(bootstrap, wide_topic)) as first:
        first.subscribe([wide_topic])
        until(lambda: first.poll(0.1) or len(first.assignment()) == 4, what="the first member owns everything")
        with closing(joined_by_848(bootstrap, wide_topic)) as second:
            second.subscribe([wide_topic])
            until(
                lambda: (
                    (first.poll(0.05), second.poll(0.05)) and len(first.assignment()) == len(second.assignment()) == 2
                ),
                what="an even share",
            )
            group = admin.describe_consumer_groups([wide_topic])[wide_topic].result(ANSWER_S)
            assert (group.type.name, len(group.members)) == ("CONSUMER", 2)
            for partition in range(4):
                send(producer(bootstrap), wide_topic, numbered(5, f"{partition}/"), partition=partition)
            seen = values(read(first, 10)) + values(read(second, 10))
            assert sorted(seen) == sorted(value for p in range(4) for value in numbered(5, f"{p}/"))
            first.commit(asynchronous=False)
            second.commit(asynchronous=False)
        until(lambda: first.poll(0.1) or len(first.assignment()) == 4, what="the first member owns everything again")


@thorough
@FILLS("group-share")
def test_members_of_a_share_group(bootstrap: str, admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)
    send(producer(bootstrap), topic, numbered(20))
    with closing(ShareConsumer({"bootstrap.servers": bootstrap, "group.id": topic})) as taker:
        taker.subscribe([topic])
        seen: list[bytes] = []

        def taken() -> bool:
            seen.extend(message.value() or b"" for message in taker.poll(0.5) if not message.error())
            return len(seen) >= 20

        until(taken, what="twenty records")
    assert sorted(seen) == sorted(numbered(20))


@thorough
@FILLS("partitions")
def test_partitions_are_added(bootstrap: str, admin: AdminClient, topic: str) -> None:
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(ANSWER_S)
    until(lambda: len(admin.list_topics(topic, ANSWER_S).topics[topic].partitions) == 3)
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(ANSWER_S)
    send(producer(bootstrap), topic, [b"new"], partition=2)


@thorough
@FILLS("configs")
def test_configurations_are_altered(admin: AdminClient, topic: str) -> None:
    def alter(operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)

    def is_now(value: str) -> bool:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return bool(admin.describe_configs([resource])[resource].result(ANSWER_S)["retention.ms"].value == value)

    alter(AlterConfigOpType.SET, "60000")
    until(lambda: is_now("60000"))
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        alter(AlterConfigOpType.SET, "soon")
    alter(AlterConfigOpType.DELETE, None)
    until(lambda: is_now("604800000"))


@thorough
@FILLS("groups-deleted", "group-offsets")
def test_offsets_of_a_group_are_altered_and_the_group_deleted(bootstrap: str, admin: AdminClient, topic: str) -> None:
    def committed() -> int:
        request = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0)])
        found = admin.list_consumer_group_offsets([request])[topic].result(ANSWER_S)
        return int(found.topic_partitions[0].offset)

    send(producer(bootstrap), topic, numbered(10))
    with member(bootstrap, topic, topic, enable_auto_commit=False) as reader:
        read(reader, 5)
        reader.commit(asynchronous=False)
        assert committed() == 5
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([topic])[topic].result(ANSWER_S)
    altered = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([altered])[topic].result(ANSWER_S)
    assert committed() == 2
    admin.delete_consumer_groups([topic])[topic].result(ANSWER_S)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([topic])[topic].result(ANSWER_S)


@thorough
@FILLS("delete-records", "list-offsets")
def test_records_are_deleted_and_offsets_listed(bootstrap: str, admin: AdminClient, topic: str) -> None:
    send(producer(bootstrap), topic, numbered(10))
    here = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({here: spec})[here].result(ANSWER_S).offset)

    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (0, 10)
    assert 0 <= offset(OffsetSpec.max_timestamp()) < 10
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert next(iter(deleted.values())).result(ANSWER_S).low_watermark == 4
    assert offset(OffsetSpec.earliest()) == 4
    stable = admin.list_offsets({here: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    assert stable[here].result(ANSWER_S).offset == 10
    assert values(read_partition(bootstrap, topic)) == numbered(10)[4:]


def transactional(bootstrap: str, name: str) -> Producer:
    to = producer(bootstrap, transactional_id=name)
    to.init_transactions(ANSWER_S)
    return to


def in_transaction(to: Producer, topic: str, sent: list[bytes], *, commit: bool) -> None:
    to.begin_transaction()
    for value in sent:
        to.produce(topic, value)
    to.flush(ANSWER_S)
    if commit:
        to.commit_transaction(ANSWER_S)
    else:
        to.abort_transaction(ANSWER_S)


def seen_by(bootstrap: str, topic: str, count: int, isolation_level: str) -> list[bytes]:
    with closing(consumer(bootstrap, topic, isolation_level=isolation_level, enable_auto_commit=False)) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        return values(read(reader, count))


@thorough
@FILLS("txn-commit")
def test_committed_records_are_seen(bootstrap: str, topic: str) -> None:
    to = transactional(bootstrap, topic)
    in_transaction(to, topic, numbered(10, "a"), commit=True)
    in_transaction(to, topic, numbered(10, "b"), commit=True)
    assert seen_by(bootstrap, topic, 20, "read_committed") == numbered(10, "a") + numbered(10, "b")


@thorough
@FILLS("txn-abort")
def test_aborted_records_are_hidden(bootstrap: str, topic: str) -> None:
    to = transactional(bootstrap, topic)
    in_transaction(to, topic, numbered(10, "no"), commit=False)
    in_transaction(to, topic, numbered(10, "yes"), commit=True)
    in_transaction(to, topic, numbered(10, "no"), commit=False)
    send(producer(bootstrap), topic, [b"plain"])
    assert seen_by(bootstrap, topic, 11, "read_committed") == [*numbered(10, "yes"), b"plain"]
    assert len(seen_by(bootstrap, topic, 31, "read_uncommitted")) == 31


@FILLS("txn-offsets")
def test_offsets_go_with_the_transaction(bootstrap: str, topic: str) -> None:
    out = f"{topic}-out"
    create_topic(bootstrap, out, records=0)
    send(producer(bootstrap), topic, numbered(20))
    to = transactional(bootstrap, topic)
    is_aborted = False
    for _ in range(2):  # the second member resumes where the first committed
        with member(bootstrap, topic, topic, enable_auto_commit=False, isolation_level="read_committed") as reader:
            moved = 0
            while moved < 10:
                messages = read(reader, 5)
                to.begin_transaction()
                for value in values(messages):
                    to.produce(out, b"V" + value, partition=0)
                to.send_offsets_to_transaction(
                    reader.position(reader.assignment()), reader.consumer_group_metadata(), ANSWER_S
                )
                if not is_aborted:
                    is_aborted = True
                    to.abort_transaction(ANSWER_S)
                    reader.seek(TopicPartition(topic, 0, 0))
                    continue
                to.commit_transaction(ANSWER_S)
                moved += 5
    assert seen_by(bootstrap, out, 20, "read_committed") == [b"V" + value for value in numbered(20)]


@thorough
@FILLS("txn-fencing")
def test_an_older_producer_is_fenced(bootstrap: str, topic: str) -> None:
    old = transactional(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(ANSWER_S)
    young = transactional(bootstrap, topic)
    in_transaction(young, topic, [b"young"], commit=True)
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(ANSWER_S)
    assert caught.value.args[0].code() in {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}
    assert seen_by(bootstrap, topic, 1, "read_committed") == [b"young"]
