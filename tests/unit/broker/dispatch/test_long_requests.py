"""Requests of very many things: done in parts and on a worker, answered as if they were done at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.broker.apis import PART_QUESTIONS
from hutong.broker.dispatch.long_requests import LONG_FROM_BYTES
from hutong.broker.dispatch.request_parts import joined, parts_of
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import encode_request_frame

MANY = 20_000  # of each kind: more than LONG_FROM_BYTES in bytes


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[WireClient]:
    async with running_node(tmp_path) as address, client_of(address) as connected:
        await connected.create("t", 3)
        await connected.create("u")
        yield connected


def long(request: Any, version: int) -> Any:
    assert sum(map(len, encode_request_frame(request, version, 1, "test"))) > LONG_FROM_BYTES
    return request


async def test_list_offsets(client: WireClient) -> None:
    partitions = [ListOffsetsPartition(number, timestamp=-1) for number in range(MANY)]
    asked = [ListOffsetsTopic("t", partitions), ListOffsetsTopic("none", partitions[:3]), ListOffsetsTopic("u", [])]
    answer = await client.ask(long(ListOffsetsRequest(-1, 0, asked), 7), 7)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", MANY), ("none", 3), ("u", 0)]
    assert [found.partition_index for found in answer.topics[0].partitions] == list(range(MANY))
    known = [found.partition_index for found in answer.topics[0].partitions if not found.error_code]
    assert known == [0, 1, 2]


async def test_metadata(client: WireClient) -> None:
    names = [f"missing{number}" for number in range(MANY)]
    topics = [MetadataRequestTopic(name=name) for name in ("t", *names, "u", "t")]
    answer = await client.ask(long(MetadataRequest(topics, False), 9), 9)
    assert [topic.name for topic in answer.topics] == ["t", *names, "u"], "each is answered once"
    assert [len(topic.partitions) for topic in answer.topics if not topic.error_code] == [3, 1]
    assert len(answer.brokers) == 1
    by_id = [*topics, MetadataRequestTopic(b"x" * 16, None)]
    refused = await client.ask(long(MetadataRequest(by_id, False), 11), 11)
    assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}


async def test_offsets_are_committed_and_fetched(client: WireClient) -> None:
    commits = [OffsetCommitRequestPartition(number, 7) for number in range(MANY)]
    asked = [OffsetCommitRequestTopic("t", partitions=commits), OffsetCommitRequestTopic("u", partitions=commits[:1])]
    answer = await client.ask(long(OffsetCommitRequest("g", -1, topics=asked), 8), 8)
    assert [len(topic.partitions) for topic in answer.topics] == [MANY, 1]
    assert [found.partition_index for found in answer.topics[0].partitions if not found.error_code] == [0, 1, 2]
    indexes = list(range(MANY))
    old = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", indexes), OffsetFetchRequestTopic("u", [0])])
    fetched = await client.ask(long(old, 7), 7)
    assert [len(topic.partitions) for topic in fetched.topics] == [MANY, 1]
    assert [found.committed_offset for found in fetched.topics[0].partitions[:4]] == [7, 7, 7, -1]
    topics = [OffsetFetchRequestTopics("t", partition_indexes=indexes)]
    groups = [OffsetFetchRequestGroup(name, topics=topics) for name in ("g", "h")]
    groups.append(OffsetFetchRequestGroup("g2", topics=None))
    many = await client.ask(long(OffsetFetchRequest(groups=groups), 8), 8)
    assert [(group.group_id, [len(each.partitions) for each in group.topics]) for group in many.groups] == [
        ("g", [MANY]),
        ("h", [MANY]),
        ("g2", []),
    ]


async def test_what_has_no_parts_is_answered_too_and_what_comes_behind_it_waits(client: WireClient) -> None:
    client.send(long(DescribeGroupsRequest(groups=[f"group{number}" for number in range(10_000)]), 5), 5)
    client.send(MetadataRequest([MetadataRequestTopic(name="t")], False), 9)
    described = await client.receive(15, 5)
    assert len(described.groups) == 10_000
    assert (await client.receive(3, 9)).topics[0].name == "t"


async def test_a_long_frame_that_is_no_request_closes_its_connection(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as broken, client_of(address) as other:
        frame = b"\0\x03\0\x09" + b"\0\0\0\1" + b"\xff\xff" + b"\0" + b"\xff" * 2 * LONG_FROM_BYTES
        broken.writer.write(len(frame).to_bytes(4, "big") + frame)
        assert await broken.is_closed()
        async with client_of(address) as leaving:
            leaving.send(long(MetadataRequest([MetadataRequestTopic(name="t" * 90)] * 1000, False), 9), 9)
            await leaving.writer.drain()
        assert await asyncio.wait_for(other.ask(MetadataRequest([], False), 9), 60)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3 * PART_QUESTIONS), max_size=8))
def test_parts_ask_what_the_whole_asks_and_their_answers_are_the_whole_one(sizes: list[int]) -> None:
    topics = [
        ListOffsetsTopic(f"t{number}", [ListOffsetsPartition(index, timestamp=-1) for index in range(size)])
        for number, size in enumerate(sizes)
    ]
    parts = parts_of(ListOffsetsRequest(-1, 0, topics), 7)
    assert all(sum(len(topic.partitions) for topic in part.topics) <= PART_QUESTIONS for part in parts)
    assert len(parts) <= sum(sizes) // PART_QUESTIONS + len(sizes) + 1
    assert joined([answered(part) for part in parts]) == answered(ListOffsetsRequest(-1, 0, topics))


def answered(request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name, [ListOffsetsPartitionResponse(asked.partition_index) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )
