"""The client side of one transactional id (KIP-98): its identity, its sequences, and the transaction that is open.

Strategy: a transaction is begun, filled and ended in order, one request at a time. A request that gets no usable answer
is repeated some times, then the transaction is aborted, as in real clients. An end without an answer is asked again
with the same epoch. A session that is fenced, or whose transaction the coordinator has aborted for its time, begins
anew with its transactional id; that ends what was open.

With version 2 (KIP-890) partitions and groups join by the first batch or offset, and each end brings a new epoch.

The fate of a transaction is certain where an answer says so, or where no commit was ever asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hutong.testing.simulation.clients.client import RETRIABLE, ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.history import (
    OffsetCommitBegun,
    OffsetCommitRefused,
    OffsetCommitted,
    ProducerInitialised,
    TransactionEnded,
    ValueAcknowledged,
    ValueSent,
)
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedTransactionalClient
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from hutong.wire.kafka.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest
from hutong.wire.kafka.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

ATTEMPTS_MAX: Final = 5  # of a request inside a transaction, before it is aborted
FENCED_S_MAX: Final = 5.0
_TRANSACTIONAL: Final = 0x10
_TIMEOUT_MS: Final = 3_000
_STORED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
Attempt = Callable[[], Awaitable[int]]
"""One request; returns the error code of its answer."""


class TransactionFailed(Exception):
    """A request inside a transaction failed for good: the transaction can only be aborted."""


@dataclass(frozen=True, slots=True)
class _RequestVersions:
    produce: int
    commit_offsets: int
    end: int


_VERSIONS: Final = {1: _RequestVersions(9, 3, 3), 2: _RequestVersions(12, 5, 5)}


@dataclass(slots=True)
class _OpenTransaction:
    name: str
    places: set[Place] = field(default_factory=set)
    offsets: list[OffsetCommitBegun] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.places and not self.offsets


class TransactionSession(KafkaClient):
    """Sessions with one transactional id fence each other: the newest is the owner."""

    def __init__(self, context: ClientContext, plan: PlannedTransactionalClient) -> None:
        super().__init__(context)
        self._plan = plan
        self._versions = _VERSIONS[plan.transaction_version]
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[Place, int] = {}
        self._transactions_total = 0
        self._commits_total = 0
        self._has_gap = False  # a batch was given up: it may be stored, or may arrive yet
        self._open = _OpenTransaction("")

    @property
    def is_second_version(self) -> bool:
        return self._plan.transaction_version > 1

    @property
    def transaction(self) -> str:
        """The name of the transaction that is open, in the history."""
        return self._open.name

    async def initialise(self, *, recovers: bool = False) -> None:
        """Get an epoch; `recovers`: after the own one (KIP-360), unless another session has the id by now."""
        plan, own = self._plan, (self._producer_id, self._epoch) if recovers else (-1, -1)
        request = InitProducerIdRequest(plan.transactional_id, plan.timeout_ms, *own)
        begun_us = self.now_us

        def is_done(error: int) -> bool:
            return error == ErrorCode.NONE or (recovers and error not in RETRIABLE)

        response = await self.ask_until_done(request, 4, lambda answer: is_done(answer.error_code))
        if response.error_code:
            await self._begin_anew()
            return
        self._take_identity(response.producer_id, response.producer_epoch)
        self.history.add(
            ProducerInitialised(self.now_us, begun_us, self.name, plan.transactional_id, self._producer_id, self._epoch)
        )

    def begin(self) -> None:
        """Begin a transaction. The node hears of it with the first batch or offset."""
        self._transactions_total += 1
        self._open = _OpenTransaction(f"{self.name}:{self._transactions_total}")

    async def send(self, place: Place, values: list[bytes], sources: list[tuple[Place, int] | None]) -> None:
        """Send values to one partition, made from the records `sources`. Raises TransactionFailed."""
        await self._add(place)
        for value, source in zip(values, sources, strict=True):
            self.sends(place, value, source)
        base_offset = await self._produce(place, values)
        for number, value in enumerate(values):
            offset = -1 if base_offset < 0 else base_offset + number
            self.history.add(ValueAcknowledged(self.now_us, self.name, place, value, offset))

    def sends(self, place: Place, value: bytes, source: tuple[Place, int] | None) -> None:
        """Note that this value, made from that record, is about to be sent."""
        self.history.add(ValueSent(self.now_us, self.name, place, value, self.transaction, source))

    def record_of(self, value: bytes) -> Record:
        return Record(timestamp_ms=EPOCH_MS, value=value)

    async def commit_offsets(self, group: str, place: Place, offset: int) -> None:
        """Make an offset of a group part of the transaction (KIP-447). Raises TransactionFailed."""
        plan, (topic, index) = self._plan, place
        if not self.is_second_version:
            add = AddOffsetsToTxnRequest(plan.transactional_id, self._producer_id, self._epoch, group)
            await self._tried(lambda: self._error_of(add, 3))
        self._commits_total += 1
        begun = OffsetCommitBegun(self.now_us, self.name, group, self._commits_total, place, offset)
        self.history.add(begun)
        self._open.offsets.append(begun)
        request = TxnOffsetCommitRequest(
            plan.transactional_id,
            group,
            self._producer_id,
            self._epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(index, offset)])],
        )

        async def attempt() -> int:
            answer = await self.ask(request, self._versions.commit_offsets)
            error: int = answer.topics[0].partitions[0].error_code
            return error

        await self._tried(attempt)

    async def end(self, *, is_commit: bool) -> bool:
        """Commit or abort. True where it was committed for certain."""
        if self._open.is_empty:
            return True
        begun_us, is_uncertain = self.now_us, False
        request = EndTxnRequest(self._plan.transactional_id, self._producer_id, self._epoch, is_commit)
        while True:
            try:
                answer = await self.ask(request, self._versions.end)
            except Disconnected:
                is_uncertain = True
                await self.pause()
                continue
            error = answer.error_code
            if error not in RETRIABLE:
                break
            # Its decision may be stored although it could not be said in time.
            is_uncertain = is_uncertain or error != ErrorCode.CONCURRENT_TRANSACTIONS
            await self.pause()
        self.went_well()
        if error:
            await self._begin_anew()
            # Fenced, or aborted for its time. A commit that was asked for before without an answer may have happened.
            self._ended(begun_us, is_commit=False, is_certain=not (is_commit and is_uncertain))
            return False
        if self.is_second_version:
            self._take_identity(answer.producer_id, answer.producer_epoch)
        self._ended(begun_us, is_commit=is_commit, is_certain=True)
        # Sequences would have a hole where a batch was given up. Only a new epoch begins at 0.
        if self._has_gap:
            await self.initialise(recovers=self.random.random() < 0.5)
        return is_commit

    # -- requests

    async def _add(self, place: Place) -> None:
        if place in self._open.places:
            return
        self._open.places.add(place)
        if self.is_second_version:
            return
        topics = [AddPartitionsToTxnTopic(place[0], [place[1]])]
        plan = self._plan
        request = AddPartitionsToTxnRequest([], plan.transactional_id, self._producer_id, self._epoch, topics)

        async def attempt() -> int:
            answer = await self.ask(request, 3)
            error: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            return error

        await self._tried(attempt)

    async def _produce(self, place: Place, values: list[bytes]) -> int:
        """The offset of the first value, -1 where the node did not say. Raises TransactionFailed."""
        sequence = self._sequences.get(place, 0)
        payload = build_batch(
            [self.record_of(value) for value in values],
            attributes=_TRANSACTIONAL,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        data = TopicProduceData(place[0], partition_data=[PartitionProduceData(place[1], memoryview(payload))])
        request = ProduceRequest(self._plan.transactional_id, -1, _TIMEOUT_MS, [data])
        base_offset = -1

        async def attempt() -> int:
            nonlocal base_offset
            answer = (await self.ask(request, self._versions.produce)).responses[0].partition_responses[0]
            base_offset = answer.base_offset
            return ErrorCode.NONE if answer.error_code in _STORED else answer.error_code

        self._has_gap = True
        await self._tried(attempt)
        self._has_gap = False
        self._sequences[place] = sequence + len(values)
        return base_offset

    async def _error_of(self, request: AddOffsetsToTxnRequest, version: int) -> int:
        error: int = (await self.ask(request, version)).error_code
        return error

    async def _tried(self, attempt: Attempt) -> None:
        """Try until it succeeds. Raises TransactionFailed after some attempts, or one whose error will not pass."""
        for _ in range(ATTEMPTS_MAX):
            try:
                error = await attempt()
            except Disconnected:
                await self.pause()
                continue
            if error == ErrorCode.NONE:
                return
            if error not in RETRIABLE:
                raise TransactionFailed(f"error {error}")
            await self.pause()
        raise TransactionFailed("no answer")

    # -- what follows from answers

    async def _begin_anew(self) -> None:
        """Do as a program that was fenced: end, and be started again after a while."""
        # At once, two instances would fence each other for ever.
        await asyncio.sleep(FENCED_S_MAX * self.random.random())
        await self.initialise()

    def _take_identity(self, producer_id: int, epoch: int) -> None:
        # With version 1 an end keeps the epoch, and sequences go on.
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._sequences.clear()
            self._has_gap = False
        self._producer_id, self._epoch = producer_id, epoch

    def _ended(self, begun_us: int, *, is_commit: bool, is_certain: bool) -> None:
        name = self._open.name
        self.history.add(TransactionEnded(self.now_us, begun_us, self.name, name, is_commit, is_certain))
        for begun in self._open.offsets if is_certain else ():
            each = (self.now_us, self.name, begun.group, begun.number, begun.place, begun.offset)
            self.history.add(OffsetCommitted(*each) if is_commit else OffsetCommitRefused(*each, ErrorCode.NONE))
