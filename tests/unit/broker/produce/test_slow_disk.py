"""A node whose disk takes its time: late answers, records that stay, groups that do not hold each other up."""

import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.held_disk import HeldDisk
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.server.configuration.sections.log import LogSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

REQUEST_TIMED_OUT = 7
TIMEOUT_MS = 200
HOURS: dict[str, Any] = {"retention_ms": "3600000"}
DAYS: dict[str, Any] = {"retention_ms": "604800000"}


@asynccontextmanager
async def slow_node(tmp_path: Path, settings: Settings | None = None) -> AsyncIterator[tuple[Address, HeldDisk]]:
    disk = HeldDisk()
    async with running_node(tmp_path, settings, disk) as address:
        try:
            yield address, disk
        finally:
            disk.release()


def now_ms() -> int:
    return int(time.time() * 1000)


def request(acks: int, timeout_ms: int = TIMEOUT_MS, topic: str = "t", **batch: int) -> ProduceRequest:
    records = memoryview(batch_of(b"v", timestamp_ms=now_ms(), **batch))
    return ProduceRequest(
        None, acks, timeout_ms, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, records)])]
    )


async def answer(client: WireClient) -> PartitionProduceResponse:
    response = await client.receive(0, 9)
    result: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return result


async def test_a_produce_that_waits_too_long_is_told_once_and_its_record_stays(tmp_path: Path) -> None:
    async with slow_node(tmp_path) as (address, disk), client_of(address) as client:
        await client.create("t", **DAYS)
        disk.hold("days")
        begun = time.monotonic()
        for _ in range(3):  # of which the second and third take the lane of repetitions
            client.send(request(acks=-1), 9)
        results = [await answer(client) for _ in range(3)]
        assert [result.error_code for result in results] == [REQUEST_TIMED_OUT] * 3
        assert [result.base_offset for result in results] == [-1] * 3
        assert results[0].error_message == "Stored, but not safe in time; whether it becomes durable is open."
        assert (time.monotonic() - begun) * 1000 >= TIMEOUT_MS
        client.send(request(acks=-1, timeout_ms=30_000), 9)
        await disk.held(1)
        disk.release()
        fourth = await answer(client)
        assert (fourth.error_code, fourth.base_offset) == (0, 3), "the next answer is the next request's"
        assert (await client.fetch(0)).high_watermark == 4, "outcome unknown to the client, and here they are kept"


async def test_acks_1_waits_as_long_as_the_node_allows(tmp_path: Path) -> None:
    settings = Settings(log=dataclasses.replace(LogSettings(), acknowledgement_timeout_ms=TIMEOUT_MS))
    async with slow_node(tmp_path, settings) as (address, disk), client_of(address) as client:
        await client.create("t", **DAYS)
        disk.hold("days")
        client.send(request(acks=1, timeout_ms=10**6), 9)
        assert (await answer(client)).error_code == REQUEST_TIMED_OUT


async def test_an_idempotent_producer_repeats_what_timed_out_and_it_is_stored_once(tmp_path: Path) -> None:
    sent: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    async with slow_node(tmp_path) as (address, disk), client_of(address) as client:
        await client.create("t", **DAYS)
        disk.hold("days")
        client.send(request(-1, **sent), 9)
        assert (await answer(client)).error_code == REQUEST_TIMED_OUT
        client.send(request(-1, 30_000, **sent), 9)
        disk.release()
        again = await answer(client)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert (await client.fetch(0)).high_watermark == 1


async def test_flushes_of_several_groups_are_in_flight_together_and_others_go_on(tmp_path: Path) -> None:
    async with slow_node(tmp_path) as (address, disk), client_of(address) as first, client_of(address) as second:
        await first.create("hours", **HOURS)
        await first.create("days", **DAYS)
        disk.hold("hours", "days")
        first.send(request(-1, 30_000, "hours"), 9)
        second.send(request(-1, 30_000, "days"), 9)
        await disk.held(2)
        async with client_of(address) as third:
            await third.create("long", retention_ms="-1")
            result = await third.produce(batch_of(b"v", timestamp_ms=now_ms()), "long", acks=-1)
            assert (result.error_code, result.base_offset) == (0, 0)
        assert disk.in_flight == 2
        disk.release()
        assert [(await answer(client)).error_code for client in (first, second)] == [0, 0]


async def test_one_flush_carries_all_partitions_that_came_while_another_was_under_way(tmp_path: Path) -> None:
    partitions = 50
    async with slow_node(tmp_path) as (address, disk), client_of(address) as client:
        await client.create("t", partitions, **DAYS)
        disk.hold("days")
        client.send(request(-1, 30_000), 9)
        await disk.held(1)
        for index in range(partitions):
            records = memoryview(batch_of(b"v", timestamp_ms=now_ms()))
            data = TopicProduceData("t", partition_data=[PartitionProduceData(index, records)])
            client.send(ProduceRequest(None, -1, 30_000, [data]), 9)
        await client.writer.drain()
        async with client_of(address) as other:
            await other.fetch(0)  # the node has been through its connections since
        before = disk.flushes_total
        disk.release()
        for _ in range(partitions + 1):
            assert (await answer(client)).error_code == 0
        assert disk.flushes_total - before <= 2
