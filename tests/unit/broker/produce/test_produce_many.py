"""A Produce request for many partitions: each answers for itself, and all of a partition group wait as one."""

import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.journal.append.producers import UNKNOWN_OFFSET
from hutong.journal.files.disk import RealDisk
from hutong.testing.disks.faults import FaultPlan
from hutong.testing.disks.faulty import FaultyDisk
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS = time.time_ns() // 1_000_000
VERSION = 9
HOUR_MS = 3_600_000

Sent = dict[str, dict[int, bytes]]
"""Batches by topic and partition."""


def batch(*values: bytes, **options: int) -> bytes:
    return batch_of(*(values or (b"v",)), timestamp_ms=NOW_MS, **options)


async def produce(client: WireClient, sent: Sent, acks: int = -1) -> dict[tuple[str, int], PartitionProduceResponse]:
    topics = [
        TopicProduceData(
            name, partition_data=[PartitionProduceData(index, memoryview(one)) for index, one in of.items()]
        )
        for name, of in sent.items()
    ]
    response = await client.ask(ProduceRequest(None, acks, 30_000, topics), VERSION)
    return {(topic.name, one.index): one for topic in response.responses for one in topic.partition_responses}


def codes(answers: dict[tuple[str, int], PartitionProduceResponse]) -> dict[tuple[str, int], tuple[int, int]]:
    return {where: (answer.error_code, answer.base_offset) for where, answer in answers.items()}


@pytest.fixture
def plan() -> FaultPlan:
    return FaultPlan()


@pytest.fixture
async def client(tmp_path: Path, plan: FaultPlan) -> AsyncIterator[WireClient]:
    async with (
        running_node(tmp_path, disk=FaultyDisk(RealDisk(), plan)) as address,
        client_of(address) as connected,
    ):
        await connected.create("days", partitions=3)
        await connected.create("hours", partitions=3, retention_ms=str(HOUR_MS))
        await connected.create("memory", partitions=2, hutong_qos="receive")
        yield connected


async def test_each_partition_gets_its_own_offsets(client: WireClient) -> None:
    sent: Sent = {name: {index: batch(*[b"v"] * (index + 1)) for index in (0, 1, 2)} for name in ("days", "hours")}
    for turn in range(2):
        for (_, index), answer in (await produce(client, sent)).items():
            assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, turn * (index + 1), 0)
    assert (await client.fetch(0, "days", version=11)).high_watermark == 2


async def test_one_that_is_refused_leaves_the_others(client: WireClient) -> None:
    damaged = batch()[:-1] + b"x"
    sent = {"days": {0: batch(), 1: damaged, 7: batch(), 2: batch()}, "nowhere": {0: batch()}}
    assert codes(await produce(client, sent)) == {
        ("days", 0): (0, 0),
        ("days", 1): (ErrorCode.CORRUPT_MESSAGE, -1),
        ("days", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("days", 2): (0, 0),
        ("nowhere", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }


async def test_a_repetition_among_new_ones_is_answered_with_its_original(client: WireClient) -> None:
    first = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    await produce(client, {"days": {0: first}})
    second = batch(producer_id=5, producer_epoch=0, base_sequence=1)
    gap = batch(producer_id=5, producer_epoch=0, base_sequence=9)
    assert codes(await produce(client, {"days": {0: first, 1: first}, "hours": {0: batch()}})) == {
        ("days", 0): (0, 0),
        ("days", 1): (0, 0),
        ("hours", 0): (0, 0),
    }
    assert codes(await produce(client, {"days": {0: second, 1: gap}})) == {
        ("days", 0): (0, 1),
        ("days", 1): (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
    }


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_repetition_that_newer_batches_have_displaced_is_stored_and_has_no_offset(
    client: WireClient, acks: int
) -> None:
    sent = [batch(producer_id=5, producer_epoch=0, base_sequence=number) for number in range(7)]
    for each in sent:
        await produce(client, {"days": {0: each}})
    # The same request twice: the second comes by the fast path, which leaves it to the dispatcher.
    for each in (sent[0], sent[1], sent[1]):
        assert codes(await produce(client, {"days": {0: each}}, acks)) == {
            ("days", 0): (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_OFFSET)
        }
    assert codes(await produce(client, {"days": {0: sent[6]}})) == {("days", 0): (0, 6)}


@pytest.mark.parametrize("acks", [1, -1])
async def test_what_is_answered_from_memory_stands_beside_what_waits_for_the_disk(
    client: WireClient, acks: int
) -> None:
    answers = await produce(client, {"memory": {0: batch(), 1: batch()}, "days": {0: batch()}}, acks)
    assert set(codes(answers).values()) == {(0, 0)}


async def test_a_group_that_fails_fails_its_partitions_and_no_others(client: WireClient, plan: FaultPlan) -> None:
    sent = {"days": {0: batch(), 1: batch()}, "hours": {0: batch(), 2: batch()}}
    await produce(client, sent)
    plan.add("flush", errno.EIO, pattern="*/groups/hours/*")
    assert codes(await produce(client, sent)) == {
        ("days", 0): (0, 1),
        ("days", 1): (0, 1),
        ("hours", 0): (ErrorCode.KAFKA_STORAGE_ERROR, -1),
        ("hours", 2): (ErrorCode.KAFKA_STORAGE_ERROR, -1),
    }
    assert codes(await produce(client, sent))["hours", 0] == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
