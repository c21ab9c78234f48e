"""A consumer that is paused, and a node that does not read: neither fills the memory of anybody.

The receiver is a process of ours, or of Vert.x. What is sent has more bytes than the heap of the Java machine, 256 MiB.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
from tests.support.driven_process import DrivenProcess
from tests.support.own_node import OwnNode
from tests.support.vertx_node import MOSTLY_5, VertxNode
from tests.support.waiting import turning_until
from tests.support.zookeeper import running_zookeeper

import hutong
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.delivery.consumer import BUFFERED_MESSAGES_MAX
from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper

pytestmark = pytest.mark.timeout(300)
BODY: Final = bytes(64 * 1024)
MESSAGES: Final = 5_000  # 312 MiB
STOPPED_MESSAGES: Final = 1_500  # more than the queue of 64 MiB and the buffers of both kernels
SESSION_MS: Final = 20_000  # a node that is stopped stays in the cluster


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentZooKeeper]:
    yield from running_zookeeper(tmp_path_factory.mktemp("zookeeper"))


@pytest.fixture(params=["ours", *MOSTLY_5], ids=lambda each: each if each == "ours" else f"vertx-{each}")
async def receiver(request: pytest.FixtureRequest, zookeeper: DevelopmentZooKeeper) -> AsyncIterator[DrivenProcess]:
    node: DrivenProcess
    if request.param == "ours":
        node = OwnNode(zookeeper.address)
    else:
        node = VertxNode(zookeeper.address, request.param, session_ms=SESSION_MS)
    await asyncio.to_thread(node.wait_until_ready)
    await node.told("consume", "sink")
    yield node
    await asyncio.to_thread(node.close)


@pytest.fixture
async def sender(zookeeper: DevelopmentZooKeeper, receiver: DrivenProcess) -> AsyncIterator[hutong.Node]:
    async with hutong.Node(cluster=f"zk://{zookeeper.address}") as node:
        await turning_until(lambda: {"sink", "echo"} <= set(node.bus._consumers))
        yield node


async def test_a_paused_consumer_keeps_its_buffer_and_no_more(sender: hutong.Node, receiver: DrivenProcess) -> None:
    await receiver.told("pause", "sink")
    producer = sender.bus.sender("sink", write_queue_max=100)
    for _ in range(MESSAGES):
        await producer.write(BODY)
    # Behind them, and answered: neither side is held up.
    assert (await sender.bus.request("echo", 1)).body == 1
    await receiver.told("resume", "sink")
    await receiver.until(lambda: receiver.ask_now("counts")["body"]["sink"] >= BUFFERED_MESSAGES_MAX, "the buffer")
    await sender.bus.request("echo", 2)
    assert (await receiver.told("counts"))["sink"] == BUFFERED_MESSAGES_MAX


async def test_a_node_that_does_not_read_holds_up_the_writer(sender: hutong.Node, receiver: DrivenProcess) -> None:
    assert (await sender.bus.request("echo", 1)).body == 1
    link = sender.bus._consumers["sink"][0]._link  # type: ignore[attr-defined]
    receiver.pause()
    producer = sender.bus.sender("sink", write_queue_max=100)
    sizes = []

    async def write() -> None:
        for _ in range(STOPPED_MESSAGES):
            await producer.write(BODY)
            sizes.append(link.outbox.sizes[1])

    writing = asyncio.ensure_future(write())
    # It stands still: all its credits are in the queue of the node.
    await turning_until(lambda: link.outbox.sizes[0] >= 100)
    assert not writing.done()
    receiver.resume()
    await writing
    assert max(sizes) <= ClusteredLimits().queued_bytes_max
    await receiver.until(lambda: receiver.ask_now("counts")["body"]["sink"] == STOPPED_MESSAGES, "all of them")


async def test_a_paused_consumer_of_ours(
    zookeeper: DevelopmentZooKeeper, sender: hutong.Node, receiver: DrivenProcess
) -> None:
    """The same, sent by the other."""
    paused = sender.bus.consumer("our-sink", lambda message: None).pause()
    await receiver.until_consumers("our-sink", 1)
    sender.bus.consumer("our-echo", lambda message: message.body)
    await receiver.until_consumers("our-echo", 1)
    # In portions: a sender of Vert.x keeps in memory what it cannot write, without a bound.
    for _ in range(10):
        await receiver.told("fill", "our-sink", [MESSAGES // 10, len(BODY)])
        assert (await receiver.ask("request", "our-echo", 1))["body"] == 1
    assert len(paused._buffer) == BUFFERED_MESSAGES_MAX
    assert paused.discarded_total == MESSAGES - BUFFERED_MESSAGES_MAX
