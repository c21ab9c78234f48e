"""aiokafka, what the table asks beyond test_aiokafka.py: refusals, static members, administration, transactions."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    ProducerFenced,
    UnknownTopicOrPartitionError,
)
from bench.raw_client import create_topic
from tests.compat.report import cells
from tests.compat.test_aiokafka import numbered, poll_until, read, send, started_consumer, started_producer

FILLS: Final = cells("aiokafka", aiokafka.__version__)
thorough = pytest.mark.thorough


@asynccontextmanager
async def started_admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def assigned(bootstrap: str, topic: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    async with started_consumer(bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        yield consumer


@thorough
@FILLS("nulls")
async def test_null_key_and_null_value(bootstrap: str, topic: str) -> None:
    async with started_producer(bootstrap) as producer:
        await producer.send_and_wait(topic, None, key=b"tombstone")
        await producer.send_and_wait(topic, b"", key=None)
    async with started_consumer(bootstrap, topic) as consumer:
        seen = [await consumer.getone() for _ in range(2)]
    assert [(message.key, message.value) for message in seen] == [(b"tombstone", None), (None, b"")]


@thorough
@FILLS("large-records")
async def test_large_records(bootstrap: str, topic: str) -> None:
    sent = [os.urandom(900_000) for _ in range(5)]
    await send(bootstrap, topic, sent, max_request_size=1_000_000)
    async with started_consumer(bootstrap, topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) as consumer:
        assert await read(consumer, 5) == sent


@thorough
@FILLS("produce-errors")
async def test_refusals(bootstrap: str, topic: str) -> None:
    settings: dict[str, Any] = {"max_request_size": 8 << 20, "request_timeout_ms": 1000}
    async with started_producer(bootstrap, **settings) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, os.urandom(2 << 20))
        with pytest.raises((InvalidTopicError, UnknownTopicOrPartitionError)):
            await producer.send_and_wait("no topic!", b"")
        await producer.send_and_wait(topic, b"after")


@thorough
@FILLS("consume-range", "seek")
async def test_from_anywhere(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, numbered(20))
    partition = TopicPartition(topic, 0)
    async with assigned(bootstrap, topic) as consumer:
        await consumer.seek_to_beginning(partition)
        assert await read(consumer, 20) == numbered(20)
        consumer.seek(partition, 15)
        assert await read(consumer, 5) == numbered(20)[15:]
        consumer.seek(partition, 3)
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 20
        await send(bootstrap, topic, [b"new"])
        assert await read(consumer, 1) == [b"new"]


@thorough
@FILLS("out-of-range")
async def test_an_offset_that_is_gone(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, numbered(10))
    partition = TopicPartition(topic, 0)
    async with assigned(bootstrap, topic) as consumer:
        consumer.seek(partition, 1000)
        assert await read(consumer, 10) == numbered(10)
    strict = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none")
    await strict.start()
    try:
        strict.assign([partition])
        strict.seek(partition, 1000)
        with pytest.raises(OffsetOutOfRangeError):
            await asyncio.wait_for(strict.getone(), 30)
    finally:
        await strict.stop()


@thorough
@FILLS("group-static")
async def test_a_static_member_comes_back_to_its_share(bootstrap: str, wide_topic: str) -> None:
    def settings(name: str) -> dict[str, Any]:
        return {"group_id": wide_topic, "group_instance_id": name}

    async with started_consumer(bootstrap, wide_topic, **settings("two")) as other:
        async with started_consumer(bootstrap, wide_topic, **settings("one")) as first:
            await poll_until(lambda: len(first.assignment()) == len(other.assignment()) == 2, first, other)
            before = first.assignment(), other.assignment()
        async with started_consumer(bootstrap, wide_topic, **settings("one")) as first:
            await poll_until(lambda: len(first.assignment()) == 2, first, other)
            assert (first.assignment(), other.assignment()) == before


@thorough
@FILLS("partitions", "configs", "cluster")
async def test_administration_of_topics(bootstrap: str, brokers: dict[int, str], topic: str) -> None:
    async with started_admin(bootstrap) as admin:
        await admin.create_partitions({topic: NewPartitions(3)})
        async with asyncio.timeout(30):
            while len((await admin.describe_topics([topic]))[0]["partitions"]) != 3:
                pass
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "60000"})])

        async def retention() -> str:
            asked = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})
            (answer,) = await admin.describe_configs([asked])
            return str(answer.resources[0][4][0][1])

        async with asyncio.timeout(30):
            while await retention() != "60000":
                pass
        cluster = await admin.describe_cluster()
        assert [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]] == [*brokers.values()]


@thorough
@FILLS("group-offsets", "delete-records")
async def test_offsets_of_a_group_and_records_deleted(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, numbered(10))
    partition = TopicPartition(topic, 0)
    async with started_admin(bootstrap) as admin:
        async with started_consumer(bootstrap, topic, group_id=topic, enable_auto_commit=False) as consumer:
            assert await read(consumer, 5) == numbered(5)
            await consumer.commit({partition: 5})
        assert (await admin.list_consumer_group_offsets(topic))[partition].offset == 5
        assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
    async with started_consumer(bootstrap, topic) as consumer:
        assert await read(consumer, 6) == numbered(10)[4:]


async def seen_by(bootstrap: str, topic: str, count: int, isolation_level: str) -> list[bytes]:
    async with started_consumer(bootstrap, topic, isolation_level=isolation_level) as consumer:
        return await read(consumer, count)


async def in_transaction(producer: AIOKafkaProducer, topic: str, values: list[bytes], *, commit: bool = True) -> None:
    await producer.begin_transaction()
    for value in values:
        await producer.send_and_wait(topic, value, partition=0)
    await (producer.commit_transaction() if commit else producer.abort_transaction())


@FILLS("txn-commit")
async def test_committed_records_are_seen(bootstrap: str, topic: str) -> None:
    async with started_producer(bootstrap, transactional_id=topic) as producer:
        await in_transaction(producer, topic, numbered(10, "a"))
        await in_transaction(producer, topic, numbered(10, "b"))
    assert await seen_by(bootstrap, topic, 20, "read_committed") == numbered(10, "a") + numbered(10, "b")


@thorough
@FILLS("txn-abort")
async def test_aborted_records_are_hidden(bootstrap: str, topic: str) -> None:
    async with started_producer(bootstrap, transactional_id=topic) as producer:
        await in_transaction(producer, topic, numbered(10, "no"), commit=False)
        await in_transaction(producer, topic, numbered(10, "yes"))
        await in_transaction(producer, topic, numbered(10, "no"), commit=False)
    await send(bootstrap, topic, [b"plain"])
    assert await seen_by(bootstrap, topic, 11, "read_committed") == [*numbered(10, "yes"), b"plain"]
    assert len(await seen_by(bootstrap, topic, 31, "read_uncommitted")) == 31


@thorough
@FILLS("txn-offsets")
async def test_offsets_go_with_the_transaction(bootstrap: str, topic: str) -> None:
    out = f"{topic}-out"
    create_topic(bootstrap, out, records=0)
    await send(bootstrap, topic, numbered(20))
    partition = TopicPartition(topic, 0)
    settings: dict[str, Any] = {"group_id": topic, "enable_auto_commit": False, "isolation_level": "read_committed"}
    async with started_producer(bootstrap, transactional_id=topic) as producer:
        for turn in range(2):  # the second member resumes where the first committed
            async with started_consumer(bootstrap, topic, **settings) as consumer:
                for value in await read(consumer, 10):
                    await producer.begin_transaction()
                    await producer.send_and_wait(out, b"V" + value, partition=0)
                    await producer.send_offsets_to_transaction({partition: int(value) + 1}, topic)
                    if value == b"7":
                        await producer.abort_transaction()
                        await producer.begin_transaction()
                        await producer.send_and_wait(out, b"V" + value, partition=0)
                        await producer.send_offsets_to_transaction({partition: int(value) + 1}, topic)
                    await producer.commit_transaction()
                assert await consumer.committed(partition) == 10 * (turn + 1)
    seen = await seen_by(bootstrap, out, 20, "read_committed")
    assert seen == [b"V" + value for value in numbered(20)]


@thorough
@FILLS("txn-fencing")
async def test_an_older_producer_is_fenced(bootstrap: str, topic: str) -> None:
    old = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await old.start()
    await old.begin_transaction()
    await old.send_and_wait(topic, b"old")
    async with started_producer(bootstrap, transactional_id=topic) as young:
        await in_transaction(young, topic, [b"young"])
    with pytest.raises(ProducerFenced):
        await old.commit_transaction()
    await old.stop()
    assert await seen_by(bootstrap, topic, 1, "read_committed") == [b"young"]
