"""Recall of delayed messages."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node

from hutong.foundation.clock import SystemClock
from hutong.wire.rocketmq.codes import PULL_WAITS, RequestCode, ResponseCode
from hutong.wire.rocketmq.messages import decode_messages, encode_properties
from hutong.wire.rocketmq.recall_handles import RecallHandle, decode_handle, encode_handle

HOUR_MS = 3_600_000


def now_ms() -> int:
    return SystemClock().wall_ms()


async def delay(client: RocketClient, message_id: str, due_ms: int, topic: str = "t") -> str:
    """Send a message whose body is its id; returns its handle."""
    properties = {"UNIQ_KEY": message_id, "TIMER_DELIVER_MS": str(due_ms)}
    sent = await client.send(message_id.encode(), topic, properties=encode_properties(properties))
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    return sent.ext()["recallHandle"]


async def recall(client: RocketClient, handle: str, topic: str = "t") -> tuple[int, str | None]:
    answer = await client.ask(RequestCode.RECALL_MESSAGE, producerGroup="p", topic=topic, recallHandle=handle)
    return answer.code, answer.ext().get("msgId")


async def bodies(client: RocketClient, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        answer = await client.pull(len(found), sysFlag=PULL_WAITS)
        found += [bytes(message.body) for message in decode_messages(answer.body)]
    return found


async def test_a_recalled_message_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due_ms = now_ms() + HOUR_MS
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        await scene.kafka.create("t")
        handle = await delay(client, "A", due_ms)
        assert decode_handle(handle) == RecallHandle("t", "hutong", due_ms, "A")
        await delay(client, "B", due_ms)
        assert await recall(client, handle) == (ResponseCode.SUCCESS, "A")
    late_ms = due_ms + HOUR_MS
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _clock: late_ms)
    async with rocketmq_node(tmp_path) as scene, rocketmq_client(scene.address) as client:
        assert await bodies(client, 1) == [b"B"]
        assert (await recall(client, handle))[0] == ResponseCode.ILLEGAL_OPERATION, "its time has passed"
        await client.send(b"C")
        assert await bodies(client, 2) == [b"B", b"C"]


async def test_a_message_that_is_unknown_is_recalled_too(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    handle = encode_handle(RecallHandle("t", "hutong", now_ms() + 60_000, "never-sent"))
    assert handle is not None
    assert await recall(client, handle) == (ResponseCode.SUCCESS, "never-sent")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "u"}, ResponseCode.ILLEGAL_OPERATION),
        ({"broker": "other"}, ResponseCode.ILLEGAL_OPERATION),
        ({"due_ms": 5}, ResponseCode.ILLEGAL_OPERATION),
        ({"due_ms": 10**17}, ResponseCode.ILLEGAL_OPERATION),
    ],
)
async def test_a_handle_of_something_else_is_refused(
    client: RocketClient, scene: RocketScene, changes: dict[str, Any], code: int
) -> None:
    await scene.kafka.create("t")
    handle = encode_handle(RecallHandle("t", "hutong", now_ms() + 60_000, "A")._replace(**changes))
    assert handle is not None
    assert (await recall(client, handle))[0] == code


async def test_a_broken_handle_is_refused(client: RocketClient, scene: RocketScene) -> None:
    await scene.kafka.create("t")
    assert (await recall(client, "x!"))[0] == ResponseCode.ILLEGAL_OPERATION
    assert (await recall(client, "x!", "missing"))[0] == ResponseCode.TOPIC_NOT_EXIST


async def test_a_message_with_a_level_has_no_handle(client: RocketClient) -> None:
    sent = await client.send(b"x", properties=encode_properties({"UNIQ_KEY": "A", "DELAY": "1"}))
    assert "recallHandle" not in sent.ext()
