"""aiokafka, used as its documentation shows."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata
from tests.compat.report import cells
from tests.support.node import Node

DEADLINE_S = 30.0
FILLS = cells("aiokafka", aiokafka.__version__)
RESTLESS_GROUP = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "metadata_max_age_ms": 1000}


@asynccontextmanager
async def started_producer(bootstrap: str, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def started_consumer(bootstrap: str, *topics: str, **settings: Any) -> AsyncIterator[AIOKafkaConsumer]:
    grouped = RESTLESS_GROUP if settings.get("group_id") else {}
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **{**grouped, **settings}
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def send(bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0, **settings: Any) -> None:
    async with started_producer(bootstrap, **settings) as producer:
        futures = [await producer.send(topic, value, partition=partition) for value in values]
        await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)


async def read(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(DEADLINE_S):
        return [(await consumer.getone()).value for _ in range(count)]


async def poll_until(condition: Callable[[], bool], *consumers: AIOKafkaConsumer) -> None:
    """Polls the consumers until the condition holds; nothing may arrive meanwhile."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            for consumer in consumers:
                assert not await consumer.getmany(timeout_ms=50)


def numbered(count: int, prefix: str = "") -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(count)]


@FILLS("headers")
async def test_records_come_back_whole_and_in_order(bootstrap: str, topic: str) -> None:
    headers = [("trace", b"00-abc"), ("trace", b"again"), ("empty", b"")]
    async with started_producer(bootstrap) as producer:
        sent = await producer.send_and_wait(topic, b"0", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123)
        assert (sent.partition, sent.offset) == (0, 0)
    async with started_consumer(bootstrap, topic) as consumer:
        message = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
    assert (message.key, message.value, message.offset) == (b"key", b"0", 0)
    assert message.headers == tuple(headers)
    assert (message.timestamp, message.timestamp_type) == (1_700_000_000_123, 0)


@FILLS("compression")
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_compression(bootstrap: str, topic: str, codec: str | None) -> None:
    sent = [b"compressible " * 50 + str(number).encode() for number in range(200)]
    await send(bootstrap, topic, sent, compression_type=codec)
    async with started_consumer(bootstrap, topic) as consumer:
        assert await read(consumer, 200) == sent


@FILLS("produce-acks", "produce-idempotent")
@pytest.mark.parametrize("settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}])
async def test_acknowledgement_modes(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    await send(bootstrap, topic, numbered(300), **settings)
    async with started_consumer(bootstrap, topic) as consumer:
        assert await read(consumer, 300) == numbered(300)


@FILLS("offsets-for-times")
async def test_offsets_for_times_and_ends(bootstrap: str, topic: str) -> None:
    begun_ms = 1_700_000_000_000
    async with started_producer(bootstrap, acks="all") as producer:
        for number in range(5):
            await producer.send_and_wait(topic, b"v", timestamp_ms=begun_ms + number * 1000)
    partition = TopicPartition(topic, 0)
    async with started_consumer(bootstrap, topic) as consumer:
        found = await consumer.offsets_for_times({partition: begun_ms + 1001})
        assert (found[partition].offset, found[partition].timestamp) == (2, begun_ms + 2000)
        assert await consumer.offsets_for_times({partition: begun_ms + 9000}) == {partition: None}
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 5}


@FILLS("group-rebalance")
async def test_two_members_share_a_group_and_rebalance(bootstrap: str, wide_topic: str) -> None:
    async with started_consumer(bootstrap, wide_topic, group_id=wide_topic) as first:
        await poll_until(lambda: len(first.assignment()) == 4, first)
        async with started_consumer(bootstrap, wide_topic, group_id=wide_topic) as second:
            await poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
            assert not first.assignment() & second.assignment()
            for partition in range(4):
                await send(bootstrap, wide_topic, numbered(10, f"{partition}/"), partition=partition)
            seen = await read(first, 20) + await read(second, 20)
            assert sorted(seen) == sorted(value for p in range(4) for value in numbered(10, f"{p}/"))
            await first.commit()
            await second.commit()
        await poll_until(lambda: len(first.assignment()) == 4, first)
        await send(bootstrap, wide_topic, [b"after"], partition=2)
        assert await read(first, 1) == [b"after"]


@FILLS("group-commit")
async def test_a_restarted_consumer_resumes_where_it_committed(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, numbered(30))
    partition = TopicPartition(topic, 0)
    settings = {"group_id": topic, "enable_auto_commit": False}
    async with started_consumer(bootstrap, topic, **settings) as consumer:
        assert await read(consumer, 10) == numbered(10)
        await consumer.commit({partition: OffsetAndMetadata(10, "noted")})
        assert await consumer.committed(partition) == 10
    async with started_consumer(bootstrap, topic, **settings) as consumer:
        assert await read(consumer, 20) == numbered(30)[10:]


@FILLS("topics")
async def test_topics_are_created_described_and_deleted(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        created = await admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "3600000"})])
        assert [(topic, error) for topic, error, *_ in created.topic_errors] == [(name, 0)]
        async with asyncio.timeout(DEADLINE_S):
            while name not in await admin.list_topics():
                pass
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        deleted = await admin.delete_topics([name])
        assert list(deleted.topic_error_codes) == [(name, 0)]
        async with asyncio.timeout(DEADLINE_S):
            while name in await admin.list_topics():
                pass
    finally:
        await admin.close()


@FILLS("groups-described")
async def test_group_is_described_and_listed(bootstrap: str, topic: str) -> None:
    await send(bootstrap, topic, numbered(1))
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with started_consumer(bootstrap, topic, group_id=topic) as consumer:
            assert await read(consumer, 1) == numbered(1)
            await consumer.commit()
            assert (topic, "consumer") in await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets(topic)
            assert offsets[TopicPartition(topic, 0)].offset == 1
    finally:
        await admin.close()


async def test_clients_live_through_a_restart_of_the_node(own_node: Node, name: str) -> None:
    settings = {"group_id": name, "enable_auto_commit": False}
    async with started_producer(own_node.address, enable_idempotence=True, retry_backoff_ms=50) as producer:
        for value in numbered(20, "before/"):
            await producer.send_and_wait(name, value)
        async with started_consumer(own_node.address, name, retry_backoff_ms=50, **settings) as consumer:
            assert await read(consumer, 12) == numbered(20, "before/")[:12]
            await consumer.commit()
            await asyncio.to_thread(own_node.restart)
            for value in numbered(20, "after/"):
                await asyncio.wait_for(producer.send_and_wait(name, value), DEADLINE_S)
            resumed = await read(consumer, 28)
            assert sorted(set(resumed)) == sorted([*numbered(20, "before/")[12:], *numbered(20, "after/")])
        async with started_consumer(own_node.address, name, **settings) as consumer:
            assert await read(consumer, 28) == [*numbered(20, "before/")[12:], *numbered(20, "after/")]
