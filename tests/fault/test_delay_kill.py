"""A node is killed (kill -9) while delayed messages wait, come out and go on: none that was acknowledged is lost.

None comes before its time, and none that was recalled comes at all. Some may come twice. TEST_KILL_ROUNDS says how
often it is killed (2 by default).
"""

import asyncio
import os
import pathlib
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest
from bench.raw_client import create_topic
from confluent_kafka import Message
from tests.support.confluent import read_partition
from tests.support.node import IS_HUTONG, Node
from tests.support.waiting import turning_until, until

from hutong import remoting
from hutong.foundation.clock import SystemClock
from hutong.remoting.errors import RemotingError
from hutong.remoting.front import RemotingConnection
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.messages import encode_properties

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not IS_HUTONG, reason="the clients are RocketMQ's"),
]
ROUNDS: Final = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
SENT_PER_ROUND: Final = 400
SENDERS: Final = 16
DELAY_MS_MAX: Final = 6_000
TIMEOUT_S: Final = 30
TOPIC: Final = "t"


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, "rocketmq.listen=127.0.0.1:0") as running:
        create_topic(running.address, TOPIC, records=0)
        yield running


class DelayingLoad:
    """Delayed messages from several senders. What became of them is known by their ids."""

    def __init__(self, seed: int) -> None:
        self.acknowledged: dict[str, int] = {}  # with the time of each
        self.asked_back: set[str] = set()  # whatever the answer was
        self.recalled: set[str] = set()
        self._random = Random(seed)
        self._number = 0

    async def until_killed(self, address: str) -> None:
        """Send until the node has gone."""
        async with remoting.connect(address) as connection:
            await asyncio.gather(*(self._send_on(connection) for _ in range(SENDERS)))

    async def send(self, connection: RemotingConnection, due_ms: int) -> str | None:
        """Send one message; returns its handle."""
        self._number += 1
        name = f"m{self._number}"
        properties = encode_properties({"UNIQ_KEY": name, "TIMER_DELIVER_MS": str(due_ms)})
        fields = {
            "producerGroup": "p", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1",
            "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": properties,
        }  # fmt: skip
        answer = await connection.invoke(
            Command(RequestCode.SEND_MESSAGE, fields=fields, body=name.encode()), TIMEOUT_S
        )
        if answer.code != ResponseCode.SUCCESS:
            return None
        self.acknowledged[name] = due_ms
        # One whose time came before it was handled waits for nothing, and has no handle.
        return answer.ext().get("recallHandle")

    async def _send_on(self, connection: RemotingConnection) -> None:
        try:
            while True:
                wait_ms = self._random.randrange(DELAY_MS_MAX)
                due_ms = SystemClock().wall_ms() + wait_ms
                handle = await self.send(connection, due_ms)
                # Those with some time left are asked back now and then.
                if handle is not None and wait_ms > DELAY_MS_MAX // 2 and self._random.random() < 0.2:
                    await self._recall(connection, handle)
        # It was killed.
        except RemotingError:
            return

    async def _recall(self, connection: RemotingConnection, handle: str) -> None:
        name = next(reversed(self.acknowledged))
        self.asked_back.add(name)
        fields = {"producerGroup": "p", "topic": TOPIC, "recallHandle": handle}
        answer = await connection.invoke(Command(RequestCode.RECALL_MESSAGE, fields=fields), TIMEOUT_S)
        if answer.code == ResponseCode.SUCCESS:
            self.recalled.add(answer.ext()["msgId"])


async def killed_under(load: DelayingLoad, node: Node, acknowledged: int) -> None:
    """Kill the node under the load once so many messages are acknowledged."""
    running = asyncio.create_task(load.until_killed(node.process.fields["rocketmq"]))
    await turning_until(lambda: len(load.acknowledged) >= acknowledged or running.done())
    node.kill()
    await running


async def test_delayed_messages_outlive_the_process(node: Node) -> None:
    load = DelayingLoad(seed=7)
    for round_ in range(1, ROUNDS + 1):
        await killed_under(load, node, round_ * SENT_PER_ROUND)
        node.start()
    # The last of all: when it has come, all others have had their time.
    last_ms = max(load.acknowledged.values()) + 1_000
    async with remoting.connect(node.process.fields["rocketmq"]) as connection:
        await load.send(connection, max(last_ms, SystemClock().wall_ms() + 1_000))
    wanted = load.acknowledged.keys() - load.asked_back
    found: dict[str, Message] = {}

    def all_came() -> bool:
        for message in read_partition(node.address, TOPIC):
            found.setdefault((message.value() or b"").decode(), message)
        return wanted <= found.keys()

    until(all_came, deadline_s=60, what="the last delayed message")
    assert len(load.acknowledged) > ROUNDS * SENT_PER_ROUND
    assert load.recalled
    assert not load.recalled & found.keys()
    for name, due_ms in load.acknowledged.items():
        assert name not in found or found[name].timestamp()[1] >= due_ms
