"""Acknowledgements in batches, pops in order, and peeks."""

import base64
from typing import Any

import msgspec
import pytest
from tests.unit.broker.rocketmq.pops import Popped, pop, popped
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene

from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages

SOON_MS = 300


def entry(found: Popped, *bits: int, **changes: Any) -> dict[str, Any]:
    """One entry as Java's client makes it, of the offsets that many behind the message."""
    _, pop_time, invisible, number, _, _, queue, _ = found.receipt.split(" ")
    packed = sum(1 << bit for bit in bits)
    return {
        "c": "g", "t": "t", "r": "0", "so": found.place[1], "q": int(queue), "rq": int(number), "pt": int(pop_time),
        "it": int(invisible), "b": base64.b64encode(packed.to_bytes(8, "little").rstrip(b"\0")).decode(), **changes,
    }  # fmt: skip


async def acknowledge(client: RocketClient, *entries: dict[str, Any]) -> int:
    body = {"brokerName": "hutong", "acks": entries}
    return (await client.ask(RequestCode.BATCH_ACK_MESSAGE, msgspec.json.encode(body))).code


async def bodies(client: RocketClient, **fields: Any) -> list[bytes]:
    answer = await pop(client, **{"pollTime": 0, **fields})
    return [each.body for each in await popped(client, **fields)] if answer.code == ResponseCode.SUCCESS else []


async def send(client: RocketClient, *sent: bytes, queue: int = 0) -> None:
    for body in sent:
        assert (await client.send(body, queueId=queue)).code == ResponseCode.SUCCESS


async def test_a_batch_settles_messages_of_several_queues(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t", 2)
    await send(client, b"a", b"b", b"c")
    await send(client, b"d", queue=1)
    (first, *_) = await popped(client, queueId=0, invisibleTime=SOON_MS)
    (other,) = await popped(client, queueId=1, invisibleTime=SOON_MS)
    assert await acknowledge(client, entry(first, 0, 2), entry(other, 0)) == ResponseCode.SUCCESS
    # What was left out comes again.
    assert [each.body for each in await popped(client)] == [b"b"]


async def test_one_that_is_held_no_more_does_not_keep_others(client: RocketClient) -> None:
    await send(client, b"a", b"b", b"c")
    found = await popped(client, invisibleTime=SOON_MS)
    assert await found[1].acknowledge(client) == ResponseCode.SUCCESS
    # The second is settled already, a fourth is not there.
    assert await acknowledge(client, entry(found[0], 0, 1, 2, 3)) == ResponseCode.NO_MESSAGE
    await send(client, b"d")
    assert [each.body for each in await popped(client)] == [b"d"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"b": None}, ResponseCode.SYSTEM_ERROR),
        ({"b": ""}, ResponseCode.SYSTEM_ERROR),
        ({"b": "%"}, ResponseCode.SYSTEM_ERROR),
        ({"b": base64.b64encode(bytes(257)).decode()}, ResponseCode.SYSTEM_ERROR),
        ({"so": -1}, ResponseCode.NO_MESSAGE),
        ({"so": 1 << 62}, ResponseCode.NO_MESSAGE),
        ({"so": 77}, ResponseCode.NO_MESSAGE),
        ({"rq": 77}, ResponseCode.NO_MESSAGE),
        ({"rq": "x"}, ResponseCode.SYSTEM_ERROR),
        ({"q": 9}, ResponseCode.SYSTEM_ERROR),
        ({"t": "missing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"c": "other"}, ResponseCode.NO_MESSAGE),
    ],
)
async def test_an_entry_of_nothing_is_refused(client: RocketClient, changes: dict[str, Any], code: int) -> None:
    await send(client, b"a", b"b")
    first, second = await popped(client)
    assert await acknowledge(client, entry(first, 0, **changes)) == code
    # Behind a good one it is refused alone, unless the whole body is wrong.
    assert await acknowledge(client, entry(first, 0), entry(second, 0, **changes)) == code
    assert await acknowledge(client, entry(second, 0)) == ResponseCode.SUCCESS


async def test_a_batch_has_entries(client: RocketClient) -> None:
    await send(client, b"a")
    assert await acknowledge(client) == ResponseCode.SYSTEM_ERROR
    (found,) = await popped(client)
    assert await acknowledge(client, *[entry(found, 0)] * 1_001) == ResponseCode.SYSTEM_ERROR


async def test_a_queue_in_order_gives_nothing_while_something_is_in_hand(
    client: RocketClient, scene: RocketScene
) -> None:
    await scene.kafka.create("t", 2)
    await send(client, b"a", b"b", b"c")
    await send(client, b"other", queue=1)
    first, second = await popped(client, queueId=0, order="true", maxMsgNums=2)
    assert (first.body, second.body) == (b"a", b"b")
    # Another queue is not held up.
    assert [each.body for each in await popped(client, order="true")] == [b"other"]
    assert await first.acknowledge(client) == ResponseCode.SUCCESS
    assert (await pop(client, queueId=0, order="true", pollTime=0)).code == ResponseCode.POLLING_TIMEOUT
    waiting = popped(client, queueId=0, order="true")
    assert await second.acknowledge(client) == ResponseCode.SUCCESS
    assert [each.body for each in await waiting] == [b"c"]


async def test_what_failed_comes_again_first(client: RocketClient) -> None:
    await send(client, b"a", b"b", b"c")
    first, second = await popped(client, order="true", maxMsgNums=2)
    assert await second.acknowledge(client) == ResponseCode.SUCCESS
    back = await first.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=0)
    assert back.code == ResponseCode.SUCCESS
    again = await popped(client, order="true")
    assert [(each.body, each.times) for each in again] == [(b"a", 1), (b"c", 0)]


async def test_a_message_that_nobody_settles_comes_again_in_order(client: RocketClient) -> None:
    await send(client, b"a", b"b")
    (first,) = await popped(client, order="true", maxMsgNums=1, invisibleTime=SOON_MS)
    again = await popped(client, order="true")
    assert [(each.body, each.times) for each in again] == [(b"a", 1), (b"b", 0)]
    assert await first.acknowledge(client) == ResponseCode.NO_MESSAGE


async def peek(client: RocketClient, **fields: Any) -> tuple[int, list[bytes]]:
    given = {"consumerGroup": "g", "topic": "t", "queueId": 0, "maxMsgNums": 32, **fields}
    answer = await client.ask_with(RequestCode.PEEK_MESSAGE, given)
    return answer.code, [bytes(message.body) for message in decode_messages(answer.body)]


async def test_a_peek_takes_nothing(client: RocketClient) -> None:
    await send(client, b"a", b"b", b"c")
    assert (await peek(client))[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    first, _ = await popped(client, maxMsgNums=2)
    for _ in range(2):
        assert await peek(client) == (ResponseCode.SUCCESS, [b"c"])
    back = await first.settle(client, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, invisibleTime=0)
    assert back.code == ResponseCode.SUCCESS
    assert await peek(client) == (ResponseCode.SUCCESS, [b"a", b"c"])
    assert await peek(client, maxMsgNums=1) == (ResponseCode.SUCCESS, [b"a"])
    # The peeks have counted as no deliveries.
    assert [(each.body, each.times) for each in await popped(client)] == [(b"a", 1), (b"c", 0)]
    assert await peek(client) == (ResponseCode.PULL_NOT_FOUND, [])
    assert (await peek(client, topic="missing"))[0] == ResponseCode.TOPIC_NOT_EXIST
