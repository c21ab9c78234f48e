"""A node that is killed under clients that pop: what was acknowledged never comes again, and the rest does.

TEST_KILL_ROUNDS says how often it is killed (2 by default).
"""

import asyncio
import os
import pathlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from tests.support.node import Node
from tests.unit.broker.rocketmq.pops import pop_fields, receipts_of
from tests.unit.broker.rocketmq.scene import RocketClient, rocketmq_client

from hutong.foundation.errors import HutongError
from hutong.server.configuration.settings import Address
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
ROUNDS: Final = int(os.environ.get("TEST_KILL_ROUNDS", "2"))
MESSAGES: Final = 300
Place = tuple[int, int]


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path, "rocketmq.listen=127.0.0.1:0") as running:
        yield running


def address_of(node: Node) -> Address:
    host, _, port = node.process.fields["rocketmq"].rpartition(":")
    return Address(host, int(port))


class Worker:
    """Pops and acknowledges. `sent` are acknowledgements that may have been taken, `acknowledged` those that were."""

    def __init__(self) -> None:
        self.sent: set[Place] = set()
        self.acknowledged: set[Place] = set()
        self.times: Counter[Place] = Counter()
        self.faults: list[str] = []

    async def work(self, client: RocketClient, *, keeps: int) -> int:
        """Take what there is now, and acknowledge all whose offset does not divide by `keeps`."""
        answer = await client.ask_with(RequestCode.POP_MESSAGE, {**pop_fields(), "pollTime": 0})
        found = receipts_of(answer) if answer.code == ResponseCode.SUCCESS else []
        for each in found:
            if each.place in self.acknowledged:
                self.faults.append(f"{each.place} came again")
            if each.times < self.times[each.place]:
                self.faults.append(f"{each.place} came for the {each.times}th time")
            self.times[each.place] = each.times
        wanted = [each for each in found if not keeps or each.place[1] % keeps]
        self.sent |= {each.place for each in wanted}
        codes = await asyncio.gather(*(each.acknowledge(client) for each in wanted))
        self.acknowledged |= {each.place for each, code in zip(wanted, codes, strict=True) if code == 0}
        return len(found)


async def test_what_was_acknowledged_never_comes_again(node: Node) -> None:
    async with rocketmq_client(address_of(node)) as client:
        sent = [await client.send(b"%d" % number) for number in range(MESSAGES)]
        assert {each.code for each in sent} == {ResponseCode.SUCCESS}
    worker = Worker()
    for number in range(ROUNDS):
        async with rocketmq_client(address_of(node)) as client:
            await worker.work(client, keeps=number + 2)
            # In the middle of what follows.
            working = [asyncio.ensure_future(worker.work(client, keeps=number + 2)) for _ in range(4)]
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(node.kill)
            outcomes = await asyncio.gather(*working, return_exceptions=True)
            assert all(isinstance(each, int | HutongError) for each in outcomes), outcomes
        await asyncio.to_thread(node.start)
    async with rocketmq_client(address_of(node)) as client:
        while await worker.work(client, keeps=0):
            pass
    assert worker.faults == []
    assert len(worker.acknowledged) > MESSAGES // 2
    assert worker.sent == {(0, offset) for offset in range(MESSAGES)}
