"""A node whose log is Apache Kafka: durable addresses with dead letters, and services that remember their calls."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import pytest
from tests.support.confluent import read_partition
from tests.support.kafka_peer import running_kafka

import hutong
from hutong.bus.durable import Retry
from hutong.bus.durable.message import DurableMessage
from hutong.rpc import Deduplication, Delivery, OutcomeUnknown, new_request_id, service

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_kafka(tmp_path_factory.mktemp("kafka") / "log") as bootstrap:
        yield bootstrap


@pytest.fixture
async def node(kafka: str) -> AsyncIterator[hutong.Node]:
    async with hutong.Node(log=f"kafka://{kafka}") as node:
        yield node


async def test_durable_addresses_are_topics_of_kafka(node: hutong.Node, kafka: str) -> None:
    seen: asyncio.Queue[object] = asyncio.Queue()

    def handle(message: DurableMessage) -> None:
        if message.body == "bad":
            raise ValueError("this one does not work")
        seen.put_nowait(message.body)

    dead: asyncio.Queue[object] = asyncio.Queue()
    for body in ("one", "bad", "two"):
        stored = await node.bus.publish("topic:orders", body)
        assert stored is not None
        assert stored.topic == "orders"
    node.bus.consumer("topic:orders", handle, group="billing", retry=Retry(attempts=2, first_delay=0.01))
    assert [await asyncio.wait_for(seen.get(), 60) for _ in range(2)] == ["one", "two"]
    node.bus.consumer("topic:orders.billing.dead", lambda message: dead.put_nowait(message.body), group="undertaker")
    assert await asyncio.wait_for(dead.get(), 60) == "bad"
    (letter,) = await asyncio.to_thread(read_partition, kafka, "orders.billing.dead")
    headers = dict(letter.headers() or ())
    assert headers["hutong-dead-error-type"] == b"ValueError"


@service("shop")
class Shop(Protocol):
    async def place(self, item: str) -> int: ...
    async def slow(self) -> str: ...


class Placed:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()

    async def place(self, item: str) -> int:
        self.items.append(item)
        return len(self.items)

    async def slow(self) -> str:
        self.items.append("slow")
        self.entered.set()
        await self.gate.wait()
        return "done"


REMEMBERED = Deduplication(topic="shop-calls")


async def test_a_service_remembers_its_calls_in_kafka(kafka: str) -> None:
    placed, request, unfinished = Placed(), new_request_id(), new_request_id()
    async with hutong.Node(log=f"kafka://{kafka}") as first:
        await first.rpc.bind(Shop, placed, deduplicate=REMEMBERED)
        shop = first.rpc.proxy(Shop, delivery=Delivery.DEDUPLICATED)
        assert await hutong.rpc.with_options(shop, request_id=request).place("apple") == 1
        assert await hutong.rpc.with_options(shop, request_id=request).place("apple") == 1
        begun = first.rpc.go(hutong.rpc.with_options(shop, request_id=unfinished).slow)
        await placed.entered.wait()
        async with hutong.Node(log=f"kafka://{kafka}") as second:  # the first one has not ended, but is replaced
            await second.rpc.bind(Shop, placed, deduplicate=REMEMBERED)
            again = second.rpc.proxy(Shop, delivery=Delivery.DEDUPLICATED)
            assert await hutong.rpc.with_options(again, request_id=request).place("apple") == 1
            with pytest.raises(OutcomeUnknown):
                await hutong.rpc.with_options(again, request_id=unfinished).slow()
            placed.gate.set()
            with pytest.raises(OutcomeUnknown):
                await begun
            assert await again.place("pear") == 3
    assert placed.items == ["apple", "slow", "pear"]
