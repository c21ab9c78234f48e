"""Nothing is lost and nothing overtakes while consumers come and go: two nodes of Vert.x and two of ours.

Each node publishes to one address that all listen at, then sends to the next node's own. Meanwhile each registers one
more consumer at the shared address and takes it back, again and again. TEST_VERTX_MESSAGES is the number of messages of
all together: 1000000 takes minutes.
"""

import asyncio
import os
from contextlib import contextmanager
from typing import Final

import pytest
from tests.support.driven_process import DrivenProcess
from tests.support.own_node import OwnNode
from tests.support.vertx_node import VERSIONS, VertxNode
from tests.support.zookeeper import running_zookeeper

MESSAGES: Final = int(os.environ.get("TEST_VERTX_MESSAGES", "40000"))
NODES: Final = 4
EACH: Final = MESSAGES // NODES // 2  # half of them is published
pytestmark = pytest.mark.timeout(300 + MESSAGES // 1_000)


async def test_nothing_is_lost_or_overtakes_while_consumers_come_and_go(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with contextmanager(running_zookeeper)(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        theirs = [VertxNode(zookeeper.address, version) for version in VERSIONS]
        nodes: list[DrivenProcess] = [*theirs, *(OwnNode(zookeeper.address) for _ in range(NODES - len(theirs)))]
        try:
            await asyncio.gather(*[asyncio.to_thread(node.wait_until_ready) for node in nodes])
            await flooded(nodes)
        finally:
            await asyncio.gather(*[asyncio.to_thread(node.close) for node in nodes])


async def flooded(nodes: list[DrivenProcess]) -> None:
    for number, node in enumerate(nodes):
        await node.told("collect", "shared")
        await node.told("collect", f"of-{number}")
    for node in nodes:
        await node.until_consumers("shared", NODES)
        for number in range(NODES):
            await node.until_consumers(f"of-{number}", 1)
    for node in nodes:
        await node.told("churn", "shared")
    published = [node.told("flood", "shared", [sender, EACH, "publish"]) for sender, node in enumerate(nodes)]
    assert await asyncio.gather(*published) == [{"failed": 0}] * NODES
    sent = [
        node.told("flood", f"of-{(sender + 1) % NODES}", [sender, EACH, "send"]) for sender, node in enumerate(nodes)
    ]
    assert await asyncio.gather(*sent) == [{"failed": 0}] * NODES
    rounds = [await node.told("unchurn") for node in nodes]
    print(f"{2 * NODES * EACH} messages; consumers came and went {rounds} times", flush=True)
    assert min(rounds) > 1
    for number, node in enumerate(nodes):
        await until_collected(node, "shared", NODES * EACH)
        await until_collected(node, f"of-{number}", EACH)


async def until_collected(node: DrivenProcess, address: str, count: int) -> None:
    await node.until(lambda: node.ask_now("collected", address)["body"]["count"] >= count, f"{count} messages")
    assert await node.told("collected", address) == {"count": count, "disorders": 0}
