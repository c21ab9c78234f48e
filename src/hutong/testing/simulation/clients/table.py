"""A table in a compacted topic, by which a service of a simulated node remembers its calls.

Strategy: what `bus.durable.table` is to a program, with the simulator's own client in the place of librdkafka, whose
threads have no virtual time. One owner at a time: a process of the node, which reads the table whole, then writes with
an idempotent producer. Claims of other owners are left out. A write that is not acknowledged in time is reported as
failed, and may be in the log all the same.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from hutong.foundation.errors import HutongError, StorageError
from hutong.foundation.machine_host import StateRecord
from hutong.foundation.waiting.pending import Continuation
from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest
from hutong.wire.kafka.batch.records import Record, build_batch, iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

TABLE_TOPIC: Final = "rpc.desk"
_TIMEOUT_MS: Final = 3_000
_PATIENCE_US: Final = 5_000_000
"""For so long a write is tried again."""
_BYTES_MAX: Final = 1 << 20
_BATCH_BYTES_MAX: Final = 16 << 10
_SETTINGS: Final = (("cleanup.policy", "compact"), ("segment.bytes", "20000"), ("min.cleanable.dirty.ratio", "0"))


class SimTable:
    """The table of one process of a node (a `rpc.delivery.driver.Table`)."""

    def __init__(self, context: ClientContext) -> None:
        self._client = KafkaClient(context)
        self.failure: HutongError | None = None
        self._waiting: deque[tuple[Sequence[StateRecord], Continuation[None]]] = deque()
        self._has_more = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._producer = (-1, -1)  # id and epoch
        self._sequence = 0

    async def open(self, apply: Callable[[bytes, bytes | None], None], /) -> None:
        configs = [CreatableTopicConfig(name, value) for name, value in _SETTINGS]
        request = CreateTopicsRequest([CreatableTopic(TABLE_TOPIC, 1, 1, [], configs)], _TIMEOUT_MS)
        known = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        await self._client.ask_until_done(request, 7, lambda answer: answer.topics[0].error_code in known)
        await self._read(apply)
        await self._begin_epoch()
        self._writing = asyncio.get_running_loop().create_task(self._write())

    def append_all(self, records: Sequence[StateRecord], then: Continuation[None], /) -> None:
        self._waiting.append((records, then))
        self._has_more.set()

    async def close(self) -> None:
        self.failure = StorageError("the table is closed")
        if self._writing is not None:
            self._writing.cancel()
        self._client.close()

    async def _read(self, apply: Callable[[bytes, bytes | None], None]) -> None:
        position, end = 0, -1
        while position < end or end < 0:
            asked = FetchPartition(partition=0, fetch_offset=position, partition_max_bytes=_BYTES_MAX)
            topics = [FetchTopic(TABLE_TOPIC, partitions=[asked])]
            request = FetchRequest(max_wait_ms=0, max_bytes=_BYTES_MAX, topics=topics)
            answer = await self._client.ask_until_done(request, 12, _is_read)
            part = answer.responses[0].partitions[0]
            end = part.high_watermark
            for header, batch in iterate_batches(memoryview(_payload_of(part))):
                for record in iterate_records(batch):
                    # A fetch inside a batch gets the whole batch.
                    if record.offset >= position:
                        apply(record.key or b"", record.value)
                position = max(position, header.last_offset + 1)

    async def _begin_epoch(self) -> None:
        answer = await self._client.ask_until_done(
            InitProducerIdRequest(None, 60_000), 4, lambda each: each.error_code == 0
        )
        self._producer, self._sequence = (answer.producer_id, answer.producer_epoch), 0

    async def _write(self) -> None:
        """Write what waits, each batch until it is acknowledged or its time is over."""
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            while self._waiting:
                records, taken = self._next_records()
                error = await self._write_batch(records) if records else None
                for then in taken:
                    then(error)

    def _next_records(self) -> tuple[list[StateRecord], list[Continuation[None]]]:
        """As much of what waits as fits into a batch, and at least the first."""
        records: list[StateRecord] = []
        taken: list[Continuation[None]] = []
        size = 0
        while self._waiting:
            some, then = self._waiting[0]
            size += sum(len(key) + len(value or b"") for key, value in some)
            if taken and size > _BATCH_BYTES_MAX:
                break
            self._waiting.popleft()
            records += some
            taken.append(then)
        return records, taken

    async def _write_batch(self, records: list[StateRecord]) -> HutongError | None:
        begun_us = self._client.now_us
        while self._client.now_us - begun_us < _PATIENCE_US:
            try:
                answer = await self._client.ask(self._request(records), 9)
            except Disconnected:
                await self._client.pause()
                continue
            error = answer.responses[0].partition_responses[0].error_code
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._client.went_well()
                self._sequence += len(records)
                return None
            # The node has forgotten this producer: nothing else was written meanwhile, so the order stays.
            if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
                await self._begin_epoch()
            else:
                await self._client.pause()
        await self._begin_epoch()
        return StorageError("the table was not written in time")

    def _request(self, records: list[StateRecord]) -> ProduceRequest:
        producer_id, epoch = self._producer
        payload = build_batch(
            [Record(timestamp_ms=EPOCH_MS, key=key, value=value) for key, value in records],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
        )
        data = PartitionProduceData(0, memoryview(payload))
        return ProduceRequest(None, -1, _TIMEOUT_MS, [TopicProduceData(TABLE_TOPIC, partition_data=[data])])


def _is_read(answer: Any) -> bool:
    return not answer.error_code and bool(answer.responses) and not answer.responses[0].partitions[0].error_code


def _payload_of(part: Any) -> Any:
    payload = part.records or b""
    return payload if isinstance(payload, bytes | memoryview) else b"".join(payload)
