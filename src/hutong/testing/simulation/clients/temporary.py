"""A user of temporary topics: creates one, writes a batch to each of its partitions, reads it all, and deletes it.

Strategy: every batch of every topic has offset 0 and the same size. Deleted topics leave whole files behind, which the
node uses again for the next ones. So what a torn write leaves of a former topic may look like a batch of the present
one, at the very place and with the very offset. A value is sent once: what a crash took stays away.

For one node: all partitions of a request have one leader.
"""

import asyncio
from typing import Any, Final

from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.clients.reader import records_in
from hutong.testing.simulation.history import FinalRead, ValueAcknowledged, ValueSent
from hutong.testing.simulation.hosts.host import EPOCH_MS
from hutong.testing.simulation.plan.clients import PlannedTemporaryUser
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

_TIMEOUT_MS: Final = 3_000
_PATIENCE_S: Final = 0.2
"""For an answer: while its topic waits to be deleted, no file behind it is used again."""
_PAUSE_S: Final = 0.05
_BYTES_MAX: Final = 1 << 20
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_DELETED: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class SimTemporaryUser(KafkaClient):
    """Uses one topic after the other. Figures: topics_total, values_total."""

    def __init__(self, context: ClientContext, plan: PlannedTemporaryUser) -> None:
        super().__init__(context)
        self._plan = plan
        self.topics_total = 0
        self.values_total = 0

    async def run(self) -> None:
        while not self.is_stopping:
            self.topics_total += 1
            await self._use(f"{self.name}.{self.topics_total}")
            await self.rest(self._plan.pause_ms)

    async def ask(self, request: Any, version: int, timeout_s: float = _PATIENCE_S) -> Any:
        return await super().ask(request, version, timeout_s)

    async def pause(self) -> None:
        await asyncio.sleep(_PAUSE_S * (0.5 + self.random.random()))

    async def _use(self, topic: str) -> None:
        count, together = self._plan.partitions, self._plan.batches_together
        create = CreateTopicsRequest([CreatableTopic(topic, count, 1, [], [])], _TIMEOUT_MS)
        await self.ask_until_done(create, 7, lambda answer: answer.topics[0].error_code in _CREATED)
        for first in range(0, count, together):
            if not self.is_stopping:
                await self._write(topic, range(first, min(first + together, count)))
        await self._read(topic)
        delete = DeleteTopicsRequest([DeleteTopicState(topic)], [], _TIMEOUT_MS)
        await self.ask_until_done(delete, 6, lambda answer: answer.responses[0].error_code in _DELETED)

    async def _write(self, topic: str, partitions: range) -> None:
        """Write a batch to each of these partitions, with one request."""
        values = {index: self._sends(topic, index) for index in partitions}
        data = [PartitionProduceData(index, memoryview(self._batch(value))) for index, value in values.items()]
        try:
            answer = await self.ask(
                ProduceRequest(None, -1, _TIMEOUT_MS, [TopicProduceData(topic, partition_data=data)]), 9
            )
        except Disconnected:
            await self.pause()
            return
        self.went_well()
        for part in answer.responses[0].partition_responses:
            # Of all others nobody knows whether they are stored.
            if not part.error_code:
                place, value = (topic, part.index), values[part.index]
                self.history.add(ValueAcknowledged(self.now_us, self.name, place, value, part.base_offset))

    def _sends(self, topic: str, index: int) -> bytes:
        self.values_total += 1
        value = b"%s/%06d" % (self.name.encode(), self.values_total)
        self.history.add(ValueSent(self.now_us, self.name, (topic, index), value))
        return value

    def _batch(self, value: bytes) -> bytes:
        # The padding comes last: two batches differ in their first bytes alone, as messages of a fixed size do.
        padding = (("padding", bytes(self._plan.padding_bytes)),)
        return build_batch([Record(timestamp_ms=EPOCH_MS + self.now_us // 1_000, value=value, headers=padding)])

    async def _read(self, topic: str) -> None:
        """Read all partitions to their ends, and add what is there."""
        found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(self._plan.partitions)}
        positions = dict.fromkeys(found, 0)
        while positions:
            for part in await self._fetch(topic, positions):
                index = part.partition_index
                if part.error_code:
                    continue
                records, position = records_in(part, positions[index], is_committed=False)
                found[index] += [(record.offset, record.value or b"") for record in records]
                positions[index] = position
                if position >= part.high_watermark:
                    del positions[index]
        for index, stored in found.items():
            self.history.add(FinalRead((topic, index), False, 0, tuple(stored)))

    async def _fetch(self, topic: str, positions: dict[int, int]) -> list[Any]:
        """The partitions of one answer; empty where there was none, after a pause."""
        asked = [
            FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=_BYTES_MAX)
            for index, position in positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=_BYTES_MAX, topics=[FetchTopic(topic, partitions=asked)]
        )
        try:
            answer = await self.ask(request, 12)
        except Disconnected:
            await self.pause()
            return []
        parts = answer.responses[0].partitions if answer.responses else []
        if answer.error_code or any(part.error_code for part in parts):
            await self.pause()
        else:
            self.went_well()
        return list(parts)
