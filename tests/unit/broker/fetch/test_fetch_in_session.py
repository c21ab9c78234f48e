"""Incremental fetch sessions as a client sees them on the wire, and epochs of leaders."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.server.configuration.sections.log import NodeFetchSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k01_fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from hutong.wire.kafka.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode

BATCH = batch_of(b"v", timestamp_ms=time.time_ns() // 1_000_000)
LONG_MS = 60_000
MANY = 1000


class Reader:
    """A client with one session; topics by name, or by id where `ids` knows them."""

    def __init__(self, client: WireClient, ids: dict[str, bytes] | None = None) -> None:
        self.client = client
        self.ids = ids
        self.session_id = self.epoch = 0

    async def fetch(
        self,
        asked: dict[tuple[str, int], int] | None = None,
        *,
        forget: tuple[str, int] | None = None,
        wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
    ) -> FetchResponse:
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            rack_id="somewhere",
        )
        for (topic, index), offset in (asked or {}).items():
            wanted = FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=1 << 20,
                current_leader_epoch=leader_epoch,
            )
            name, topic_id = self.named(topic)
            request.topics.append(FetchTopic(name, topic_id, [wanted]))
        if forget is not None:
            request.forgotten_topics_data.append(ForgottenTopic(*self.named(forget[0]), [forget[1]]))
        response: FetchResponse = await self.client.ask(request, 12 if self.ids is None else 13)
        if not response.error_code:
            self.session_id, self.epoch = response.session_id, self.epoch + 1
        return response

    def named(self, topic: str) -> tuple[str, bytes]:
        return (topic, bytes(16)) if self.ids is None else ("", self.ids[topic])


def told(response: FetchResponse) -> list[tuple[str, int, int, bool]]:
    """(topic, partition, error, whether there are records) of each partition."""
    assert response.error_code == 0
    return [
        (topic.topic, data.partition_index, data.error_code, bool(data.records))
        for topic in response.responses
        for data in topic.partitions
    ]


async def id_of(client: WireClient, topic: str) -> bytes:
    response = await client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
    topic_id: bytes = response.topics[0].topic_id
    return topic_id


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as connected:
        await connected.create("t", 3)
        yield connected


async def test_only_what_is_new_is_answered(client: WireClient) -> None:
    reader = Reader(client)
    assert len(told(await reader.fetch({("t", index): 0 for index in range(3)}))) == 3
    assert reader.session_id > 0
    assert told(await reader.fetch()) == []
    await client.produce(BATCH, partition=1)
    assert told(await reader.fetch()) == [("t", 1, 0, True)]
    assert told(await reader.fetch()) == [("t", 1, 0, True)]  # until the client moves on
    assert told(await reader.fetch({("t", 1): 1})) == []
    assert told(await reader.fetch(forget=("t", 1))) == []
    await client.produce(BATCH, partition=1)
    assert told(await reader.fetch()) == []


async def test_what_comes_into_an_idle_partition_ends_the_wait(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as writer:
        await client.create("t", 3)
        reader = Reader(client)
        await reader.fetch({("t", index): 0 for index in range(3)})
        await reader.fetch()
        for index in (2, 0, 2):
            waiting = asyncio.ensure_future(reader.fetch(wait_ms=LONG_MS))
            offset = (await writer.produce(BATCH, partition=index)).base_offset
            assert told(await waiting) == [("t", index, 0, True)]
            await reader.fetch({("t", index): offset + 1})


async def test_who_was_served_comes_last(client: WireClient) -> None:
    for index in range(3):
        await client.produce(BATCH, partition=index)
    reader = Reader(client)
    await reader.fetch({("t", index): 0 for index in range(3)}, max_bytes=1)
    served = [told(await reader.fetch(max_bytes=1))[0][1] for _ in range(6)]
    assert served == [0, 1, 2, 0, 1, 2]


async def test_wrong_ids_and_epochs(client: WireClient) -> None:
    reader = Reader(client)
    await reader.fetch({("t", 0): 0})
    known = reader.session_id
    reader.epoch = 7
    wrong = await reader.fetch()
    assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    reader.epoch, reader.session_id = 1, known ^ 1
    wrong = await reader.fetch()
    assert (wrong.error_code, wrong.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    reader.session_id, reader.ids = known, {}
    assert (await reader.fetch()).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    reader.ids = None
    assert told(await reader.fetch()) == []


async def test_a_session_ends_by_epoch_minus_one_and_by_a_new_one(client: WireClient) -> None:
    reader = Reader(client)
    await reader.fetch({("t", 0): 0})
    first = reader.session_id
    reader.epoch = 0
    await reader.fetch({("t", 0): 0})
    second = reader.session_id
    assert second not in (0, first)
    reader.session_id, reader.epoch = first, 1
    assert (await reader.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reader.session_id, reader.epoch = second, -1
    assert told(await reader.fetch(wait_ms=LONG_MS)) == []  # at once: it asks for nothing
    assert reader.session_id == 0
    reader.session_id, reader.epoch = second, 1
    assert (await reader.fetch()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_whose_last_partition_is_forgotten_is_over(client: WireClient) -> None:
    reader = Reader(client)
    await reader.fetch({("t", 0): 0})
    assert told(await reader.fetch(forget=("t", 0))) == []
    assert reader.session_id == 0


async def test_without_a_slot_a_session_is_declined(tmp_path: Path) -> None:
    settings = Settings(fetch=NodeFetchSettings(session_slots=1))
    async with running_node(tmp_path, settings) as address, client_of(address) as client:
        await client.create("t", 3)
        first, second = Reader(client), Reader(client)
        await first.fetch({("t", 0): 0})
        assert len(told(await second.fetch({("t", 0): 0}))) == 1
        assert (bool(first.session_id), second.session_id) == (True, 0)


async def test_errors_are_told_each_time_and_the_partition_anew_when_they_are_gone(client: WireClient) -> None:
    reader = Reader(client)
    await reader.fetch({("t", 0): 0})
    for _ in range(2):
        answer = await reader.fetch({("t", 0): 9}, wait_ms=LONG_MS)
        assert told(answer) == [("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE, False)]
    assert told(await reader.fetch({("t", 0): 0})) == [("t", 0, 0, False)]
    assert told(await reader.fetch()) == []


async def test_a_moved_start_is_told(client: WireClient) -> None:
    await client.produce(BATCH)
    reader = Reader(client)
    await reader.fetch({("t", 0): 1, ("t", 1): 0})
    assert told(await reader.fetch()) == []
    trim = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000)
    assert (await client.ask(trim, 2)).topics[0].partitions[0].error_code == 0
    answer = await reader.fetch()
    assert told(answer) == [("t", 0, 0, False)]
    assert answer.responses[0].partitions[0].log_start_offset == 1


async def delete(client: WireClient, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=1000)
    assert (await client.ask(request, 6)).responses[0].error_code == 0


async def test_by_name_a_topic_that_was_made_again_goes_on(client: WireClient) -> None:
    await client.create("u")
    reader = Reader(client)
    await reader.fetch({("t", 0): 0, ("u", 0): 0})
    assert told(await reader.fetch()) == []
    await delete(client, "u")
    missing = [("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False)]
    assert told(await reader.fetch()) == missing
    assert told(await reader.fetch(wait_ms=1)) == missing
    await client.create("u")
    await client.produce(BATCH, "u")
    assert told(await reader.fetch()) == [("u", 0, 0, True)]


async def test_by_id_a_topic_that_was_made_again_is_another(client: WireClient) -> None:
    await client.create("u")
    ids = {"t": await id_of(client, "t"), "u": await id_of(client, "u"), "nobody": b"?" * 16}
    reader = Reader(client, ids)
    assert len(told(await reader.fetch({("t", 0): 0, ("u", 0): 0, ("nobody", 0): 0}))) == 3
    assert await errors_by_id(reader) == {ids["nobody"]: ErrorCode.UNKNOWN_TOPIC_ID}
    await reader.fetch(forget=("nobody", 0))
    await delete(client, "u")
    assert await errors_by_id(reader) == {ids["u"]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    await client.create("u")
    await client.produce(BATCH, "u")
    assert await errors_by_id(reader) == {ids["u"]: ErrorCode.INCONSISTENT_TOPIC_ID}
    ids["old"], ids["u"] = ids["u"], await id_of(client, "u")
    (topic,) = (await reader.fetch({("u", 0): 0}, forget=("old", 0))).responses
    assert topic.topic_id == ids["u"] != ids["old"]
    assert topic.partitions[0].records


async def errors_by_id(reader: Reader) -> dict[bytes, int]:
    answer = await reader.fetch()
    return {topic.topic_id: topic.partitions[0].error_code for topic in answer.responses}


async def test_an_idle_session_costs_few_bytes_both_ways(client: WireClient) -> None:
    await client.create("many", MANY)
    reader = Reader(client)
    assert len(told(await reader.fetch({("many", index): 0 for index in range(MANY)}))) == MANY
    client.send(FetchRequest(session_id=reader.session_id, session_epoch=1, min_bytes=1), 12)
    assert int.from_bytes(await client.reader.readexactly(4), "big") < 32


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, 0)],
)
async def test_the_leader_epoch_that_a_client_knows_is_checked(client: WireClient, epoch: int, code: int) -> None:
    answer = await Reader(client).fetch({("t", 0): 0}, leader_epoch=epoch, wait_ms=1)
    assert told(answer) == [("t", 0, code, False)]


@pytest.mark.parametrize(
    ("last_fetched_epoch", "offset", "code", "diverging"),
    [
        (0, 1, 0, EpochEndOffset()),
        (0, 5, 0, EpochEndOffset(0, 1)),
        (1, 1, ErrorCode.OFFSET_OUT_OF_RANGE, EpochEndOffset()),
        (-1, 5, ErrorCode.OFFSET_OUT_OF_RANGE, EpochEndOffset()),
    ],
)
async def test_a_reader_that_went_another_way_is_told_where_its_epoch_ended(
    client: WireClient, last_fetched_epoch: int, offset: int, code: int, diverging: EpochEndOffset
) -> None:
    await client.produce(BATCH)
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1, last_fetched_epoch=last_fetched_epoch
    )
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic("t", partitions=[asked])])
    data = (await client.ask(request, 12)).responses[0].partitions[0]
    assert (data.error_code, data.diverging_epoch) == (code, diverging)


@pytest.mark.parametrize(
    ("current", "epoch", "answer"),
    [
        (-1, 0, (0, 0, 1)),
        (0, 0, (0, 0, 1)),
        (0, 1, (0, -1, -1)),
        (0, -1, (0, -1, -1)),
        (0, -3, (0, -3, 0)),
        (1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
async def test_where_an_epoch_ended(client: WireClient, current: int, epoch: int, answer: tuple[int, int, int]) -> None:
    await client.produce(BATCH)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, current, epoch)])]
    )
    found = (await client.ask(request, 4)).topics[0].partitions[0]
    assert (found.error_code, found.leader_epoch, found.end_offset) == answer
