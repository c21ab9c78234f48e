"""An idempotent producer (KIP-98): sequences, several requests in flight, retries in order.

Strategy: values go out in rounds of a few requests at once. The answers are taken in order; with the first that fails
for a reason that may pass, or with a lost connection, everything from there on is sent again with the same sequences.
One that sends ahead begins with later batches after a lost connection, as real clients do whose requests to the last
leader are open when they hear of the next one. The others are repetitions then that the leader may have displaced.
An answer that says the node has lost the producer's state ends its epoch: what was not acknowledged is given up, as its
fate is unknown, and a new epoch begins at sequence 0.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hutong.testing.simulation.clients.client import RETRIABLE, ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected, KafkaConnection
from hutong.testing.simulation.history import ValueAcknowledged, ValueRefused, ValueSent
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedProducer
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

IN_FLIGHT_MAX: Final = 5
_ROUNDS_AHEAD: Final = 3  # of one to five batches: more than a node remembers
_TIMEOUT_MS: Final = 3_000
_UNIFORM_BYTES: Final = 300
_STORED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_LOST_STATE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)


@dataclass(frozen=True, slots=True)
class _Batch:
    sequence: int
    values: tuple[bytes, ...]
    payload: bytes


class SimProducer(KafkaClient):
    """Sends to one partition. Both acks of 1 and of -1 wait for the disk."""

    def __init__(self, context: ClientContext, plan: PlannedProducer) -> None:
        super().__init__(context)
        self._plan = plan
        self._place: Place = (plan.topic, plan.partition)
        self._unacknowledged: deque[_Batch] = deque()
        self._uncertain_sequence = -1  # up to here a batch may be stored, without an answer that says so
        self._acknowledged_sequence = -1  # the newest of this epoch
        self._next_sequence = 0
        self._values_total = 0
        self._producer_id = -1
        self._epoch = -1

    async def run(self) -> None:
        await self._begin_epoch()
        while not self.is_stopping or self._unacknowledged:
            if not self.is_stopping:
                self._add_batches()
            await self._send_all()
            await self.rest(self._plan.pause_ms)

    async def _begin_epoch(self) -> None:
        response = await self.ask_until_done(
            InitProducerIdRequest(None, 60_000), 4, lambda answer: answer.error_code == 0
        )
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._next_sequence = 0
        self._uncertain_sequence = self._acknowledged_sequence = -1

    def _add_batches(self) -> None:
        for _ in range(self.random.choice((1, 1, 1, IN_FLIGHT_MAX))):
            # Batches of one size: what a crash left behind the end fits exactly behind what is written next.
            is_uniform = self._plan.is_uniform
            count = 1 if is_uniform else self.random.choice((1, 1, 1, 1, 10))
            values = []
            for _ in range(count):
                self._values_total += 1
                number = b"%06d" if is_uniform else b"%d"
                values.append(b"%s/%s" % (self.name.encode(), number % self._values_total))
                self.sends(values[-1])
            # Sizes of a small record, a usual one, and one that fills a segment soon.
            padding = bytes(_UNIFORM_BYTES if is_uniform else self.random.choice((0, 0, 100, 5_000)))
            payload = build_batch(
                [self.record_of(value, padding) for value in values],
                compression=self._plan.codec,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._next_sequence,
            )
            self._unacknowledged.append(_Batch(self._next_sequence, tuple(values), payload))
            self._next_sequence += count

    def sends(self, value: bytes) -> None:
        """Note that this value is about to be sent."""
        self.history.add(ValueSent(self.now_us, self.name, self._place, value))

    def record_of(self, value: bytes, padding: bytes) -> Record:
        # Not in the order of offsets: then neither the index nor a batch alone knows the first record of a time.
        age_ms = self.random.choice((0, 0, 0, 1_000))
        return Record(timestamp_ms=EPOCH_MS + self.now_us // 1_000 - age_ms, key=padding, value=value)

    async def _send_all(self) -> None:
        """Send until everything is acknowledged or given up."""
        while self._unacknowledged:
            try:
                await self._send_round()
            except Disconnected:
                await self.pause()
                # A node without state takes any sequence (KIP-360): it would take these without the earlier ones.
                is_known = self._acknowledged_sequence >= 0
                if self._plan.sends_ahead and is_known and not self.is_stopping:
                    await self._send_ahead()

    async def _send_ahead(self) -> None:
        """Send new batches before those that have no answer. Only a node that has these takes them."""
        open_count = len(self._unacknowledged)
        for _ in range(_ROUNDS_AHEAD):
            self._add_batches()
        ahead = [*self._unacknowledged][open_count:]
        try:
            while ahead:
                together, ahead = ahead[:IN_FLIGHT_MAX], ahead[IN_FLIGHT_MAX:]
                # Before the first is sent: what has no answer may be stored.
                self._uncertain_sequence = max(self._uncertain_sequence, together[-1].sequence)
                connection, futures = await self._begin(together)
                for number, (batch, future) in enumerate(zip(together, futures, strict=True)):
                    answer = (await connection.answer(future)).responses[0].partition_responses[0]
                    if answer.error_code not in _STORED:
                        await _ended(connection, futures[number + 1 :])
                        return
                    self._acknowledged(batch, answer.base_offset)
        except Disconnected:
            await self.pause()

    async def _send_round(self) -> None:
        batches = [*self._unacknowledged][:IN_FLIGHT_MAX]
        connection, futures = await self._begin(batches)
        for number, (batch, future) in enumerate(zip(batches, futures, strict=True)):
            try:
                response = await connection.answer(future)
            except Disconnected:
                self._uncertain_sequence = max(self._uncertain_sequence, batches[-1].sequence)
                raise
            answer = response.responses[0].partition_responses[0]
            error = answer.error_code
            if error in _STORED:
                self.went_well()
                self._acknowledged(batch, answer.base_offset)
            # Behind one that failed and will be sent again, others are out of order.
            elif error in RETRIABLE or (error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and number):
                # A flush that failed or took too long: the batch may be there all the same, and those behind it.
                self._uncertain_sequence = max(self._uncertain_sequence, batches[-1].sequence)
                await self.pause()
                await _ended(connection, futures[number + 1 :])
                return
            else:
                # Two answers say nothing of the batch itself: that the state is lost, and any that comes after an
                # answer that was not heard, as clocks may have jumped since. Yet the node that took a later batch has
                # this one, and must not say that it is out of order: Java's producer would repeat it for ever.
                is_new = error not in _LOST_STATE and batch.sequence > self._uncertain_sequence
                if is_new or batch.sequence < self._acknowledged_sequence:
                    self._refused(batch, error)
                await _ended(connection, futures[number + 1 :])
                self._unacknowledged.clear()
                await self._begin_epoch()
                return

    async def _begin(self, batches: Sequence[_Batch]) -> "tuple[KafkaConnection, list[asyncio.Future[Any]]]":
        """Send the batches together. Raises Disconnected."""
        requests = [self._request(batch) for batch in batches]
        connection = await self.connected(requests[0])
        return connection, [connection.begin(request, 9) for request in requests]

    def _request(self, batch: _Batch) -> ProduceRequest:
        topic, index = self._place
        data = PartitionProduceData(index, memoryview(batch.payload))
        return ProduceRequest(None, self._plan.acks, _TIMEOUT_MS, [TopicProduceData(topic, partition_data=[data])])

    def _acknowledged(self, batch: _Batch, base_offset: int) -> None:
        self._unacknowledged.remove(batch)
        self._acknowledged_sequence = max(self._acknowledged_sequence, batch.sequence)
        for number, value in enumerate(batch.values):
            offset = -1 if base_offset < 0 else base_offset + number
            self.history.add(ValueAcknowledged(self.now_us, self.name, self._place, value, offset))

    def _refused(self, batch: _Batch, error: int) -> None:
        for value in batch.values:
            self.history.add(ValueRefused(self.now_us, self.name, self._place, value, error))


async def _ended(connection: KafkaConnection, futures: "list[asyncio.Future[object]]") -> None:
    """Wait for the answers that nobody needs: they would come before those to what is sent next."""
    # With their timeout: of a node that lost its power nothing may come.
    with contextlib.suppress(Disconnected):
        for future in futures:
            await connection.answer(future)
