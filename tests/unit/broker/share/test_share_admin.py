"""Administration of share groups over the wire: settings, dead letters, offsets, lists and deletions."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.share_member import ACCEPT, REJECT, RELEASE, SETTINGS, Member, acquired, produce, values
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, running_node

from hutong.broker.share import share_logs
from hutong.foundation.errors import LimitExceeded, ProtocolError
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from hutong.wire.kafka.apis.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from hutong.wire.kafka.apis.k92_delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from hutong.wire.kafka.batch.records import Record, iterate_batches, iterate_records
from hutong.wire.kafka.error_codes import ErrorCode

RESOURCE_GROUP = 32


async def configure(client: WireClient, group_id: str = "g", **settings: str) -> ErrorCode:
    configs = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(RESOURCE_GROUP, group_id, configs)])
    return ErrorCode((await client.ask(request, 1)).responses[0].error_code)


async def offsets(client: WireClient, *topics: tuple[str, int], group_id: str = "g") -> list[tuple[str, int, int, int]]:
    """(topic, partition, start offset, lag)"""
    asked = [DescribeShareGroupOffsetsRequestTopic(name, [index]) for name, index in topics] or None
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, asked)])
    (group,) = (await client.ask(request, 1)).groups
    return [
        (topic.topic_name, each.partition_index, each.start_offset, each.lag)
        for topic in group.topics
        for each in topic.partitions
    ]


def alter(group_id: str, topic: str, partition: int, offset: int) -> AlterShareGroupOffsetsRequest:
    asked = [AlterShareGroupOffsetsRequestTopic(topic, [AlterShareGroupOffsetsRequestPartition(partition, offset)])]
    return AlterShareGroupOffsetsRequest(group_id, asked)


def delete(group_id: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group_id, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 2), ("by_duration:PT1H", 1), ("by_duration:P1DT0.5S", 1)]
)
async def test_a_group_begins_where_its_settings_say(tmp_path: Path, reset: str, first: int) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", message_timestamp_after_max_ms=str(2**63 - 1))
        await client.produce(batch_of(b"old", timestamp_ms=1_700_000_000_000))
        await client.produce(batch_of(b"new", timestamp_ms=4_000_000_000_000))
        assert await configure(client, share_auto_offset_reset=reset) is ErrorCode.NONE
        ann = Member(client, "ann")
        await ann.beat(0, "t")
        answer = await ann.fetch(partitions=True)
        assert [each[0] for each in acquired(answer)] == list(range(first, 2))[:1]
        ((_, _, start_offset, _),) = await offsets(client)
        assert start_offset == first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "sometime"),
        ("share.auto.offset.reset", "by_duration:-PT1S"),
        ("share.auto.offset.reset", "by_duration:"),
        ("share.isolation.level", "committed"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "x"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("errors.deadletterqueue.topic.name", "__consumer_offsets"),
        ("errors.deadletterqueue.topic.name", "no name"),
    ],
)
async def test_settings_are_checked(tmp_path: Path, name: str, value: str) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        assert await configure(client, **{name.replace(".", "_"): value}) is ErrorCode.INVALID_CONFIG


async def test_what_is_given_up_becomes_a_dead_letter(tmp_path: Path) -> None:
    async with running_node(tmp_path, SETTINGS) as address, client_of(address) as client:
        await client.create("t")
        await configure(client, errors_deadletterqueue_topic_name="dead")
        ann = Member(client, "ann")
        await ann.begin("t")
        await produce(client, [b"a", b"b"], [b"c"])
        assert acquired(await ann.fetch()) == [(0, 2, 1)]
        answer = await ann.fetch((0, 0, ACCEPT), (1, 1, REJECT), (2, 2, RELEASE))
        assert acquired(answer) == [(2, 2, 2)]
        await ann.acknowledge((2, 2, RELEASE))  # the second delivery was the last one
        letters = sorted(await dead_letters(client, 2), key=lambda letter: letter.value)
        assert [letter.value for letter in letters] == [b"b", b"c"]
        told = [
            {name: value for name, value in letter.headers if name.startswith("hutong-dead-")} for letter in letters
        ]
        assert [each["hutong-dead-error-type"] for each in told] == [b"Rejected", b"DeliveryCountLimit"]
        assert [each["hutong-dead-offset"] for each in told] == [b"1", b"2"]
        assert [each["hutong-dead-attempts"] for each in told] == [b"1", b"2"]
        assert {(each["hutong-dead-group"], each["hutong-dead-topic"]) for each in told} == {(b"g", b"t")}
        assert await until_start_offset(client, 3) == [("t", 0, 3, 0)]


async def test_dead_letters_of_one_batch_unpack_it_once_and_on_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may hold millions of records: neither the loop nor a round of letters begins it anew."""
    unpacked_by: list[str] = []

    def unpack(batch: memoryview) -> Iterator[Record]:
        unpacked_by.append(threading.current_thread().name)
        return iterate_records(batch)

    monkeypatch.setattr(share_logs, "LETTERS_MAX", 2)
    monkeypatch.setattr(share_logs, "iterate_records", unpack)
    async with running_node(tmp_path, SETTINGS) as address, client_of(address) as client:
        await client.create("t")
        await configure(client, errors_deadletterqueue_topic_name="dead")
        ann = Member(client, "ann")
        await ann.begin("t")
        await produce(client, [b"%d" % number for number in range(7)])
        await ann.fetch()
        await ann.acknowledge((0, 6, REJECT))
        letters = await dead_letters(client, 7)
        assert [letter.value for letter in letters] == [b"%d" % number for number in range(7)]
        assert await until_start_offset(client, 7) == [("t", 0, 7, 0)]
    assert len(unpacked_by) == 1
    assert unpacked_by[0].startswith("hutong-disk")


@pytest.mark.parametrize("error", [ProtocolError("not zstd"), LimitExceeded("DECOMPRESSED_BYTES_MAX", 1)])
async def test_records_that_cannot_be_unpacked_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def unpack(batch: memoryview) -> Iterator[Record]:
        raise error

    monkeypatch.setattr(share_logs, "iterate_records", unpack)
    async with running_node(tmp_path, SETTINGS) as address, client_of(address) as client:
        await client.create("t")
        await configure(client, errors_deadletterqueue_topic_name="dead")
        ann = Member(client, "ann")
        await ann.begin("t")
        await produce(client, [b"a"])
        await ann.fetch()
        await ann.acknowledge((0, 0, REJECT))
        assert await until_start_offset(client, 1) == [("t", 0, 1, 0)]


async def dead_letters(client: WireClient, count: int) -> list[Any]:
    """The first records of the topic, once they are there: it is made for the first of them."""
    found: list[Any] = []
    while len(found) < count:
        answer = await client.fetch(len(found), "dead", max_wait_ms=200)
        if answer.error_code == 0 and answer.records is not None:
            records: Any = answer.records
            for _, batch in iterate_batches(memoryview(records)):
                found += [record for record in iterate_records(batch) if record.offset >= len(found)]
    return found


async def until_start_offset(client: WireClient, offset: int) -> list[tuple[str, int, int, int]]:
    while True:
        found = await offsets(client)
        if found[0][2] == offset:
            return found


async def test_a_log_that_starts_later_takes_records_away(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        ann = Member(client, "ann")
        await ann.begin("t")
        await produce(client, [b"a"], [b"b"], [b"c"])
        asked = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], 1000)
        assert (await client.ask(asked, 2)).topics[0].partitions[0].error_code == 0
        answer = await ann.fetch()
        assert (acquired(answer), values(answer)) == ([(2, 2, 1)], [b"c"])


async def test_offsets_are_shown_altered_and_deleted(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        ann = Member(client, "ann")
        await ann.beat(0, "t")
        assert await offsets(client) == [("t", 0, -1, -1)]
        assert await offsets(client, ("t", 7), ("none", 0)) == [("t", 7, -1, -1), ("none", 0, -1, -1)]
        assert await offsets(client, group_id="none") == []
        await ann.fetch(partitions=True)
        await produce(client, [b"a", b"b", b"c"])
        await ann.fetch()
        await ann.acknowledge((1, 1, ACCEPT))
        assert await offsets(client) == [("t", 0, 0, 2)]
        assert (await client.ask(alter("g", "t", 0, 2), 0)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await client.ask(delete("g", "t"), 0)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await client.ask(DeleteGroupsRequest(["g"]), 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await ann.beat(-1)).member_epoch == -1
        for topic, partition in (("t", 7), ("none", 0)):
            (result,) = (await client.ask(alter("g", topic, partition, 2), 0)).responses
            assert result.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await client.ask(alter("g", "t", 0, 2), 0)).responses[0].partitions[0].error_code == 0
        assert await offsets(client) == [("t", 0, 2, 1)]
        ann = Member(client, "ann")
        await ann.beat(0, "t")
        assert acquired(await ann.fetch(partitions=True)) == [(2, 2, 1)]
        await ann.beat(-1)
        results = (await client.ask(delete("g", "t", "none"), 0)).responses
        assert [each.error_code for each in results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        (result,) = (await client.ask(delete("g", "t"), 0)).responses
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await offsets(client) == []


async def test_groups_are_listed_and_deleted_and_an_id_has_one_kind(tmp_path: Path) -> None:
    async def listed(client: WireClient) -> list[tuple[str, str, str]]:
        answer = await client.ask(ListGroupsRequest(types_filter=["share"]), 5)
        return [(each.group_id, each.group_state, each.group_type) for each in answer.groups]

    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")
        ann = Member(client, "ann")
        await ann.begin("t")
        assert await listed(client) == [("g", "Stable", "share")]
        await ann.beat(-1)
        assert await listed(client) == [("g", "Empty", "share")]
    async with running_node(tmp_path) as address, client_of(address) as client:
        assert await listed(client) == [("g", "Empty", "share")]
        results = (await client.ask(DeleteGroupsRequest(["g", "none"]), 2)).results
        assert [each.error_code for each in results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert await listed(client) == []
    async with running_node(tmp_path) as address, client_of(address) as client:
        assert await listed(client) == []
        assert await offsets(client) == []


async def test_a_deleted_topic_is_forgotten(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as other:
        await client.create("t")
        ann = Member(client, "ann")
        await ann.begin("t")
        waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=2_000))
        assert (await other.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)).responses[
            0
        ].error_code == 0
        answer = await waiting
        assert acquired(answer) == []
        assert await offsets(client) == []
        beat = await ann.beat(1)
        assert (beat.member_epoch, beat.assignment.topic_partitions if beat.assignment else None) == (2, [])
