"""POP consumption: messages are taken for a while, acknowledged singly, and come again."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.broker.rocketmq.pops import LONG_MS, pop, popped
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node

from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
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
from hutong.wire.rocketmq.bodies import AssignmentResponse
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages, encode_properties


async def nothing(client: RocketClient, **fields: Any) -> None:
    answer = await pop(client, pollTime=0, **fields)
    assert answer.code == ResponseCode.POLLING_TIMEOUT
    # Java's client decodes them from every answer.
    assert {"popTime", "invisibleTime", "reviveQid", "restNum"} <= answer.ext().keys()


async def share_offset(scene: RocketScene, group: str = "g") -> tuple[int, int]:
    """The start offset and the lag of the group in the only queue, as Kafka's tools show them."""
    asked = DescribeShareGroupOffsetsRequestGroup(group, [DescribeShareGroupOffsetsRequestTopic("t", [0])])
    answer = await scene.kafka.ask(DescribeShareGroupOffsetsRequest([asked]), 1)
    (partition,) = answer.groups[0].topics[0].partitions
    return partition.start_offset, partition.lag


async def test_a_message_is_taken_once_and_acknowledged(scene: RocketScene, client: RocketClient) -> None:
    for body in (b"a", b"b", b"c"):
        await client.send(body)
    first, second = await popped(client, maxMsgNums=2)
    assert (first.body, second.body, first.times) == (b"a", b"b", 0)
    (third,) = await popped(client)
    await nothing(client)
    # Singly, and in any order.
    for each in (third, first, second):
        assert await each.acknowledge(client) == ResponseCode.SUCCESS
    assert await share_offset(scene) == (3, 0)
    # Repeated, since the answer was lost.
    assert await first.acknowledge(client) == ResponseCode.SUCCESS


async def test_all_queues_are_popped_or_one(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t", partitions=3)
    for number in range(6):
        await client.send(b"%d" % number, queueId=number % 3)
    (one,) = await popped(client, queueId=1, maxMsgNums=1)
    assert one.place == (1, 0)
    answer = await pop(client, maxMsgNums=4)
    assert answer.ext()["restNum"] == "1"
    assert len([*decode_messages(answer.body)]) == 4
    assert len(await popped(client)) == 1


async def test_what_is_not_acknowledged_in_time_comes_again(client: RocketClient) -> None:
    await client.send(b"a")
    (first,) = await popped(client, invisibleTime=1)
    # Waits until the lock has ended.
    (second,) = await popped(client)
    assert (second.place, first.times, second.times) == (first.place, 0, 1)
    assert await first.acknowledge(client) == ResponseCode.NO_MESSAGE
    assert await second.acknowledge(client) == ResponseCode.SUCCESS
    await nothing(client)


async def test_a_pop_waits_and_holds_up_nobody(client: RocketClient) -> None:
    await client.send(b"a")
    (first,) = await popped(client)
    waiting = asyncio.ensure_future(popped(client))
    # On the same connection, and answered before it.
    assert await first.acknowledge(client) == ResponseCode.SUCCESS
    await client.send(b"b")
    (second,) = await waiting
    assert second.body == b"b"


async def test_the_invisible_time_is_changed(client: RocketClient) -> None:
    await client.send(b"a")
    (first,) = await popped(client)
    longer = await first.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=LONG_MS)
    assert longer.code == ResponseCode.SUCCESS
    assert longer.ext()["invisibleTime"] == str(LONG_MS)
    await nothing(client)
    shorter = await first.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=1)
    assert shorter.code == ResponseCode.SUCCESS
    (second,) = await popped(client)
    assert second.times == 1
    # Given back at once.
    back = await second.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=0)
    assert back.code == ResponseCode.SUCCESS
    (third,) = await popped(client)
    assert third.times == 2
    late = await second.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=LONG_MS)
    assert late.code == ResponseCode.NO_MESSAGE


async def test_a_filter_finishes_what_it_leaves_out(scene: RocketScene, client: RocketClient) -> None:
    for number in range(6):
        properties = {"TAGS": ("even", "odd")[number % 2], "n": str(number)}
        await client.send(b"%d" % number, properties=encode_properties(properties))
    found = await popped(client, exp="odd")
    assert [each.body for each in found] == [b"1", b"3", b"5"]
    for each in found:
        await each.acknowledge(client)
    assert await share_offset(scene) == (6, 0)
    found = await popped(client, consumerGroup="sql", exp="n > 3", expType="SQL92")
    assert [each.body for each in found] == [b"4", b"5"]
    broken = await pop(client, exp="n >", expType="SQL92")
    assert broken.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    # Nothing is for this group: it is told at once, and asks again.
    answer = await pop(client, consumerGroup="none", exp="nothing")
    assert answer.code == ResponseCode.POLLING_TIMEOUT


async def test_what_comes_too_often_is_a_dead_letter(scene: RocketScene, client: RocketClient) -> None:
    await client.send(b"poison")
    for times in range(17):
        (found,) = await popped(client)
        assert found.times == times
        await found.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=0)
    await client.send(b"next")
    (found,) = await popped(client)
    assert found.body == b"next"
    # Its topic is created with it.
    while (await client.pull(topic="%DLQ%g")).code == ResponseCode.TOPIC_NOT_EXIST:
        pass
    (letter,) = await client.messages(topic="%DLQ%g", sysFlag=2)
    assert bytes(letter.body) == b"poison"


async def test_the_settings_of_the_group_hold(scene: RocketScene, client: RocketClient) -> None:
    async def configure(name: str, value: str) -> None:
        config = AlterableConfig(name, config_operation=0, value=value)
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(32, "g", [config])])
        (response,) = (await scene.kafka.ask(request, 1)).responses
        assert response.error_code == 0, response.error_message

    await configure("hutong.rocketmq.retry.times", "1")
    await client.send(b"poison")
    for times in range(2):
        (found,) = await popped(client)
        assert found.times == times
        await found.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=0)
    await client.send(b"next")
    (found,) = await popped(client)
    assert found.body == b"next"
    await configure("hutong.rocketmq.consume", "false")
    assert (await pop(client)).code == ResponseCode.NO_PERMISSION


async def test_locks_end_with_the_node_and_offsets_stay(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        for body in (b"a", b"b"):
            await client.send(body)
        first, second = await popped(client)
        assert await first.acknowledge(client) == ResponseCode.SUCCESS
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        assert await second.acknowledge(client) == ResponseCode.NO_MESSAGE
        (again,) = await popped(client, initMode=1)
        assert (again.body, again.times) == (b"b", 1)
        assert await again.acknowledge(client) == ResponseCode.SUCCESS
        await nothing(client)


@pytest.mark.parametrize(("init_mode", "finds"), [(0, True), (1, False)])
async def test_a_new_group_begins_where_it_asks(
    scene: RocketScene, client: RocketClient, init_mode: int, finds: bool
) -> None:
    await client.send(b"a")
    await client.send(b"b")
    # RocketMQ begins with the first message wherever that is still there.
    assert len(await popped(client, consumerGroup="all", initMode=init_mode)) == 2
    trimmed = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], timeout_ms=30_000)
    await scene.kafka.ask(trimmed, 1)
    if finds:
        assert len(await popped(client, initMode=init_mode)) == 1
    else:
        await nothing(client, initMode=init_mode)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisibleTime": 0}, ResponseCode.SYSTEM_ERROR),
        ({"invisibleTime": 10**12}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": 9}, ResponseCode.SYSTEM_ERROR),
        ({"topic": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "__consumer_offsets"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"expType": "JS"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_pop_that_cannot_be_is_refused(client: RocketClient, fields: dict[str, Any], code: int) -> None:
    await client.send(b"a")
    answer = await pop(client, **fields)
    assert answer.code == code
    assert answer.remark


@pytest.mark.parametrize("receipt", ["", "1", "0 1 2 x 0 hutong 0 0", "0 1 2 99999999999 0 hutong 0 0", "0 1 2 77 0"])
async def test_a_receipt_that_is_none_is_refused(client: RocketClient, receipt: str) -> None:
    await client.send(b"a")
    (found,) = await popped(client)
    found.receipt = receipt
    assert await found.acknowledge(client) in (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_MESSAGE)
    await nothing(client)


async def assigned(client: RocketClient, **fields: object) -> list[tuple[int, str]]:
    body = {"topic": "t", "consumerGroup": "g", "clientId": "c1", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, msgspec.json.encode({**body, **fields}))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    found = msgspec.json.decode(answer.body, type=AssignmentResponse).messageQueueAssignments
    return [(each.messageQueue.queueId, each.mode) for each in found]


async def test_a_group_pops_unless_it_has_pulled(scene: RocketScene, client: RocketClient) -> None:
    await scene.kafka.create("t", partitions=5)
    await client.heartbeat("c1", "g", "old")
    await client.heartbeat("c2", "old")
    assert await assigned(client) == [(-1, "POP")]
    assert await assigned(client, topic="%RETRY%g") == []
    assert await assigned(client, messageModel="BROADCASTING") == [(queue, "PULL") for queue in range(5)]
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="old", topic="t", queueId=0, commitOffset=0)
    assert await assigned(client, consumerGroup="old") == [(0, "PULL"), (1, "PULL"), (2, "PULL")]
    assert await assigned(client, consumerGroup="old", clientId="c2") == [(3, "PULL"), (4, "PULL")]
    assert await assigned(client, consumerGroup="old", clientId="c3") == []
    assert await assigned(client, consumerGroup="old", topic="%RETRY%old") == [(0, "PULL")]
    refused = await pop(client, consumerGroup="old")
    assert (refused.code, "offsets of pulls" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    missing = await client.ask(
        RequestCode.QUERY_ASSIGNMENT, msgspec.json.encode({"topic": "no", "consumerGroup": "g", "clientId": "c1"})
    )
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_mode_of_a_group_is_what_it_does(client: RocketClient) -> None:
    async def set_mode(group: str, mode: str) -> int:
        body = {"topic": "t", "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
        return (await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, msgspec.json.encode(body))).code

    await client.send(b"a")
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="old", topic="t", queueId=0, commitOffset=0)
    assert await set_mode("g", "POP") == ResponseCode.SUCCESS
    assert await set_mode("g", "PULL") == ResponseCode.SYSTEM_ERROR
    assert await set_mode("old", "PULL") == ResponseCode.SUCCESS
    assert await set_mode("old", "POP") == ResponseCode.SYSTEM_ERROR
