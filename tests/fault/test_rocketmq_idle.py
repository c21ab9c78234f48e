"""Many clients of RocketMQ's port that wait for messages: what each costs, and that one message wakes its readers."""

import asyncio
import pathlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Final

import pytest
from tests.support.node import Node
from tests.unit.broker.rocketmq.scene import rocketmq_client

from hutong.server.configuration.settings import Address
from hutong.wire.rocketmq.codes import PULL_WAITS, ResponseCode

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
CLIENTS: Final = 200
QUEUES: Final = 4
KIBIBYTES_MAX: Final = 60  # of memory for each; measured with 1,000: 17


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, "rocketmq.listen=127.0.0.1:0") as running:
        yield running


def resident_kibibytes(node: Node) -> int:
    lines = pathlib.Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def test_waiting_clients_are_cheap_and_wake(node: Node) -> None:
    host, _, port = node.process.fields["rocketmq"].rpartition(":")
    address = Address(host, int(port))
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(rocketmq_client(address))
        for queue_id in range(QUEUES):
            await producer.send(b"first", queueId=queue_id, defaultTopicQueueNums=QUEUES)
        before = resident_kibibytes(node)
        waiting = []
        for number in range(CLIENTS):
            client = await stack.enter_async_context(rocketmq_client(address))
            # As many groups as there are in a company, each with a member for each queue.
            group = f"g{number // QUEUES}"
            await client.heartbeat(f"c{number}", group)
            asked = client.pull(1, queueId=number % QUEUES, consumerGroup=group, sysFlag=PULL_WAITS)
            waiting.append(asyncio.ensure_future(asked))
        # Behind the last of them, on its connection.
        await client.heartbeat(f"c{number}", group)
        assert resident_kibibytes(node) - before < CLIENTS * KIBIBYTES_MAX
        assert not any(each.done() for each in waiting)
        for queue_id in range(QUEUES):
            await producer.send(b"second", queueId=queue_id)
        assert {each.code for each in await asyncio.gather(*waiting)} == {ResponseCode.SUCCESS}
