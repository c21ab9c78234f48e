"""Messages that are delivered later, and messages that a consumer sends back."""

from pathlib import Path

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, offsets_of, rocketmq_client, rocketmq_node

from hutong.broker.rocketmq.delays.level_queue import LevelQueue
from hutong.wire.rocketmq.codes import PULL_WAITS, SCHEDULE_TOPIC, RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import StoredMessage, decode_messages, decode_properties, encode_properties

HOUR_LEVEL = 17
ONE_SECOND = 1


async def delay(client: RocketClient, body: bytes, level: int, topic: str = "t") -> None:
    sent = await client.send(body, topic, properties=encode_properties({"DELAY": str(level), "TAGS": "x"}))
    assert sent.code == ResponseCode.SUCCESS, sent.remark


async def waited(client: RocketClient, topic: str = "t", offset: int = 0) -> StoredMessage:
    (message,) = decode_messages((await client.pull(offset, topic, sysFlag=PULL_WAITS)).body)
    return message


async def test_a_message_is_seen_when_its_delay_is_over(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    await delay(client, b"later", ONE_SECOND)
    assert (await client.pull()).code == ResponseCode.PULL_NOT_FOUND
    message = await waited(client)
    assert bytes(message.body) == b"later"
    assert decode_properties(message.properties) == {"TAGS": "x"}
    # It waited for as long as its clock says: from one time of storage to the other.
    assert message.stored_ms - message.born_ms >= 1_000
    assert await offsets_of(scene, SCHEDULE_TOPIC, ONE_SECOND - 1) == (1, 1), "what was delivered takes no space"


async def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        await scene.kafka.create("t")
        await delay(client, b"soon", ONE_SECOND)
        await delay(client, b"much later", HOUR_LEVEL)
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        assert bytes((await waited(client)).body) == b"soon"
        assert await offsets_of(scene, SCHEDULE_TOPIC, HOUR_LEVEL - 1) == (0, 1)


async def test_a_deleted_topic_holds_up_nobody(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    await scene.kafka.create("gone")
    await delay(client, b"lost", ONE_SECOND, "gone")
    await scene.kafka.delete("gone")
    await delay(client, b"kept", ONE_SECOND)
    assert bytes((await waited(client)).body) == b"kept"


async def test_an_append_that_fails_is_made_again(
    client: RocketClient, scene: RocketScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[bool] = []
    settle = LevelQueue._settle

    def failing_once(queue: LevelQueue, next_offset: int, error: object) -> None:
        settled.append(True)
        settle(queue, next_offset, OSError("no disk") if len(settled) == 1 else error)  # type: ignore[arg-type]

    monkeypatch.setattr(LevelQueue, "_settle", failing_once)
    await scene.kafka.create("t")
    await delay(client, b"x", ONE_SECOND)
    assert bytes((await waited(client)).body) == b"x"
    assert bytes((await waited(client, offset=1)).body) == b"x", "at least once"


async def test_nobody_sends_to_the_schedule_itself(client: RocketClient) -> None:
    answer = await client.send(b"x", SCHEDULE_TOPIC)
    assert answer.code == ResponseCode.NO_PERMISSION


async def send_back(client: RocketClient, message: StoredMessage, level: int = 0, times_max: int = 16) -> int:
    fields = {
        "group": "g", "offset": message.physical_offset, "delayLevel": level, "originMsgId": "",
        "originTopic": message.topic, "maxReconsumeTimes": times_max,
    }  # fmt: skip
    return (await client.ask_with(RequestCode.CONSUMER_SEND_MSG_BACK, fields)).code


async def test_a_message_that_was_sent_back_comes_again_and_at_last_to_the_dead_letters(client: RocketClient) -> None:
    await client.heartbeat("c1", "g")
    await client.send(b"x", properties=encode_properties({"KEYS": "k"}))
    (first,) = await client.messages()
    assert await send_back(client, first, ONE_SECOND) == ResponseCode.SUCCESS
    again = await waited(client, "%RETRY%g")
    properties = decode_properties(again.properties)
    assert (bytes(again.body), again.reconsume_times, again.topic) == (b"x", 1, "%RETRY%g")
    assert (properties["RETRY_TOPIC"], properties["KEYS"]) == ("t", "k")
    assert properties["ORIGIN_MESSAGE_ID"].endswith(f"{first.physical_offset:016X}")

    assert await send_back(client, again, times_max=1) == ResponseCode.SUCCESS
    dead = await waited(client, "%DLQ%g")
    assert (bytes(dead.body), dead.reconsume_times) == (b"x", 2)
    assert decode_properties(dead.properties)["RETRY_TOPIC"] == "t", "where it came from first"


async def test_a_message_that_its_consumer_gives_up_goes_to_the_dead_letters(client: RocketClient) -> None:
    await client.send(b"x")
    (message,) = await client.messages()
    assert await send_back(client, message, level=-1) == ResponseCode.SUCCESS
    assert bytes((await waited(client, "%DLQ%g")).body) == b"x"


async def test_a_client_that_sends_back_by_itself_comes_to_the_dead_letters_too(client: RocketClient) -> None:
    await client.heartbeat("c1", "g")
    await client.send(b"again", "%RETRY%g", reconsumeTimes=3, maxReconsumeTimes=3)
    assert bytes((await waited(client, "%RETRY%g")).body) == b"again"
    await client.send(b"enough", "%RETRY%g", reconsumeTimes=4, maxReconsumeTimes=3)
    assert bytes((await waited(client, "%DLQ%g")).body) == b"enough"


@pytest.mark.parametrize("offset", [0, 1 << 62, -1])
async def test_a_message_that_is_not_there_cannot_be_sent_back(client: RocketClient, offset: int) -> None:
    await client.send(b"x")
    missing = StoredMessage("t", 0, 0, offset, b"")
    assert await send_back(client, missing) == ResponseCode.SYSTEM_ERROR
    unknown = StoredMessage("none", 0, 0, offset, b"")
    assert await send_back(client, unknown) == ResponseCode.SYSTEM_ERROR
