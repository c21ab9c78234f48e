"""Produce, Fetch and ListOffsets as a client sees them: what is refused, with which code, and what a wait ends with."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request, running_node

from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.batch.compression import Compression
from hutong.wire.kafka.batch.record_slices import DELETE_HORIZON
from hutong.wire.kafka.batch.records import (
    CONTROL,
    TRANSACTIONAL,
    Record,
    build_batch,
    iterate_batches,
    iterate_records,
)
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as connected:
        await connected.create("t")
        yield connected


def batch(*values: bytes, **options: int) -> bytes:
    return batch_of(*(values or (b"v",)), timestamp_ms=NOW_MS, **options)


def patched(original: bytes, at: int, replacement: bytes) -> bytes:
    return original[:at] + replacement + original[at + len(replacement) :]


def offsets_in(records: object) -> list[int]:
    assert isinstance(records, memoryview)
    return [record.offset for _, one in iterate_batches(records) for record in iterate_records(one)]


BAD_BATCHES = {
    "none": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "cut off": (batch()[:-1], ErrorCode.INVALID_RECORD),
    "two": (batch() + batch(), ErrorCode.INVALID_RECORD),
    "magic 1": (patched(batch(), 16, b"\x01"), ErrorCode.INVALID_RECORD),
    "base offset 5": (patched(batch(), 0, struct.pack(">q", 5)), ErrorCode.INVALID_RECORD),
    "wrong crc": (patched(batch(), 17, b"\0\0\0\0"), ErrorCode.CORRUPT_MESSAGE),
    "a flipped byte": (patched(batch(), 66, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
    "control": (batch(attributes=CONTROL), ErrorCode.INVALID_RECORD),
    "transactional": (
        batch(attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "too large": (batch(b"x" * 1_048_588), ErrorCode.MESSAGE_TOO_LARGE),
    "from the future": (batch_of(b"v", timestamp_ms=NOW_MS + 2 * HOUR_MS), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize(("records", "code"), BAD_BATCHES.values(), ids=BAD_BATCHES)
async def test_a_bad_batch_is_refused_with_its_code(client: WireClient, records: bytes | None, code: ErrorCode) -> None:
    answer = await client.produce(records)
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.error_message
    assert (await client.produce(batch())).base_offset == 0  # nothing of it was kept


async def test_acks_other_than_the_three_are_refused(client: WireClient) -> None:
    assert (await client.produce(batch(), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


async def test_an_unknown_topic_and_partition_are_not_created_by_a_produce(client: WireClient) -> None:
    for topic, partition in (("missing", 0), ("t", 1), ("t", -1)):
        answer = await client.produce(batch(), topic, partition=partition)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_internal_topics_are_not_written_by_clients(client: WireClient) -> None:
    assert (await client.produce(batch(), "__consumer_offsets")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_zstd_needs_version_7(client: WireClient) -> None:
    zstd = batch(compression=Compression.ZSTD)
    assert (await client.produce(zstd, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await client.produce(zstd, version=7)).error_code == ErrorCode.NONE


async def test_more_replicas_than_there_are_refuse_acks_all(client: WireClient) -> None:
    await client.create("two", min_insync_replicas="2")
    assert (await client.produce(batch(), "two", acks=-1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await client.produce(batch(), "two", acks=1)).error_code == ErrorCode.NONE


async def test_an_idempotent_producer_is_answered_as_kafka_does(client: WireClient) -> None:
    def numbered(sequence: int, epoch: int = 0) -> bytes:
        return batch(producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    assert [(await client.produce(numbered(sequence))).base_offset for sequence in range(3)] == [0, 1, 2]
    assert (await client.produce(numbered(1))).base_offset == 1
    assert (await client.produce(numbered(9))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await client.produce(numbered(0, epoch=1))).base_offset == 3
    assert (await client.produce(numbered(3, epoch=0))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_without_acknowledgement_an_error_closes_the_connection(client: WireClient) -> None:
    def unanswered(topic: str) -> ProduceRequest:
        data = PartitionProduceData(0, memoryview(batch()))
        return ProduceRequest(None, 0, 1000, [TopicProduceData(topic, partition_data=[data])])

    client.send(unanswered("t"), 9)
    assert (await client.produce(batch())).base_offset == 1  # the unanswered one took offset 0
    client.send(unanswered("missing"), 9)
    assert await client.is_closed()


async def test_responses_keep_the_order_of_requests(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as reader, client_of(address) as writer:
        await writer.create("t")
        reader.send(fetch_request(0, max_wait_ms=60_000), 12)
        reader.send(fetch_request(5), 12)  # an error, which needs no waiting
        await writer.produce(batch())
        first, second = [(await reader.receive(1, 12)).responses[0].partitions[0] for _ in range(2)]
        assert offsets_in(first.records) == [0]
        assert second.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_fetch_waits_for_data(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as reader, client_of(address) as writer:
        await writer.create("t")
        waiting = asyncio.ensure_future(reader.fetch(0, max_wait_ms=60_000))
        assert (await writer.produce(batch(b"a", b"b"))).base_offset == 0
        found = await waiting
        assert offsets_in(found.records) == [0, 1]
        assert found.high_watermark == 2


async def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as reader, client_of(address) as writer:
        await writer.create("t")
        waiting = asyncio.ensure_future(reader.fetch(0, max_wait_ms=60_000, min_bytes=len(batch()) * 3))
        for expected in range(3):
            assert not waiting.done()
            assert (await writer.produce(batch())).base_offset == expected
        assert offsets_in((await waiting).records) == [0, 1, 2]


async def test_a_fetch_ends_without_data_when_its_time_is_over(client: WireClient) -> None:
    found = await client.fetch(0, max_wait_ms=20)
    assert (found.error_code, found.high_watermark) == (0, 0)
    assert not found.records


async def test_an_offset_inside_a_batch_returns_the_whole_batch(client: WireClient) -> None:
    await client.produce(batch(b"a", b"b", b"c"))
    assert offsets_in((await client.fetch(2)).records) == [0, 1, 2]


async def test_the_first_batch_comes_even_over_the_limit(client: WireClient) -> None:
    await client.produce(batch(b"x" * 5000))
    await client.produce(batch(b"y"))
    assert offsets_in((await client.fetch(0, max_bytes=100)).records) == [0]


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
async def test_an_offset_out_of_range_is_told_at_once(client: WireClient, offset: int) -> None:
    await client.produce(batch())
    assert (await client.fetch(offset, max_wait_ms=60_000)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_offsets_by_time(client: WireClient) -> None:
    for step in range(3):
        await client.produce(batch_of(b"a", b"b", timestamp_ms=NOW_MS + step * 1000))

    async def offset_at(timestamp: int, version: int = 11) -> tuple[int, int, int]:
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
        answer = (await client.ask(request, version)).topics[0].partitions[0]
        return answer.error_code, answer.timestamp, answer.offset

    assert await offset_at(-1) == (0, -1, 6)
    assert await offset_at(-2) == (0, -1, 0)
    assert await offset_at(-3) == (0, NOW_MS + 2000, 4)
    assert await offset_at(-4) == (0, -1, 0)
    assert await offset_at(-5) == (0, -1, -1)
    assert await offset_at(0) == (0, NOW_MS, 0)
    assert await offset_at(NOW_MS + 1) == (0, NOW_MS + 1000, 2)
    assert await offset_at(NOW_MS + 2001) == (0, -1, -1)
    assert (await offset_at(-3, version=6))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert (await offset_at(-99))[0] == ErrorCode.UNSUPPORTED_VERSION


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", 2)
        for number in range(10):
            assert (await client.produce(batch(), acks=-1)).base_offset == number
    async with running_node(tmp_path) as address, client_of(address) as client:
        assert offsets_in((await client.fetch(0)).records) == list(range(10))
        assert (await client.produce(batch(), acks=-1)).base_offset == 10


async def test_a_compacted_topic_takes_only_records_with_keys(client: WireClient) -> None:
    await client.create("compacted", cleanup_policy="compact")
    keyed, stray = Record(timestamp_ms=NOW_MS, key=b"k", value=b"v"), Record(timestamp_ms=NOW_MS, value=b"v")
    for codec in Compression:
        good = build_batch([keyed, keyed], compression=codec)
        for _ in range(3):  # the second like it would go the short way
            assert (await client.produce(good, "compacted")).error_code == ErrorCode.NONE
        answer = await client.produce(build_batch([keyed, stray], compression=codec), "compacted")
        assert answer.error_code == ErrorCode.INVALID_RECORD
    broken = build_batch([keyed], attributes=Compression.ZSTD)
    assert (await client.produce(broken, "compacted")).error_code == ErrorCode.INVALID_RECORD
    horizon = build_batch([keyed], attributes=DELETE_HORIZON)
    assert (await client.produce(horizon, "compacted")).error_code == ErrorCode.INVALID_RECORD
