"""Fetches of a group's members on connections of their own: suspended, resumed, kept to a quota, over restarts."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.support.monitored import monitored_node, scrape
from tests.unit.broker.share_member import Member, values
from tests.unit.broker.wire_node import WireClient, batch_of, client_of, fetch_request, running_node

from hutong.groups.actor_configs import QUOTA, SUSPENDED
from hutong.server.configuration.sections.facts import KIBIBYTE, MEBIBYTE
from hutong.server.configuration.sections.log import LogSettings
from hutong.server.configuration.settings import Settings
from hutong.wire.kafka.apis.k01_fetch import PartitionData
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from hutong.wire.kafka.error_codes import ErrorCode

FORGETFUL = Settings(log=LogSettings(cache_region_bytes=64 * KIBIBYTE, cache_bytes=MEBIBYTE, segment_bytes=MEBIBYTE))
GROUP = 32


async def set_rule(client: WireClient, group_id: str, name: str, value: str) -> Any:
    resource = AlterConfigsResource(GROUP, group_id, [AlterableConfig(name, 0, value)])
    answer = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
    return answer.responses[0]


async def suspend(client: WireClient, group_id: str, *, resume: bool = False) -> None:
    answer = await set_rule(client, group_id, SUSPENDED, "false" if resume else "true")
    assert answer.error_code == 0, answer.error_message


async def join(client: WireClient, group_id: str = "g", topic: str = "t") -> str:
    """Become a member of a consumer group; returns the member's id."""
    member_id = str(uuid.uuid4())
    request = ConsumerGroupHeartbeatRequest(
        group_id, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[topic], topic_partitions=[]
    )
    answer = await client.ask(request, 1)
    assert answer.error_code == 0, answer.error_message
    return member_id


async def leave(client: WireClient, member_id: str) -> None:
    assert (await client.ask(ConsumerGroupHeartbeatRequest("g", member_id, -1), 1)).error_code == 0


async def fetched(client: WireClient, offset: int = 0) -> PartitionData:
    answer = await client.fetch(offset)
    assert answer.error_code == 0
    return answer


async def test_a_suspended_group_gets_nothing_and_goes_on_where_it_was_also_over_a_restart(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path) as address,
        client_of(address) as admin,
        client_of(address) as member,
        client_of(address) as reader,
    ):
        await admin.create("t")
        await admin.produce(batch_of(b"one", timestamp_ms=1))
        await join(member)
        assert (await fetched(reader)).records
        await suspend(admin, "g")
        answer = await fetched(reader)
        assert not answer.records
        assert answer.high_watermark == 1
        await suspend(admin, "other")
        assert not (await fetched(reader)).records
        await suspend(admin, "g", resume=True)
        assert (await fetched(reader)).records, "another group is still suspended, this one is not"
        await suspend(admin, "g")
    async with running_node(tmp_path) as address, client_of(address) as member, client_of(address) as reader:
        assert (await fetched(reader)).records, "nobody has spoken for the group yet"
        await join(member)
        assert not (await fetched(reader)).records


async def test_a_client_that_left_the_group_or_never_was_in_it_is_not_suspended(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path) as address,
        client_of(address) as member,
        client_of(address) as reader,
        client_of(address, "127.0.0.2") as stranger,
    ):
        await member.create("t")
        await member.produce(batch_of(b"one", timestamp_ms=1))
        member_id = await join(member)
        await suspend(member, "g")
        assert not (await fetched(reader)).records
        assert (await fetched(stranger)).records, "the same client id, from elsewhere"
        await leave(member, member_id)
        assert (await fetched(reader)).records


async def test_a_suspended_fetch_waits_as_at_the_end_of_the_log_and_its_session_continues(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as member, client_of(address) as reader:
        await member.create("t")
        await member.produce(batch_of(b"one", timestamp_ms=1))
        await join(member)
        await suspend(member, "g")
        request = fetch_request(0, max_wait_ms=1)
        request.session_epoch = 0
        first = await reader.ask(request, 12)
        assert first.session_id
        assert not first.responses[0].partitions[0].records
        request = fetch_request(0, max_wait_ms=1)
        request.session_id, request.session_epoch, request.topics = first.session_id, 1, []
        assert (await reader.ask(request, 12)).responses == []
        await suspend(member, "g", resume=True)
        request.session_epoch = 2
        answer = await reader.ask(request, 12)
        assert answer.responses[0].partitions[0].records, "the partition was not put aside as idle"


async def test_a_suspended_share_group_gets_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client, client_of(address) as admin:
        await admin.create("t")
        member = Member(client, "m")
        await member.begin("t")
        await admin.produce(batch_of(b"one", timestamp_ms=1))
        await suspend(admin, "g")
        assert values(await member.fetch(max_wait_ms=1)) == []
        await suspend(admin, "g", resume=True)
        assert values(await member.fetch(max_wait_ms=1000)) == [b"one"]


async def test_a_group_over_its_quota_gets_its_records_and_a_pause(tmp_path: Path) -> None:
    value = bytes(200 * KIBIBYTE)
    async with (
        running_node(tmp_path, FORGETFUL) as address,
        client_of(address) as admin,
        client_of(address) as member,
        client_of(address) as reader,
    ):
        await admin.create("t")
        for _ in range(20):
            await admin.produce(batch_of(value, timestamp_ms=1))
        await join(member)
        answer = await set_rule(admin, "g", QUOTA, str(100 * KIBIBYTE))
        assert answer.error_code == 0
        response = await reader.ask(fetch_request(0), 12)
        records = response.responses[0].partitions[0].records
        owed_bytes = len(records) - 100 * KIBIBYTE
        assert owed_bytes > 0, "the quota of a second was there"
        assert response.throttle_time_ms == pytest.approx(owed_bytes * 1000 / (100 * KIBIBYTE), abs=2)


async def test_a_refused_heartbeat_speaks_for_no_group(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as member, client_of(address, "127.0.0.2") as liar:
        await member.create("t")
        await member.produce(batch_of(b"one", timestamp_ms=1))
        await join(member)
        await suspend(member, "g")
        answer = await liar.ask(HeartbeatRequest("g", 1, "nobody"), 4)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await fetched(liar)).records


async def test_reads_of_a_group_are_counted_as_its_and_turns_by_their_work(tmp_path: Path) -> None:
    async with (
        monitored_node(tmp_path, log=FORGETFUL.log) as info,
        client_of(info.kafka) as member,
        client_of(info.kafka) as reader,
    ):
        await member.create("t")
        for _ in range(20):
            await member.produce(batch_of(bytes(200 * KIBIBYTE), timestamp_ms=1))
        await join(member)
        found = await fetched(reader)
        families = await scrape(info)
    labels = {"topic": "t", "consumergroup": "g", "client": ""}
    assert found.records is not None
    assert families["hutong_actor_read_bytes_total"].value(**labels) == len(found.records)
    assert families["hutong_actor_read_seconds_total"].value(**labels) > 0
    assert families["hutong_actor_reads_queued"].value(**labels) == 0
    assert families["hutong_actor_reads_expired_total"].value(**labels) == 0
    assert families["hutong_actor_read_bytes_total"].value(topic="", consumergroup="other", client="") == 0
    assert families["hutong_scheduler_turns_total"].value(work="disk_reads") >= 1
    assert families["hutong_scheduler_busy_seconds_total"].value(work="disk_reads") > 0
    assert families["hutong_scheduler_messages"].value(work="disk_reads") == 0
    assert families["hutong_scheduler_refused_total"].value(work="long_requests") == 0
    assert families["hutong_scheduler_turns_total"].value(work="examinations") >= 0


async def test_a_wrong_rule_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        answer = await set_rule(client, "g", SUSPENDED, "perhaps")
        assert answer.error_code == ErrorCode.INVALID_CONFIG
        assert "must be one of" in answer.error_message
