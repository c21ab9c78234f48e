"""Share groups over the wire: one node in this process, and requests that say exactly what a test wants said."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    SETTINGS,
    Member,
    acknowledge_errors,
    acquired,
    produce,
    values,
)
from tests.unit.broker.wire_node import batch_of, client_of, running_node

from hutong.server.configuration.sections.share_groups import ShareGroupSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from hutong.wire.kafka.apis.k77_share_group_describe import ShareGroupDescribeRequest
from hutong.wire.kafka.apis.k78_share_fetch import ShareFetchRequest
from hutong.wire.kafka.apis.shared import AcknowledgePartition, AcknowledgeTopic, TopicIdPartitions
from hutong.wire.kafka.error_codes import ErrorCode


def test_records_are_taken_accepted_released_and_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann = Member(client, "ann")
            await ann.begin("t")
            await produce(client, [b"a", b"b"], [b"c"])
            answer = await ann.fetch()
            assert (acquired(answer), values(answer)) == ([(0, 2, 1)], [b"a", b"b", b"c"])
            assert acquired(await ann.fetch()) == []
            answer = await ann.fetch((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT))
            assert acknowledge_errors(answer) == [0]
            assert (acquired(answer), values(answer)) == ([(1, 1, 2)], [b"a", b"b"])
            done = await ann.acknowledge((1, 1, ACCEPT))
            assert done.responses[0].partitions[0].error_code == 0
            assert acquired(await ann.fetch()) == []

    asyncio.run(scenario())


def test_a_waiting_fetch_is_woken_by_data_by_a_release_and_by_the_end_of_a_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            running_node(tmp_path, SETTINGS) as address,
            client_of(address) as client,
            client_of(address) as other,
            client_of(address) as producer,
        ):
            await client.create("t")
            ann, bob = Member(client, "ann"), Member(other, "bob")
            await ann.begin("t")
            await bob.begin("t")
            waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))
            await produce(producer, [b"a"])
            assert acquired(await waiting) == [(0, 0, 1)]
            waiting = asyncio.ensure_future(bob.fetch(max_wait_ms=60_000))
            await ann.acknowledge((0, 0, RELEASE))
            assert acquired(await waiting) == [(0, 0, 2)]
            await produce(producer, [b"b"])
            assert acquired(await bob.fetch()) == [(1, 1, 1)]
            waiting = asyncio.ensure_future(ann.fetch(max_wait_ms=60_000))  # nobody says a word until the locks end
            assert acquired(await waiting) == [(1, 1, 2)]  # the other was delivered twice, and that was the limit

    asyncio.run(scenario())


def test_members_that_wait_take_turns(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            running_node(tmp_path) as address,
            client_of(address) as first,
            client_of(address) as second,
            client_of(address) as producer,
        ):
            await producer.create("t")
            members = [Member(first, "ann"), Member(second, "bob")]
            for member in members:
                await member.begin("t")
            waiting = [asyncio.ensure_future(each.fetch(max_wait_ms=60_000, max_records=1)) for each in members]
            taken: dict[str, list[int]] = {"ann": [], "bob": []}
            for number in range(6):
                await produce(producer, [b"x"])
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                (task,) = done
                at = waiting.index(task)
                taken[members[at].member_id] += [each for each, _, _ in acquired(task.result())]
                assert task.result().error_code == 0, number
                waiting[at] = asyncio.ensure_future(members[at].fetch(max_wait_ms=60_000, max_records=1))
                await members[at].client.writer.drain()
            for task in waiting:
                task.cancel()
            assert sorted(itertools.chain(*taken.values())) == list(range(6))
            assert len(taken["ann"]) == len(taken["bob"]) == 3

    asyncio.run(scenario())


def test_what_a_lost_connection_held_is_for_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            bob = Member(client, "bob")
            async with client_of(address) as lost:
                ann = Member(lost, "ann")
                await ann.begin("t")
                await bob.begin("t")
                await produce(client, [b"a"])
                assert acquired(await ann.fetch()) == [(0, 0, 1)]
            assert acquired(await bob.fetch(max_wait_ms=60_000)) == [(0, 0, 2)]
            gone = await bob.fetch(epoch=-1)
            assert gone.error_code == 0
            assert (await bob.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND

    asyncio.run(scenario())


def test_who_leaves_may_still_say_what_became_of_the_last_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann, bob = Member(client, "ann"), Member(client, "bob")
            await ann.begin("t")
            await produce(client, [b"a", b"b"])
            assert acquired(await ann.fetch()) == [(0, 1, 1)]
            assert (await ann.beat(-1)).error_code == 0
            done = await ann.acknowledge((0, 0, ACCEPT), epoch=-1)
            assert (done.error_code, done.responses[0].partitions[0].error_code) == (0, 0)
            await bob.beat(0, "t")
            assert acquired(await bob.fetch(partitions=True)) == [(1, 1, 2)]

    asyncio.run(scenario())


def test_sessions_are_checked(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = Settings(share=ShareGroupSettings(max_share_sessions=1))
        async with running_node(tmp_path, settings) as address, client_of(address) as client:
            await client.create("t")
            ann, bob = Member(client, "ann"), Member(client, "bob")
            await ann.beat(0, "t")
            assert (await ann.fetch(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            assert (await ann.acknowledge(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            assert (await ann.acknowledge(epoch=0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
            assert (await ann.fetch((0, 0, 1), epoch=0)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
            assert (await ann.fetch(epoch=0, partitions=True)).error_code == 0
            assert (await ann.fetch(epoch=7)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
            assert (await bob.fetch(epoch=0)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            for broken in (
                ShareFetchRequest(None, "ann", 0),
                ShareFetchRequest("g", None, 0),
                ShareFetchRequest("g", "x" * 37, 0),
                ShareFetchRequest("g", "ann", 1, max_wait_ms=1, is_renew_ack=True),
            ):
                assert (await client.ask(broken, 2)).error_code == ErrorCode.INVALID_REQUEST
            unknown = [
                AcknowledgeTopic(b"\7" * 16, [AcknowledgePartition(0)]),
                AcknowledgeTopic(ann.topic_ids[0], [AcknowledgePartition(9)]),
            ]
            asked = ShareFetchRequest("g", "ann", 1, max_wait_ms=60_000, max_records=1, topics=unknown)
            answer = await client.ask(asked, 2)
            assert sorted(each.partitions[0].error_code for each in answer.responses) == [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
            ]
            forgotten = [TopicIdPartitions(each.topic_id, [0, 9]) for each in unknown]
            asked = ShareFetchRequest("g", "ann", 2, max_records=1, forgotten_topics_data=forgotten)
            assert (await client.ask(asked, 2)).responses == []

    asyncio.run(scenario())


def test_what_was_said_survives_and_counts_go_on(tmp_path: Path) -> None:
    async def before() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann = Member(client, "ann")
            await ann.begin("t")
            await produce(client, [b"a", b"b", b"c", b"d"])
            assert acquired(await ann.fetch()) == [(0, 3, 1)]
            answer = await ann.fetch((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, ACCEPT))
            assert acquired(answer) == [(1, 1, 2)]

    async def after() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            ann = Member(client, "ann")
            assert (await ann.beat(1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            described = (await client.ask(ShareGroupDescribeRequest(["g", "none", ""]), 1)).groups
            assert [each.group_state for each in described] == ["Empty", "Dead", ""]
            assert (await ann.beat(0, "t")).error_code == 0
            assert acquired(await ann.fetch(partitions=True)) == [(1, 1, 3), (3, 3, 2)]
            (group,) = (await client.ask(ShareGroupDescribeRequest(["g"]), 1)).groups
            assert (group.group_state, group.assignor_name, len(group.members)) == ("Stable", "simple", 1)

    asyncio.run(before())
    asyncio.run(after())


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 3, "subscribed_topic_names": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1, "subscribed_topic_names": None}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_heartbeats_that_cannot_be_meant(tmp_path: Path, problem: dict[str, Any], error: ErrorCode) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            fields = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"], **problem}
            assert (await client.ask(ShareGroupHeartbeatRequest(**fields), 1)).error_code == error

    asyncio.run(scenario())


def test_a_lock_is_renewed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann = Member(client, "ann")
            await ann.begin("t")
            await produce(client, [b"a"])
            await ann.fetch()
            nothing = {"max_records": 0, "max_bytes": 0, "min_bytes": 0}
            answer = await ann.fetch((0, 0, RENEW), is_renew_ack=True, **nothing)
            assert (acknowledge_errors(answer), acquired(answer)) == ([0], [])
            assert (await ann.acknowledge((0, 0, RENEW))).responses[0].partitions[0].error_code == 0
            refused = await ann.fetch((0, 0, RENEW), version=1)
            assert acknowledge_errors(refused) == [ErrorCode.INVALID_REQUEST]

    asyncio.run(scenario())


def test_groups_have_each_record_and_a_member_looks_at_its_partitions_in_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as other:
            for name in ("t", "u"):
                await client.create(name)
            ann, bob = Member(client, "ann"), Member(other, "bob", "h")
            await ann.begin("t", "u")
            await bob.begin("t")
            for name in ("t", "u"):
                for value in (b"1", b"2"):
                    await client.produce(batch_of(value, timestamp_ms=1_700_000_000_000), name)
            answers = [await ann.fetch(max_records=1) for _ in range(4)]
            assert [len(acquired(answer)) for answer in answers] == [1, 1, 1, 1]
            topics = [answer.responses[0].topic_id for answer in answers]
            assert topics[0] != topics[1]
            assert topics[:2] == topics[2:]
            assert acquired(await bob.fetch()) == [(0, 1, 1)]

    asyncio.run(scenario())


def test_a_partition_that_is_acknowledged_and_forgotten_at_once_leaves_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as other:
            await client.create("t")
            ann, bob = Member(client, "ann"), Member(other, "bob")
            await ann.begin("t")
            await produce(client, [b"a"])
            assert acquired(await ann.fetch()) == [(0, 0, 1)]
            request = ann.request((0, 0, ACCEPT))  # what librdkafka sends when a partition is taken from it
            request.forgotten_topics_data = [TopicIdPartitions(ann.topic_ids[0], [0])]
            answer = await client.ask(request, 2)
            assert (acknowledge_errors(answer), acquired(answer)) == ([0], [])
            await produce(client, [b"b"])
            assert acquired(await ann.fetch()) == []
            await bob.beat(0, "t")
            assert acquired(await bob.fetch(partitions=True)) == [(1, 1, 1)]

    asyncio.run(scenario())


def test_a_fetch_of_no_bytes_takes_no_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann = Member(client, "ann")
            await ann.begin("t")
            await produce(client, [b"a"])
            assert values(answer := await ann.fetch(max_bytes=0)) == []
            assert acquired(answer) == []
            assert acquired(await ann.fetch(max_bytes=1)) == [(0, 0, 1)]

    asyncio.run(scenario())


def test_a_topic_that_was_deleted_and_made_again_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_node(tmp_path) as address, client_of(address) as client:
            await client.create("t")
            ann = Member(client, "ann")
            await ann.begin("t")
            (old_id,) = ann.topic_ids
            deleted = await client.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1_000), 6)
            assert deleted.responses[0].error_code == 0
            await client.create("t")
            assert (await ann.beat(1)).member_epoch == 3
            (new_id,) = ann.topic_ids
            assert new_id != old_id
            await produce(client, [b"a"])
            request = ann.request(partitions=True)
            request.forgotten_topics_data = [TopicIdPartitions(old_id, [0])]
            answer = await client.ask(request, 2)
            assert answer.error_code == 0
            await produce(client, [b"b"])
            assert values(await ann.fetch(max_wait_ms=60_000)) == [b"b"]

    asyncio.run(scenario())
