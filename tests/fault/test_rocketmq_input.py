"""What clients of RocketMQ's port send that no client should: each request is answered, and nobody else is hurt.

Every code that has a handler gets fields and bodies that are missing, too large, of another kind, or random. Whatever
a handler raises that is no refusal would reach the loop's exception handler, which a test watches.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest
from tests.unit.broker.rocketmq.scene import RocketClient, RocketScene, rocketmq_client, rocketmq_node

from hutong import remoting
from hutong.broker.rocketmq.gateway import HANDLERS
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import BatchedMessage, encode_batch, encode_properties

pytestmark = pytest.mark.fault
FIELD_NAMES: Final = (
    "topic", "consumerGroup", "producerGroup", "group", "groupName", "clientID", "clientId", "queueId", "queueOffset",
    "offset", "commitOffset", "timestamp", "maxMsgNums", "maxNum", "sysFlag", "suspendTimeoutMillis", "subscription",
    "expressionType", "key", "_UNIQUE_KEY_QUERY", "beginTimestamp", "endTimestamp", "readQueueNums", "writeQueueNums",
    "perm", "attributes", "order", "isForce", "cleanOffset", "delayLevel", "originTopic", "maxReconsumeTimes", "batch",
    "properties", "bornTimestamp", "flag", "reconsumeTimes", "defaultTopicQueueNums", "AccessKey", "Signature",
    "a", "b", "d", "e", "f", "g", "h", "i", "j", "l", "m", "exp", "expType", "invisibleTime", "pollTime", "extraInfo",
)  # fmt: skip
VALUES: Final = (
    "", "t", "g", "%RETRY%g", "%DLQ%", "../../etc/passwd", "$(id)", "0", "1", "-1", "7", "2147483648",
    "-9223372036854775808", "9223372036854775807", "1e9", "NaN", "true", "٣", "a\x01b\x02", "\x02\x01",
    "x" * 300, "__consumer_offsets",
    "TBW102", "TAG", "SQL92", "a || b", "a = 1", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "\U0001f600",
)  # fmt: skip
BODIES: Final = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"groupName":"g","retryMaxTimes":1e99}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"\xff"}]}]}',
    b'{"clientID":"c","consumerDataSet":null}',
    b"[" * 5_000,
    bytes(100),
    b"\xff" * 100,
    encode_batch([BatchedMessage(0, b"x", encode_properties({"TAGS": "a"}))]),
    struct.pack(">iiiii", 2**31 - 1, 0, 0, 0, -5),
    b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":1099511627776}]}',
    msgspec.json.encode({"clientID": "c", "producerDataSet": [{"groupName": "p" * 1_000}] * 200}),
)  # fmt: skip
WAITS_LONG: Final = {"suspendTimeoutMillis", "pollTime"}
UNANSWERED_MAX: Final = 200


class Watched:
    """The loop's exception handler, as a test sees it."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: self.faults.append(context))


@pytest.fixture
async def watched() -> Watched:
    return Watched()


@pytest.fixture
async def scene(tmp_path: Path, watched: Watched) -> AsyncIterator[RocketScene]:
    async with rocketmq_node(tmp_path) as scene:
        await scene.kafka.create("t", partitions=2)
        yield scene


def requests_of(code: int, random: Random) -> Iterator[Command]:
    yield Command(code)
    for body in BODIES:
        yield Command(code, fields={}, body=body)
    for _ in range(30):
        names = random.sample(FIELD_NAMES, random.randrange(1, 20))
        fields = {name: random.choice(VALUES) for name in names}
        # It may wait as long as it likes; the test does not.
        fields |= dict.fromkeys(fields.keys() & WAITS_LONG, "0")
        fields["pollTime"] = "0"
        yield Command(code, fields=fields, body=random.choice(BODIES))


async def still_serves(scene: RocketScene) -> None:
    async with rocketmq_client(scene.address) as other:
        sent = await other.send(b"good")
        assert sent.code == ResponseCode.SUCCESS, sent.remark


@pytest.mark.parametrize("code", sorted(HANDLERS), ids=lambda code: RequestCode(code).name)
async def test_every_request_is_answered_whatever_is_in_it(scene: RocketScene, watched: Watched, code: int) -> None:
    async with rocketmq_client(scene.address) as client:
        for command in requests_of(code, Random(code)):
            answer = await client.connection.invoke(command, 30)
            assert answer.code in (*ResponseCode, 3), (command, answer)
    assert watched.faults == []
    await still_serves(scene)


async def test_a_header_that_lies_closes_its_own_connection(scene: RocketScene, watched: Watched) -> None:
    async with rocketmq_client(scene.address) as client:
        for frame in (
            b"GET / HTTP/1.1\r\n\r\n",
            struct.pack(">II", 8, 1 << 24 | 4) + b"\0\0\0\0",
            struct.pack(">II", 20, 16) + b'{"code":"\xff\xfe"}',
            struct.pack(">II", 2**31 - 1, 4),
        ):
            reader, writer = await asyncio.open_connection(scene.address.host, scene.address.port)
            writer.write(frame + bytes(64))
            assert await reader.read() == b""
            writer.close()
        assert (await client.send(b"x")).code == ResponseCode.SUCCESS
    assert watched.faults == []


async def test_a_client_that_asks_and_leaves_leaves_nothing(scene: RocketScene, watched: Watched) -> None:
    pulls = {"consumerGroup": "g", "topic": "t", "queueOffset": 0, "maxMsgNums": 1, "suspendTimeoutMillis": 20_000}
    for _ in range(3):
        async with remoting.connect(str(scene.address), {}) as connection:
            client = RocketClient(connection, [])
            await client.heartbeat("c", "g", producers=("p",))
            waiting = [
                asyncio.ensure_future(
                    client.ask_with(RequestCode.PULL_MESSAGE, {**pulls, "queueId": number % 2, "sysFlag": 2})
                )
                for number in range(UNANSWERED_MAX)
            ]
            # After them all: the node has read them.
            await client.ask(RequestCode.GET_MAX_OFFSET, topic="t", queueId=0)
            for each in waiting:
                each.cancel()
    async with rocketmq_client(scene.address) as client:
        gone = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")
        assert gone.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert watched.faults == []
    await still_serves(scene)
