"""The short way says what the ordinary way says: the same bytes sent on a connection with a lane and on a fresh one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.headers import decode_response_header, encode_request_frame

NOW_MS = time.time_ns() // 1_000_000
VERSION = 9
CLOSED = "closed"


def frame_of(batch: bytes, *, topic: str = "t", partition: int = 0, acks: int = 1, correlation_id: int = 1) -> bytes:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, memoryview(batch))])]
    return b"".join(encode_request_frame(ProduceRequest(None, acks, 1000, data), VERSION, correlation_id, "client"))


async def answer_to(client: WireClient, frame: bytes) -> object:
    """(correlation id, topic, partition, code, append time, start offset) and the base offset apart, or CLOSED."""
    client.writer.write(frame)
    try:
        size = int.from_bytes(await client.reader.readexactly(4), "big")
        answer = await client.reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return CLOSED
    correlation_id, offset = decode_response_header(answer, 0, VERSION)
    topic = codecs.decode_response(0, VERSION, answer, offset).responses[0]
    result = topic.partition_responses[0]
    succeeded = result.base_offset >= 0
    return correlation_id, topic.name, result.index, result.error_code, result.log_append_time_ms, succeeded


def mutations(frame: bytes, random: Random) -> list[bytes]:
    changed = []
    for _ in range(120):
        copy = bytearray(frame)
        copy[random.randrange(4, len(copy))] = random.randrange(256)
        changed.append(bytes(copy))
    return changed


def damaged(frame: bytes, by: int) -> bytes:
    """Cut or lengthened at its end, with a size that says so."""
    body = frame[4:by] if by < 0 else frame[4:] + bytes(by)
    return len(body).to_bytes(4, "big") + body


async def test_both_ways_give_the_same_answers(tmp_path: Path) -> None:
    random = Random(11)
    good = frame_of(batch_of(b"value", timestamp_ms=NOW_MS))
    other = [
        frame_of(batch_of(b"x" * size, timestamp_ms=NOW_MS), correlation_id=size)
        for size in (0, 1, 60, 300, 9000, 20000)
    ]
    late = frame_of(batch_of(b"late", timestamp_ms=NOW_MS + 10**10))
    scripts = [*mutations(good, random), *other, late, *(damaged(good, by) for by in (-1, -3, -40, 1, 3))]
    async with running_node(tmp_path) as address, client_of(address) as creator:
        await creator.create("t", 2)
        for script in scripts:
            async with client_of(address) as repeating, client_of(address) as fresh:
                first = await answer_to(repeating, good)
                assert first == (1, "t", 0, 0, -1, True)
                assert await answer_to(repeating, script) == await answer_to(fresh, script)


@pytest.mark.parametrize("qos", ["receive", "persistence"])
async def test_repeated_requests_get_consecutive_offsets(tmp_path: Path, qos: str) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", hutong_qos=qos)
        for expected in range(50):
            result = await client.produce(batch_of(b"v", timestamp_ms=NOW_MS))
            assert (result.error_code, result.base_offset) == (0, expected)
        assert (await client.fetch(0)).high_watermark == 50


async def delete_topic(client: WireClient) -> None:
    assert (await client.ask(DeleteTopicsRequest([DeleteTopicState("t")]), 6)).responses[0].error_code == 0


async def delete_and_create_topic(client: WireClient) -> None:
    await delete_topic(client)
    await client.create("t")


@pytest.mark.parametrize(("change", "code", "offset"), [(delete_topic, 3, -1), (delete_and_create_topic, 0, 0)])
async def test_a_change_of_topics_ends_the_lane(
    tmp_path: Path, change: Callable[[WireClient], Awaitable[None]], code: int, offset: int
) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        for _ in range(3):
            await client.produce(batch_of(b"v", timestamp_ms=NOW_MS))
        await change(client)
        result = await client.produce(batch_of(b"v", timestamp_ms=NOW_MS))
        assert (result.error_code, result.base_offset) == (code, offset)


async def test_a_refused_batch_on_a_lane_is_refused_in_full(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")

        def numbered(sequence: int) -> bytes:
            return batch_of(b"v", timestamp_ms=NOW_MS, producer_id=5, producer_epoch=0, base_sequence=sequence)

        assert (await client.produce(numbered(0))).base_offset == 0
        assert (await client.produce(numbered(1))).base_offset == 1
        refused = await client.produce(numbered(7))
        assert (refused.error_code, refused.base_offset) == (45, -1)
        assert refused.error_message
        assert (await client.produce(numbered(1))).base_offset == 1


@pytest.mark.parametrize("qos", ["receive", "persistence"])
async def test_requests_that_arrive_together_are_answered_as_one_by_one(tmp_path: Path, qos: str) -> None:
    """A train with requests in it that must be refused, or are not of its kind, and one that is cut in two."""
    random = Random(5)
    good = [frame_of(batch_of(b"v" * number, timestamp_ms=NOW_MS), correlation_id=number) for number in range(1, 40)]
    bad = frame_of(b"\0" + batch_of(b"v", timestamp_ms=NOW_MS)[1:-1] + b"?", correlation_id=77)
    numbered = [
        frame_of(
            batch_of(b"v", timestamp_ms=NOW_MS, producer_id=9, producer_epoch=0, base_sequence=sequence),
            correlation_id=100 + sequence,
        )
        for sequence in (0, 1, 1, 2, 9, 3)
    ]
    frames = [*good[:9], bad, *good[9:30], *numbered, frame_of(b"", correlation_id=88), *good[30:]]
    async with running_node(tmp_path) as address, client_of(address) as creator:
        await creator.create("t", hutong_qos=qos)
        async with client_of(address) as single:
            expected = [await answer_to(single, frame) for frame in frames]
        await delete_and_create_topic(creator)
        await delete_topic(creator)
        await creator.create("t", hutong_qos=qos)
        async with client_of(address) as together:
            assert await answer_to(together, good[0]) == expected[0]
            data = b"".join(frames[1:])
            cut = random.randrange(len(data))
            together.writer.write(data[:cut])
            await together.writer.drain()
            together.writer.write(data[cut:])
            assert [await answer_to(together, b"") for _ in frames[1:]] == expected[1:]
        records = (await creator.fetch(0)).high_watermark
    assert records == len(good) + 4
