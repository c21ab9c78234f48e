"""An admin client with topics of its own: creates, grows, alters and deletes them, and deletes records in them.

Strategy: each step is one change, or two at the same time, and then a look at the topic. Nobody else changes these
topics, so what a look may find follows from the answers. After a change without a clear answer the client goes on with
a fresh topic: the node may carry the change out at any later time, as after the end of a full disk.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from hutong.testing.simulation.admin_history import LogStartSeen, TopicChanged, TopicSeen
from hutong.testing.simulation.clients.client import ClientContext, KafkaClient
from hutong.testing.simulation.clients.connection import Disconnected
from hutong.testing.simulation.history_text import Place
from hutong.testing.simulation.plan.clients import PlannedAdmin
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from hutong.wire.kafka.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from hutong.wire.kafka.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.error_codes import ErrorCode

CREATES: Final = "creates"
DELETES: Final = "deletes"
GROWS: Final = "grows"
ALTERS: Final = "alters"
TRIMS: Final = "trims"
UNKNOWN: Final = -1
_CERTAIN: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers after which it is known whether the change was made."""
_TOPIC: Final = 2
_SET: Final = 0
_EARLIEST: Final = -2
_TIMEOUT_MS: Final = 3_000
_ALTERED: Final = (
    ("retention.bytes", "20000"),
    ("retention.bytes", "-1"),
    ("segment.bytes", "20000"),
    ("segment.ms", "1000"),
)


class SimAdmin(KafkaClient):
    """Changes one topic after the other."""

    def __init__(self, context: ClientContext, plan: PlannedAdmin) -> None:
        super().__init__(context)
        self._pause_ms = plan.pause_ms
        # Requests of one connection are carried out one after the other.
        self._hands = [KafkaClient(context, self.routes) for _ in range(3)]
        self._topics_total = 0
        self._partitions = 0  # of the present topic, as far as is known; 0 while there is none
        self._ends: dict[int, int] = {}  # offsets after what was written, by partition
        self._is_clear = False
        self.topics: list[str] = []

    async def run(self) -> None:
        while not self.is_stopping:
            if not self._is_clear:
                self._topics_total += 1
                self.topics.append(f"{self.name}.{self._topics_total}")
                self._partitions, self._is_clear = 0, True
                self._ends.clear()
            await self._step()
            if self._is_clear:
                await look_at_topic(self, self._topic)
            await self.rest(self._pause_ms)

    @property
    def _topic(self) -> str:
        return self.topics[-1]

    async def _step(self) -> None:
        if not self._partitions:
            await self._create(self._hands[0])
            return
        changes = [self._grow, self._alter, self._write, self._trim, self._delete]
        # A topic's changes may meet each other on their way to the disk.
        count = self.random.choice((1, 1, 2, 3))
        chosen = self.random.sample(changes, count, counts=(2, 2, 3, 2, 1))
        await asyncio.gather(*(change(hand) for change, hand in zip(dict.fromkeys(chosen), self._hands, strict=False)))

    async def _create(self, hand: KafkaClient) -> None:
        partitions = self.random.choice((1, 2, 3))
        request = CreateTopicsRequest(
            [CreatableTopic(self._topic, partitions, self.replication_factor, [], [])], _TIMEOUT_MS
        )
        answer = await self._change(hand, CREATES, partitions, request, 7, lambda answer: answer.topics[0].error_code)
        if answer is not None:
            self._partitions = partitions

    async def _delete(self, hand: KafkaClient) -> None:
        request = DeleteTopicsRequest([DeleteTopicState(self._topic)], [], _TIMEOUT_MS)
        if await self._change(hand, DELETES, 0, request, 6, lambda answer: answer.responses[0].error_code) is not None:
            self._partitions = 0
            self._ends.clear()

    async def _grow(self, hand: KafkaClient) -> None:
        partitions = self._partitions + self.random.choice((1, 2))
        request = CreatePartitionsRequest([CreatePartitionsTopic(self._topic, partitions, None)], _TIMEOUT_MS)
        answer = await self._change(hand, GROWS, partitions, request, 3, lambda answer: answer.results[0].error_code)
        if answer is not None and self._partitions:
            self._partitions = partitions

    async def _alter(self, hand: KafkaClient) -> None:
        name, value = self.random.choice(_ALTERED)
        resource = AlterConfigsResource(_TOPIC, self._topic, [AlterableConfig(name, _SET, value)])
        request = IncrementalAlterConfigsRequest([resource])
        await self._change(hand, ALTERS, 0, request, 1, lambda answer: answer.responses[0].error_code)

    async def _write(self, hand: KafkaClient) -> None:
        """Write some records, so that there is something to delete."""
        index = self.random.randrange(self._partitions)
        count = self.random.choice((1, 10, 100))
        payload = memoryview(build_batch([Record(value=bytes(100)) for _ in range(count)]))
        data = TopicProduceData(self._topic, partition_data=[PartitionProduceData(index, payload)])
        try:
            answer = await hand.ask(ProduceRequest(None, -1, _TIMEOUT_MS, [data]), 9)
        except Disconnected:
            return
        part = answer.responses[0].partition_responses[0]
        if not part.error_code:
            self._ends[index] = part.base_offset + count

    async def _trim(self, hand: KafkaClient) -> None:
        """Delete the records of a partition up to an offset."""
        if not self._ends:
            return
        index, end = self.random.choice(sorted(self._ends.items()))
        offset = self.random.randint(0, end)
        partition = DeleteRecordsTopic(self._topic, [DeleteRecordsPartition(index, offset)])
        begun_us = self.now_us
        try:
            answer = await hand.ask(DeleteRecordsRequest([partition], _TIMEOUT_MS), 2)
        except Disconnected:
            return
        part = answer.topics[0].partitions[0]
        if not part.error_code:
            place = (self._topic, index)
            self.history.add(LogStartSeen(self.now_us, begun_us, self.name, place, part.low_watermark, is_promise=True))

    async def _change(
        self, hand: KafkaClient, kind: str, partitions: int, request: Any, version: int, error_of: Any
    ) -> Any:
        """Make a change; returns the answer if it was made."""
        begun_us, topic = self.now_us, self._topic
        try:
            answer = await hand.ask(request, version)
            error = error_of(answer)
        except Disconnected:
            answer, error = None, UNKNOWN
        if error not in _CERTAIN:
            # Settings are as good as unchanged: nothing of a topic depends on them that is looked at.
            self._is_clear &= kind == ALTERS
            answer = None
        error = error if error in _CERTAIN else UNKNOWN
        self.history.add(TopicChanged(self.now_us, begun_us, self.name, topic, kind, partitions, error))
        if error:
            await self.pause()
            return None
        self.went_well()
        return answer


async def look_at_topic(client: KafkaClient, topic: str) -> int | None:
    """Add what the node says of a topic, and of its starts; returns its number of partitions, None if unanswered."""
    begun_us = client.now_us
    try:
        answer = await client.ask_controller(MetadataRequest([MetadataRequestTopic(bytes(16), topic)], False), 12)
    except Disconnected:
        await client.pause()
        return None
    found = answer.topics[0]
    # Another error than that it is not there says nothing.
    if found.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return None
    partitions = len(found.partitions)
    client.history.add(TopicSeen(client.now_us, begun_us, client.name, topic, partitions))
    await asyncio.gather(*_looks_at_starts(client, topic, partitions))
    return partitions


def _looks_at_starts(client: KafkaClient, topic: str, partitions: int) -> "list[Coroutine[Any, Any, None]]":
    return [_look_at_start(client, (topic, index)) for index in range(partitions)]


async def _look_at_start(client: KafkaClient, place: Place) -> None:
    begun_us = client.now_us
    asked = ListOffsetsTopic(place[0], [ListOffsetsPartition(place[1], -1, _EARLIEST)])
    try:
        answer = await client.ask(ListOffsetsRequest(-1, 0, [asked]), 7)
    except Disconnected:
        return
    part = answer.topics[0].partitions[0]
    if not part.error_code:
        client.history.add(LogStartSeen(client.now_us, begun_us, client.name, place, part.offset, is_promise=False))
