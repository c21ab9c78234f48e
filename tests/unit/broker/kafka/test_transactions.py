"""Transactional Produce, committed readers and DescribeProducers as a client sees them, with a coordinator of straw."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request, running_node

from hutong.broker.broker import Broker
from hutong.broker.coordinators.transaction_gateway import TopicPartition, Verdicts
from hutong.foundation.errors import HutongError
from hutong.journal.log import PartitionLog
from hutong.server.broker import broker_verticle
from hutong.server.configuration.settings import Address
from hutong.wire.kafka.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k61_describe_producers import DescribeProducersRequest, TopicRequest
from hutong.wire.kafka.batch.records import TRANSACTIONAL, iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

NOW_MS = time.time_ns() // 1_000_000
COMMITTED, UNCOMMITTED = 1, 0
Then = Callable[[Verdicts], None]


class StrawDoor:
    """Answers at once with `verdict`, or keeps the question while `is_slow`."""

    def __init__(self) -> None:
        self.verdict = ErrorCode.NONE
        self.is_slow = False
        self.questions: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.kept: list[tuple[list[TopicPartition], Then]] = []

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        may_add: bool,
        then: Then,
    ) -> None:
        self.questions.append((transactional_id, producer_id, producer_epoch, list(partitions), may_add))
        if self.is_slow:
            self.kept.append((list(partitions), then))
        else:
            then(dict.fromkeys(partitions, self.verdict))

    def answer(self) -> None:
        partitions, then = self.kept.pop(0)
        then(dict.fromkeys(partitions, self.verdict))


class Scene:
    """A client, the node's broker behind it, and its door."""

    def __init__(self, client: WireClient, address: Address, broker: Broker) -> None:
        self.client = client
        self.address = address
        self.broker = broker
        self.door = StrawDoor()
        broker.transactions = cast(Any, self.door)

    def log(self, partition: int = 0) -> PartitionLog:
        found = self.broker.topics.partition("t", partition)
        assert found is not None
        return found.log

    def request(self, *batches: bytes, transactional_id: str | None = "tx") -> ProduceRequest:
        data = [PartitionProduceData(index, memoryview(batch)) for index, batch in enumerate(batches)]
        return ProduceRequest(transactional_id, -1, 1000, [TopicProduceData("t", partition_data=data)])

    async def send(
        self, *batches: bytes, version: int = 9, transactional_id: str | None = "tx"
    ) -> list[PartitionProduceResponse]:
        response = await self.client.ask(self.request(*batches, transactional_id=transactional_id), version)
        answers: list[PartitionProduceResponse] = response.responses[0].partition_responses
        return answers

    async def codes(self, *batches: bytes, version: int = 9, transactional_id: str | None = "tx") -> list[ErrorCode]:
        answers = await self.send(*batches, version=version, transactional_id=transactional_id)
        return [ErrorCode(answer.error_code) for answer in answers]

    async def end(self, producer_id: int, *, commit: bool, epoch: int = 0, partition: int = 0) -> None:
        """Let the marker be written; any later answer of the node comes when it is visible."""
        outcomes: list[HutongError | None] = []
        self.log(partition).append_marker(
            producer_id, epoch, is_commit=commit, coordinator_epoch=0, then=outcomes.append
        )
        await self.fetch(self.log(partition).end_offset - 1, max_wait_ms=5000)
        assert outcomes == [None]

    async def asked(self, other: WireClient, times: int = 1) -> None:
        """Wait until the door has been asked so often, with requests that pass by."""
        while len(self.door.questions) < times:
            assert (await other.produce(batch_of(b"plain", timestamp_ms=NOW_MS), partition=1)).error_code == 0

    async def fetch(self, offset: int, isolation_level: int = UNCOMMITTED, max_wait_ms: int = 0) -> PartitionData:
        request = fetch_request(offset, max_wait_ms=max_wait_ms)
        request.isolation_level = isolation_level
        response = await self.client.ask(request, 12)
        answer: PartitionData = response.responses[0].partitions[0]
        assert answer.error_code == 0
        return answer

    async def list_offset(self, timestamp: int, isolation_level: int) -> tuple[int, int]:
        asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
        answer = await self.client.ask(ListOffsetsRequest(-1, isolation_level, [asked]), 7)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0
        return found.timestamp, found.offset


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    made: list[Broker] = []

    def make(**parts: object) -> Broker:
        made.append(Broker(**parts))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(broker_verticle, "Broker", make)
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", 2)
        yield Scene(client, address, made[-1])


def batch(sequence: int, *values: bytes, producer_id: int = 7, epoch: int = 0, plain: bool = False) -> bytes:
    return batch_of(
        *(values or (b"v",)),
        timestamp_ms=NOW_MS + sequence,
        attributes=0 if plain else TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def values_of(data: PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, memoryview)
    return [
        record.value
        for header, one in iterate_batches(data.records)
        if not header.is_control
        for record in iterate_records(one)
    ]


def aborted_of(data: PartitionData) -> list[tuple[int, int]] | None:
    if data.aborted_transactions is None:
        return None
    return [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions]


# -- what is taken


async def test_the_door_is_asked_for_the_first_batch_of_a_transaction_only(scene: Scene) -> None:
    assert await scene.codes(batch(0), batch(0)) == [0, 0]
    assert await scene.codes(batch(1)) == [0]
    assert scene.door.questions == [("tx", 7, 0, [("t", 0), ("t", 1)], False)]
    await scene.end(7, commit=True)
    assert await scene.codes(batch(2), batch(1), version=12) == [0, 0]
    assert scene.door.questions[1:] == [("tx", 7, 0, [("t", 0)], True)]


@pytest.mark.parametrize(
    ("verdict", "version", "code"),
    [
        (ErrorCode.INVALID_TXN_STATE, 9, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_what_the_door_refuses_is_not_kept(
    scene: Scene, verdict: ErrorCode, version: int, code: ErrorCode
) -> None:
    scene.door.verdict = verdict
    assert await scene.codes(batch(0), version=version) == [code]
    assert scene.log().end_offset == 0
    assert scene.log().open_transaction(7) is None


async def test_two_producers_in_one_request_are_refused_whole(scene: Scene) -> None:
    assert await scene.codes(batch(0), batch(0, producer_id=8)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert await scene.codes(batch(0), batch(0, epoch=1)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert not scene.door.questions


async def test_a_transactional_batch_needs_a_transactional_id(scene: Scene) -> None:
    codes = await scene.codes(batch(0), transactional_id=None)
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]


async def test_plain_batches_of_a_transactional_producer_stay_outside(scene: Scene) -> None:
    assert await scene.codes(batch(0, plain=True)) == [0]
    assert not scene.door.questions
    assert await scene.codes(batch(1)) == [0]
    for transactional_id in ("tx", None):
        assert await scene.codes(batch(2, plain=True), transactional_id=transactional_id) == [
            ErrorCode.INVALID_TXN_STATE
        ]
    assert await scene.codes(batch(0, producer_id=9, plain=True), transactional_id=None) == [0]


async def test_an_old_epoch_is_fenced_by_the_log(scene: Scene) -> None:
    assert await scene.codes(batch(0, epoch=1)) == [0]
    await scene.end(7, commit=False, epoch=2)
    assert await scene.codes(batch(1, epoch=1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await scene.codes(batch(0, epoch=2)) == [0]


async def test_nothing_overtakes_a_request_that_waits_for_the_door(scene: Scene) -> None:
    scene.door.is_slow = True
    scene.client.send(scene.request(batch(0, b"first")), 12)
    scene.client.send(scene.request(batch(1, b"second")), 12)
    async with client_of(scene.address) as other:
        await scene.asked(other)
    assert scene.log().end_offset == 0
    scene.door.answer()
    for offset in (0, 1):
        answer = await scene.client.receive(0, 12)
        assert answer.responses[0].partition_responses[0].base_offset == offset
    assert len(scene.door.questions) == 1
    assert values_of(await scene.fetch(0)) == [b"first", b"second"]


async def test_a_refusal_that_took_time_is_told_once(scene: Scene) -> None:
    scene.door.is_slow, scene.door.verdict = True, ErrorCode.TRANSACTION_ABORTABLE
    scene.client.send(scene.request(batch(0)), 12)
    async with client_of(scene.address) as other:
        await scene.asked(other)
    scene.door.answer()
    answer = await scene.client.receive(0, 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.TRANSACTION_ABORTABLE
    scene.door.is_slow, scene.door.verdict = False, ErrorCode.NONE
    assert await scene.codes(batch(0)) == [0]


async def test_a_marker_between_the_word_and_the_append_makes_the_word_old(scene: Scene) -> None:
    """KIP-890: else the batch would open a transaction that nobody ends."""
    scene.door.is_slow = True
    scene.client.send(scene.request(batch(0)), 12)
    async with client_of(scene.address) as other:
        await scene.asked(other)
        scene.log().append_marker(7, 0, is_commit=False, coordinator_epoch=0, then=lambda _: None)
        scene.door.answer()
        await scene.asked(other, times=2)
    scene.door.verdict = ErrorCode.TRANSACTION_ABORTABLE
    scene.door.answer()
    answer = await scene.client.receive(0, 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert scene.log().open_transaction(7) is None


async def test_a_connection_that_ends_while_it_waits_leaves_nothing(scene: Scene) -> None:
    scene.door.is_slow = True
    async with client_of(scene.address) as other:
        other.send(scene.request(batch(0)), 12)
        await scene.asked(scene.client)
    scene.door.answer()
    await scene.client.produce(batch_of(b"plain", timestamp_ms=NOW_MS), partition=1)
    assert scene.broker.admissions.kept == 0


# -- what is read


async def test_committed_readers_stop_at_the_first_open_transaction(scene: Scene) -> None:
    await scene.client.produce(batch_of(b"plain", timestamp_ms=NOW_MS))
    await scene.codes(batch(0, b"open"))
    await scene.client.produce(batch_of(b"behind", timestamp_ms=NOW_MS))
    committed, uncommitted = await scene.fetch(0, COMMITTED), await scene.fetch(0)
    assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
    assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (3, 1)
    assert values_of(committed) == [b"plain"]
    assert values_of(uncommitted) == [b"plain", b"open", b"behind"]
    assert (aborted_of(committed), aborted_of(uncommitted)) == ([], None)
    assert values_of(await scene.fetch(1, COMMITTED)) == []
    assert values_of(await scene.fetch(3, COMMITTED)) == []


async def test_committed_readers_are_told_what_was_aborted(scene: Scene) -> None:
    await scene.codes(batch(0, b"gone"))
    await scene.end(7, commit=False)
    await scene.codes(batch(1, b"kept"))
    await scene.end(7, commit=True)
    await scene.codes(batch(2, b"gone too"))
    await scene.end(7, commit=False)
    assert aborted_of(await scene.fetch(0, COMMITTED)) == [(7, 0), (7, 4)]
    assert aborted_of(await scene.fetch(2, COMMITTED)) == [(7, 4)]
    assert aborted_of(await scene.fetch(6, COMMITTED)) == []
    assert aborted_of(await scene.fetch(0)) is None


async def test_a_waiting_committed_reader_wakes_when_the_transaction_ends(scene: Scene) -> None:
    await scene.codes(batch(0, b"v"))
    async with client_of(scene.address) as reader:
        request = fetch_request(0, max_wait_ms=30_000)
        request.isolation_level = COMMITTED
        reader.send(request, 12)
        await scene.client.produce(batch_of(b"behind", timestamp_ms=NOW_MS))
        await scene.end(7, commit=True)
        answer = await reader.receive(1, 12)
        assert values_of(answer.responses[0].partitions[0]) == [b"v", b"behind"]


async def test_offsets_are_listed_as_far_as_the_reader_may_go(scene: Scene) -> None:
    await scene.client.produce(batch_of(b"plain", timestamp_ms=NOW_MS - 1000))
    await scene.codes(batch(0, b"open"))
    assert (await scene.list_offset(-1, COMMITTED))[1] == 1
    assert (await scene.list_offset(-1, UNCOMMITTED))[1] == 2
    assert await scene.list_offset(NOW_MS - 500, UNCOMMITTED) == (NOW_MS, 1)
    assert await scene.list_offset(NOW_MS - 500, COMMITTED) == (-1, -1)
    assert await scene.list_offset(NOW_MS - 5000, COMMITTED) == (NOW_MS - 1000, 0)
    assert (await scene.list_offset(-3, UNCOMMITTED))[1] == 1
    assert (await scene.list_offset(-3, COMMITTED))[1] == -1


async def test_producers_are_described(scene: Scene) -> None:
    await scene.codes(batch(0, b"a", b"b"))
    await scene.codes(batch(0, producer_id=8, epoch=3))
    await scene.end(8, commit=True, epoch=3)
    answer = await scene.client.ask(DescribeProducersRequest([TopicRequest("t", [0, 1, 5]), TopicRequest("x", [0])]), 0)
    first, empty, missing = answer.topics[0].partitions
    described = [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
        for one in first.active_producers
    ]
    assert described == [(7, 0, 1, -1, 0), (8, 3, 0, 0, -1)]
    assert (empty.error_code, empty.active_producers) == (0, [])
    assert missing.error_code == answer.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
