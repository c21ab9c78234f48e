"""Fetches of very many partitions: they hold the loop for a piece at a time, and miss nothing that comes meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.loop_iterations import WorkPerIteration
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.broker.dispatch import long_requests
from hutong.broker.fetch.pending_fetch import PIECE_PARTITIONS, WHOLE_PARTITIONS_MAX
from hutong.journal.log import PartitionLog
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from hutong.wire.kafka.error_codes import ErrorCode

WIDE = 4 * WHOLE_PARTITIONS_MAX
SLIM = WHOLE_PARTITIONS_MAX // 2
VERSION = 12
BATCH = batch_of(b"v", timestamp_ms=time.time_ns() // 1_000_000)
WAIT_MS = 30_000


def fetch(topic: str, count: int, **options: Any) -> FetchRequest:
    options = {"max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 0} | options
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(count)
    ]
    return FetchRequest(topics=[FetchTopic(topic, partitions=partitions)], **options)


def produce(topic: str, *indexes: int) -> ProduceRequest:
    data = [PartitionProduceData(index, memoryview(BATCH)) for index in indexes]
    return ProduceRequest(None, 1, 30_000, [TopicProduceData(topic, partition_data=data)])


def with_records(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions if data.records]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> WorkPerIteration:
    """Reads of logs; a stretch ends with its first piece, however fast the machine."""
    work, read = WorkPerIteration(), PartitionLog.read

    def counted(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        work.count()
        return read(log, *arguments, **options)

    monkeypatch.setattr(PartitionLog, "read", counted)
    monkeypatch.setattr(long_requests, "SLICE_US", 0)
    return work


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[tuple[WireClient, WireClient]]:
    async with running_node(tmp_path) as address, client_of(address) as one, client_of(address) as other:
        await one.create("wide", WIDE, hutong_qos="receive")
        await one.create("slim", SLIM)
        yield one, other


Clients = tuple[WireClient, WireClient]


async def test_a_wide_fetch_reads_a_piece_in_each_iteration(clients: Clients, reads: WorkPerIteration) -> None:
    client, _ = clients
    await client.ask(produce("wide", 3, WIDE - 1), 9)
    answer = await client.ask(fetch("wide", WIDE + 5), VERSION)
    assert [data.partition_index for data in answer.responses[0].partitions] == list(range(WIDE + 5))
    assert with_records(answer) == [3, WIDE - 1]
    codes = [data.error_code for data in answer.responses[0].partitions]
    assert codes == [0] * WIDE + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
    assert reads.total == WIDE
    assert PIECE_PARTITIONS <= reads.most <= 2 * PIECE_PARTITIONS


async def test_it_is_woken_by_what_comes_while_it_waits_or_looks(clients: Clients, reads: WorkPerIteration) -> None:
    client, other = clients
    for index in (0, WIDE - 1):
        client.send(fetch("wide", WIDE, max_wait_ms=WAIT_MS), VERSION)
        await client.writer.drain()
        assert (await other.ask(produce("wide", index), 9)).responses[0].partition_responses[0].error_code == 0
        assert index in with_records(await asyncio.wait_for(client.receive(1, VERSION), WAIT_MS / 1000))
    assert reads.most <= 2 * PIECE_PARTITIONS


async def test_it_is_answered_when_its_time_is_over(clients: Clients, reads: WorkPerIteration) -> None:
    client, _ = clients
    assert not with_records(await client.ask(fetch("wide", WIDE, max_wait_ms=1), VERSION))
    assert reads.most <= 2 * PIECE_PARTITIONS


async def test_a_wide_session_tells_what_is_new(clients: Clients, reads: WorkPerIteration) -> None:
    client, other = clients
    full = await client.ask(fetch("wide", WIDE, session_epoch=0), VERSION)
    assert len(full.responses[0].partitions) == WIDE
    known = {"session_id": full.session_id, "max_wait_ms": WAIT_MS}
    for epoch, index in ((1, WIDE - 1), (2, 0)):
        read = [FetchTopic("wide", partitions=[FetchPartition(partition=WIDE - 1, fetch_offset=1)])]
        topics = read if index == 0 else []
        client.send(FetchRequest(topics=topics, session_epoch=epoch, min_bytes=1, max_bytes=1 << 20, **known), VERSION)
        await client.writer.drain()
        await other.ask(produce("wide", index), 9)
        answer = await asyncio.wait_for(client.receive(1, VERSION), WAIT_MS / 1000)
        assert index in with_records(answer)
        assert len(answer.responses[0].partitions) <= 2, "no more than has news"
    # All are due again for a reader of another kind.
    committed = FetchRequest(session_epoch=3, isolation_level=1, min_bytes=1, max_bytes=1 << 20, **known)
    assert with_records(await client.ask(committed, VERSION)) == [0]
    assert reads.most <= 2 * PIECE_PARTITIONS


async def test_many_partitions_that_move_together_are_looked_at_together(
    clients: Clients, reads: WorkPerIteration
) -> None:
    client, other = clients
    min_bytes = (SLIM + 1) * len(BATCH)
    client.send(fetch("slim", SLIM, max_wait_ms=WAIT_MS, min_bytes=min_bytes), VERSION)
    await client.writer.drain()
    await other.ask(produce("slim", *range(SLIM)), 9)
    await other.ask(produce("slim", 0), 9)
    answer = await asyncio.wait_for(client.receive(1, VERSION), WAIT_MS / 1000)
    assert len(with_records(answer)) == SLIM
    assert reads.total <= 10 * SLIM, "once for what moved together, not once for each"


async def test_a_woken_fetch_is_answered_with_the_pass_that_woke_it(clients: Clients, reads: WorkPerIteration) -> None:
    client, other = clients
    client.send(fetch("slim", SLIM, max_wait_ms=WAIT_MS), VERSION)
    await client.writer.drain()
    await other.ask(produce("slim", SLIM - 1), 9)
    answer = await asyncio.wait_for(client.receive(1, VERSION), WAIT_MS / 1000)
    assert with_records(answer) == [SLIM - 1]
    assert reads.total <= 2 * SLIM, "one pass before the wait, and one after it"


async def test_a_client_that_leaves_while_its_fetch_looks_is_not_answered(
    tmp_path: Path, reads: WorkPerIteration
) -> None:
    async with running_node(tmp_path) as address, client_of(address) as other:
        await other.create("wide", WIDE)
        async with client_of(address) as leaving:
            leaving.send(fetch("wide", WIDE, max_wait_ms=WAIT_MS), VERSION)
            await leaving.writer.drain()
        assert len((await other.ask(fetch("wide", WIDE), VERSION)).responses[0].partitions) == WIDE
