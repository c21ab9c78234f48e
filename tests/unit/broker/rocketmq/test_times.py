"""Times at which messages are delivered: what producers ask for, and what becomes of it on a node."""

from pathlib import Path

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, offsets_of, rocketmq_client, rocketmq_node
from tests.unit.broker.wire_node import batch_of

from hutong.broker.delays.steps import DeliveryPlace
from hutong.broker.rocketmq.delays.times import due_of, waiting
from hutong.broker.rocketmq.records.translation import message_of
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.topics.internal_topics import DELAYED_TOPIC
from hutong.wire.kafka.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import PULL_WAITS, SCHEDULE_TOPIC, ResponseCode
from hutong.wire.rocketmq.messages import (
    NO_HOST,
    PROPERTIES_BYTES_MAX,
    StoredMessage,
    decode_messages,
    decode_properties,
    encode_properties,
)

NOW = 1_700_000_000_000
DAY_MS = 86_400_000


def message(**properties: object) -> StoredMessage:
    texts = {name: str(value) for name, value in properties.items()}
    return StoredMessage("t", 3, 0, 0, b"body", encode_properties(texts))


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        ({}, None),
        ({"TAGS": "TIMER_DELIVER_MS"}, None),
        ({"TIMER_DELIVER_MS": NOW + 5}, NOW + 5),
        ({"__STARTDELIVERTIME": NOW + 5}, NOW + 5),
        ({"TIMER_DELAY_SEC": 5}, NOW + 5_000),
        ({"TIMER_DELAY_MS": 5}, NOW + 5),
        ({"TIMER_DELAY_SEC": 1, "TIMER_DELAY_MS": 7, "TIMER_DELIVER_MS": NOW + 9}, NOW + 1_000),
        ({"TIMER_DELAY_MS": 7, "TIMER_DELIVER_MS": NOW + 9}, NOW + 7),
        ({"TIMER_DELIVER_MS": NOW + 3 * DAY_MS}, NOW + 3 * DAY_MS),
        ({"TIMER_DELIVER_MS": NOW}, None),
        ({"TIMER_DELIVER_MS": 0}, None),
        ({"TIMER_DELAY_SEC": -5}, None),
        ({"TIMER_DELIVER_MS": NOW + 5, "TIMER_OUT_MS": NOW - 5}, None),
    ],
)
def test_the_time_of_a_message(properties: dict[str, object], due_ms: int | None) -> None:
    assert due_of(message(**properties), NOW, 3 * DAY_MS) == due_ms


@pytest.mark.parametrize("text", ["x", "", "-", "1_0", "٣", "9" * 19, "1.5", " 1"])
def test_a_time_that_is_no_number_is_refused(text: str) -> None:
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"):
        with pytest.raises(RocketRefused) as refused:
            due_of(message(**{name: text}), NOW, 3 * DAY_MS)
        assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_time_too_far_is_refused() -> None:
    with pytest.raises(RocketRefused) as refused:
        due_of(message(TIMER_DELIVER_MS=NOW + 3 * DAY_MS + 1), NOW, 3 * DAY_MS)
    assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_message_with_full_properties_still_says_that_it_has_waited() -> None:
    full = message(TIMER_DELIVER_MS=NOW + 5, FULL="x" * (PROPERTIES_BYTES_MAX - 40))
    waited = message_of(waiting(full, DeliveryPlace("t", 0), NOW + 5).record, "t", 0, 0, NO_HOST)
    assert due_of(waited, NOW, DAY_MS) is None


async def send(client: RocketClient, body: bytes, topic: str = "t", **properties: object) -> None:
    texts = {"TAGS": "x", **{name: str(value) for name, value in properties.items()}}
    sent = await client.send(body, topic, properties=encode_properties(texts))
    assert sent.code == ResponseCode.SUCCESS, sent.remark


async def waited(client: RocketClient, topic: str = "t", offset: int = 0) -> StoredMessage:
    (found,) = decode_messages((await client.pull(offset, topic, sysFlag=PULL_WAITS)).body)
    return found


async def offsets(scene: RocketScene, step: int) -> tuple[int, int]:
    """Where the queue of a step begins and ends."""
    return await offsets_of(scene, DELAYED_TOPIC, step + 1)


async def test_a_message_comes_at_its_time(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t", 2)
    sent = await client.send(b"later", queueId=1, properties=encode_properties({"TIMER_DELAY_MS": "1500", "TAGS": "x"}))
    assert (sent.code, sent.ext()["queueId"]) == (ResponseCode.SUCCESS, "1")
    assert (await client.pull(queueId=1)).code == ResponseCode.PULL_NOT_FOUND
    (found,) = decode_messages((await client.pull(queueId=1, sysFlag=PULL_WAITS)).body)
    properties = decode_properties(found.properties)
    assert (bytes(found.body), found.queue_id, properties["TAGS"]) == (b"later", 1, "x")
    assert found.stored_ms >= int(properties["TIMER_OUT_MS"])
    assert await offsets(scene, 1) == (1, 1), "what was delivered takes no space"


async def test_no_message_comes_before_its_time(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    for delay_ms in (900, 1_100, 300, 600):
        await send(client, b"%d" % delay_ms, TIMER_DELAY_MS=delay_ms)
    await send(client, b"now", TIMER_DELIVER_MS=5)
    found = [await waited(client, offset=offset) for offset in range(5)]
    assert {bytes(each.body) for each in found} == {b"now", b"300", b"600", b"900", b"1100"}
    for each in found:
        assert each.stored_ms >= int(decode_properties(each.properties).get("TIMER_OUT_MS", 0))


async def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        await scene.kafka.create("t")
        await send(client, b"soon", TIMER_DELAY_SEC=1)
        await send(client, b"late", TIMER_DELAY_SEC=3_600)
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        assert bytes((await waited(client)).body) == b"soon"
        assert (await client.pull(1)).code == ResponseCode.PULL_NOT_FOUND
        assert await offsets(scene, 63 + 3_600 // 64) == (0, 1)


async def test_a_message_that_is_too_late_is_refused(client: RocketClient) -> None:
    properties = encode_properties({"TIMER_DELAY_SEC": str(3 * 86_400 + 1)})
    assert (await client.send(b"x", properties=properties)).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_level_goes_before_a_time(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    await send(client, b"x", DELAY=1, TIMER_DELAY_SEC=3_600)
    assert bytes((await waited(client)).body) == b"x"


async def test_a_deleted_topic_holds_up_nobody(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    await scene.kafka.create("gone")
    await send(client, b"lost", "gone", TIMER_DELAY_MS=300)
    await scene.kafka.delete("gone")
    await send(client, b"kept", TIMER_DELAY_MS=400)
    assert bytes((await waited(client)).body) == b"kept"


@pytest.mark.parametrize("topic", [DELAYED_TOPIC, SCHEDULE_TOPIC])
async def test_nobody_but_the_node_makes_the_queues_or_writes_to_them(
    client: RocketClient, scene: RocketScene, topic: str
) -> None:
    creation = CreateTopicsRequest([CreatableTopic(topic, 1, 1)])
    assert (await scene.kafka.ask(creation, 7)).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await client.send(b"x", topic)).code == ResponseCode.NO_PERMISSION
    await scene.kafka.create("t")
    await send(client, b"x", TIMER_DELAY_SEC=3_600)
    await send(client, b"x", DELAY=10)
    written = await scene.kafka.produce(batch_of(b"x", timestamp_ms=1), topic, partition=5)
    assert written.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    deleted = await scene.kafka.ask(DeleteTopicsRequest(topic_names=[topic]), 5)
    assert deleted.responses[0].error_code != 0
    assert (await client.send(b"x", topic)).code == ResponseCode.NO_PERMISSION
    assert (await client.pull(0, topic, queueId=5)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_large_message_waits_too(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    body = bytes(3 * 1024 * 1024)
    await send(client, body, TIMER_DELAY_MS=1_200)
    assert bytes((await waited(client)).body) == body
