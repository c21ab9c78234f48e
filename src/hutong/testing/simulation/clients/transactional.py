"""A transactional producer (KIP-98): some batches to several partitions, then a commit or an abort.

Strategy: each transaction is begun, filled and ended in order, one request at a time. An error inside it leads to an
abort, as in real clients. An end without an answer is asked again with the same epoch. A producer that is fenced, or
that the coordinator has aborted for its time, begins anew with its transactional id; that ends whatever was open.

The fate of a transaction is certain where an answer says so, or where no commit was ever asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from hutong.testing.simulation.clients.client import RETRIABLE, ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.history import Place, TransactionEnded, ValueAcknowledged, ValueSent
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedTransactionalProducer
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

ATTEMPTS_MAX: Final = 5  # of a request inside a transaction, before it is aborted
_TRANSACTIONAL: Final = 0x10
_TIMEOUT_MS: Final = 3_000
Attempt = Callable[[], Awaitable[int]]
"""One request; returns the error code of its answer."""
_STORED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class TransactionFailed(Exception):
    """A request inside a transaction failed for good."""


@dataclass(slots=True)
class _Transaction:
    name: str
    places: list[Place] = field(default_factory=list)


class SimTransactionalProducer(KafkaClient):
    """Instances with one transactional id fence each other."""

    def __init__(self, context: ClientContext, plan: PlannedTransactionalProducer) -> None:
        super().__init__(context)
        self._plan = plan
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[Place, int] = {}
        self._values_total = 0
        self._transactions_total = 0

    async def run(self) -> None:
        await self._begin_epoch()
        while not self.is_stopping:
            self._transactions_total += 1
            await self._transact(_Transaction(f"{self.name}:{self._transactions_total}"))
            await self.rest(self._plan.pause_ms)

    async def _begin_epoch(self) -> None:
        request = InitProducerIdRequest(self._plan.transactional_id, self._plan.timeout_ms)
        response = await self.ask_until_done(request, 4, lambda answer: answer.error_code == 0)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences = {}

    async def _transact(self, transaction: _Transaction) -> None:
        is_commit = self.random.random() < 0.7
        try:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                await self._send((self._plan.topic, self.random.randrange(self._plan.partitions)), transaction)
            # Longer than some timeouts: then the coordinator aborts it.
            if self.random.random() < 0.1:
                await asyncio.sleep(self._plan.timeout_ms / 1_000 * 2 * self.random.random())
        except TransactionFailed:
            is_commit = False
        await self._end(transaction, is_commit=is_commit)

    async def _send(self, place: Place, transaction: _Transaction) -> None:
        if place not in transaction.places:
            await self._add(place)
            transaction.places.append(place)
        values = []
        for _ in range(self.random.choice((1, 1, 3))):
            self._values_total += 1
            values.append(b"%s/%d" % (self.name.encode(), self._values_total))
            self.history.add(ValueSent(self.now_us, self.name, place, values[-1], transaction.name))
        base_offset = await self._produce(place, values)
        for number, value in enumerate(values):
            offset = -1 if base_offset < 0 else base_offset + number
            self.history.add(ValueAcknowledged(self.now_us, self.name, place, value, offset))

    async def _add(self, place: Place) -> None:
        topics = [AddPartitionsToTxnTopic(place[0], [place[1]])]
        request = AddPartitionsToTxnRequest([], self._plan.transactional_id, self._producer_id, self._epoch, topics)

        async def attempt() -> int:
            response = await self.ask(request, 3)
            results = response.results_by_topic_v3_and_below[0].results_by_partition
            error: int = results[0].partition_error_code
            return error

        error = await self._tried(attempt)
        if error:
            raise TransactionFailed(f"partition: error {error}")

    async def _produce(self, place: Place, values: list[bytes]) -> int:
        sequence = self._sequences.get(place, 0)
        payload = build_batch(
            [Record(timestamp_ms=EPOCH_MS, value=value) for value in values],
            attributes=_TRANSACTIONAL,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
        )
        data = PartitionProduceData(place[1], memoryview(payload))
        request = ProduceRequest(
            self._plan.transactional_id, -1, _TIMEOUT_MS, [TopicProduceData(place[0], partition_data=[data])]
        )
        base_offset = -1

        async def attempt() -> int:
            nonlocal base_offset
            answer = (await self.ask(request, 9)).responses[0].partition_responses[0]
            base_offset = answer.base_offset
            error: int = answer.error_code
            return error

        error = await self._tried(attempt)
        if error not in _STORED:
            raise TransactionFailed(f"batch: error {error}")
        self._sequences[place] = sequence + len(values)
        return base_offset

    async def _tried(self, attempt: Attempt) -> int:
        """The error of the first attempt that is not to be repeated. Raises TransactionFailed after some in vain."""
        for _ in range(ATTEMPTS_MAX):
            try:
                error = await attempt()
            except Disconnected:
                await self.pause()
                continue
            if error not in RETRIABLE:
                return error
            await self.pause()
        raise TransactionFailed("no answer")

    async def _end(self, transaction: _Transaction, *, is_commit: bool) -> None:
        if not transaction.places:
            return
        request = EndTxnRequest(self._plan.transactional_id, self._producer_id, self._epoch, is_commit)
        is_uncertain = False
        while True:
            try:
                error = (await self.ask(request, 3)).error_code
            except Disconnected:
                is_uncertain = True
                await self.pause()
                continue
            if error not in RETRIABLE:
                break
            # Its decision may be stored although it could not be said in time.
            is_uncertain = is_uncertain or error != ErrorCode.CONCURRENT_TRANSACTIONS
            await self.pause()
        self.went_well()
        if error == ErrorCode.NONE:
            self._ended(transaction, is_commit=is_commit, is_certain=True)
            # A batch that was given up may be stored or not: sequences begin again with a new epoch.
            if not is_commit:
                await self._begin_epoch()
            return
        await self._begin_epoch()
        # Fenced, or aborted for its time. A commit that was asked for before without an answer may have happened.
        is_certain = not (is_commit and is_uncertain)
        self._ended(transaction, is_commit=False, is_certain=is_certain)

    def _ended(self, transaction: _Transaction, *, is_commit: bool, is_certain: bool) -> None:
        self.history.add(TransactionEnded(self.now_us, self.name, transaction.name, is_commit, is_certain))
