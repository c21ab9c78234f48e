"""Batches whose content is not what their header says, on every road to a log: refused as Kafka refuses them."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.lying_batches import batch, lies, record
from tests.unit.broker.produce.test_fast_path import frame_of
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.server.configuration.sections.log import LogSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.wire.kafka.batch.compression import Compression, compress
from hutong.wire.kafka.batch.records import LOG_APPEND_TIME, iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS: Final = time.time_ns() // 1_000_000
FAR_MS: Final = 10**10
MEBIBYTE: Final = 1024 * 1024
LIES: Final = list(lies(NOW_MS))
TWO: Final = record(0) + record(1, timestamp_delta_ms=5)


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[Address]:
    async with running_node(tmp_path, Settings(log=LogSettings(unpacked_batch_bytes_max=MEBIBYTE))) as running:
        yield running


@pytest.fixture
async def client(address: Address) -> AsyncIterator[WireClient]:
    async with client_of(address) as connected:
        await connected.create("t")
        yield connected


async def values_in(client: WireClient, topic: str = "t") -> list[bytes | None]:
    fetched = await client.fetch(0, topic)
    assert isinstance(fetched.records, memoryview)
    return [record.value for _, one in iterate_batches(fetched.records) for record in iterate_records(one)]


async def test_every_lie_is_refused_and_nothing_of_it_is_kept(client: WireClient) -> None:
    for name, lying, code in LIES:
        answer = await client.produce(lying)
        assert (answer.error_code, answer.base_offset) == (code, -1), name
        assert answer.error_message, name
    assert (await client.produce(batch_of(b"good", timestamp_ms=NOW_MS))).base_offset == 0
    assert await values_in(client) == [b"good"]


async def test_the_short_way_refuses_the_same(client: WireClient) -> None:
    for _, lying, code in LIES:
        for _ in range(2):  # the second of them makes a lane, and has it
            assert (await client.produce(batch_of(b"good", timestamp_ms=NOW_MS))).error_code == ErrorCode.NONE
        assert (await client.produce(lying)).error_code == code
    assert await values_in(client) == [b"good"] * 2 * len(LIES)


async def test_without_acknowledgement_a_lie_ends_the_connection(client: WireClient, address: Address) -> None:
    for _, lying, _ in LIES[:3]:
        async with client_of(address) as silent:
            silent.writer.write(unanswered(lying))
            assert await silent.is_closed()
    assert (await client.produce(batch_of(b"good", timestamp_ms=NOW_MS))).base_offset == 0


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("said_ms", [NOW_MS + FAR_MS, 1, NOW_MS + 4], ids=["far", "old", "near"])
async def test_a_greatest_timestamp_that_is_wrong_is_corrected(
    client: WireClient, said_ms: int, codec: Compression
) -> None:
    for number in range(2):  # at first, and with a lane
        assert (await client.produce(batch_of(b"v", timestamp_ms=NOW_MS))).base_offset == 3 * number
        lying = batch(compress(codec, TWO), 2, now_ms=NOW_MS, max_timestamp_ms=said_ms, compression=codec)
        assert (await client.produce(lying)).base_offset == 3 * number + 1
    fetched = await client.fetch(1)
    assert isinstance(fetched.records, memoryview)
    found = [header for header, one in iterate_batches(fetched.records) if header.record_count == 2]
    assert [header.max_timestamp_ms for header in found] == [NOW_MS + 5] * 2


async def test_a_record_outside_the_bounds_is_named_whatever_the_header_says(client: WireClient) -> None:
    data = b"".join(record(index, timestamp_delta_ms=FAR_MS if index % 2 else 0) for index in range(300))
    answer = await client.produce(batch(data, 300, now_ms=NOW_MS))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == list(range(1, 200, 2))


async def test_a_record_without_a_time_is_always_timely(client: WireClient) -> None:
    await client.create("strict", message_timestamp_before_max_ms="1000")
    assert (await client.produce(batch(record(), 1, now_ms=-1), "strict")).error_code == ErrorCode.NONE
    assert (await client.produce(batch(record(), 1, now_ms=5), "strict")).error_code == ErrorCode.INVALID_TIMESTAMP


async def test_a_producer_may_not_stamp_for_the_log(client: WireClient) -> None:
    await client.create("stamped", message_timestamp_type="LogAppendTime")
    stamped = batch(TWO, 2, now_ms=NOW_MS, max_timestamp_ms=NOW_MS + 7, attributes=LOG_APPEND_TIME)
    answer = await client.produce(stamped, "stamped")
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    far = batch(TWO, 2, now_ms=NOW_MS, max_timestamp_ms=NOW_MS + FAR_MS, attributes=LOG_APPEND_TIME)
    assert (await client.produce(far)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert (await client.produce(stamped)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
async def test_what_unpacks_to_more_than_the_node_takes_is_too_large(client: WireClient, codec: Compression) -> None:
    for size, code in ((MEBIBYTE - 100, ErrorCode.NONE), (MEBIBYTE, ErrorCode.MESSAGE_TOO_LARGE)):
        packed = compress(codec, record(0, bytes(size)))
        answer = await client.produce(batch(packed, 1, now_ms=NOW_MS, compression=codec))
        assert answer.error_code == code
    assert [len(value or b"") for value in await values_in(client)] == [MEBIBYTE - 100]


def unanswered(lying: bytes) -> bytes:
    return frame_of(lying, acks=0)
