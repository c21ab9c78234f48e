"""The event bus of an embedded node: from plain threads, from a test's own loop, over topics, and what is left."""

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hutong.bus.bus import EventBus
from hutong.bus.envelope.message import Message
from hutong.bus.errors import FailureType, ReplyError
from hutong.bus.options import DeliveryOptions
from hutong.testing import EmbeddedNode

WAIT_S = 10.0


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(topics=["orders"]) as node:
        yield node


@pytest.fixture
def bus(node: EmbeddedNode) -> Iterator[EventBus]:
    yield node.bus
    node.run(node.close_bus())


def test_plain_threads_send_and_ask(bus: EventBus) -> None:
    seen: queue.Queue[tuple[Any, str]] = queue.Queue()
    bus.consumer("orders", lambda message: seen.put((message.body, threading.current_thread().name)))
    bus.consumer("price", lambda message: message.reply(message.body * 2))
    bus.send("orders", 7)
    assert seen.get(timeout=WAIT_S) == (7, "hutong-node")
    assert bus.request("price", 21).result(WAIT_S).body == 42


async def test_a_loop_of_the_test_awaits_replies(bus: EventBus) -> None:
    async def priced(message: Message) -> None:
        await asyncio.sleep(0)
        message.reply(message.body * 2)

    bus.consumer("price", priced)
    replies = await asyncio.gather(*(bus.request("price", number) for number in range(10)))
    assert [reply.body for reply in replies] == [2 * number for number in range(10)]


async def test_a_loop_of_the_test_reads_a_consumer(bus: EventBus) -> None:
    consumer = bus.consumer("orders")
    for number in range(5):
        bus.send("orders", number)
    read = []
    async for message in consumer:
        read.append(message.body)
        if len(read) == 5:
            break
    assert read == [0, 1, 2, 3, 4]


def test_failures_are_typed(bus: EventBus) -> None:
    with pytest.raises(ReplyError) as nobody:
        bus.request("nobody").result(WAIT_S)
    assert nobody.value.failure_type is FailureType.NO_HANDLERS
    bus.consumer("silent", lambda message: None)
    with pytest.raises(ReplyError) as silent:
        bus.request("silent", None, DeliveryOptions(timeout=0.02)).result(WAIT_S)
    assert silent.value.failure_type is FailureType.TIMEOUT
    bus.consumer("refuses", lambda message: message.fail(402, "no money"))
    with pytest.raises(ReplyError) as refused:
        bus.request("refuses").result(WAIT_S)
    assert (refused.value.failure_type, refused.value.failure_code) == (FailureType.RECIPIENT_FAILURE, 402)


def test_a_bus_ends_with_its_test_and_the_next_has_no_consumers(node: EmbeddedNode) -> None:
    first = node.bus
    first.consumer("orders", lambda message: None)
    assert node.bus is first
    node.run(node.close_bus())
    second = node.bus
    assert second is not first
    with pytest.raises(ReplyError):
        second.request("orders").result(WAIT_S)


def test_the_bus_outlives_the_death_of_the_broker(node: EmbeddedNode, bus: EventBus) -> None:
    bus.consumer("price", lambda message: message.reply(message.body))
    node.kill()
    assert bus.request("price", 1).result(WAIT_S).body == 1
    node.start()


def test_a_handler_may_use_the_node_but_not_block_its_thread(node: EmbeddedNode, bus: EventBus) -> None:
    async def store(message: Message) -> None:
        with pytest.raises(RuntimeError, match=r"which would wait for itself: write `await node\.aio"):
            node.produce("orders", message.body)
        with node.faults.refuse_requests("Fetch"):
            (record,) = await node.aio.produce("orders", message.body)
        message.reply(record.offset)

    bus.consumer("store", store)
    before = len(node.records("orders"))
    assert bus.request("store", "x").result(WAIT_S).body == before
    assert len(node.records("orders")) == before + 1


def framed(message: dict[str, Any]) -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "big") + text


def test_clients_of_a_bridge_are_on_the_bus_of_the_node() -> None:
    settings = {"tcp_bridge.listen": "127.0.0.1:0", "bridge.permit_in": "price"}
    with EmbeddedNode(settings=settings) as node:
        assert node.sockjs is None
        assert node.tcp_bridge is not None
        node.bus.consumer("price", lambda message: message.reply(message.body * 2))
        host, port = node.tcp_bridge.split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as client, client.makefile("rb") as answers:
            client.sendall(framed({"type": "send", "address": "price", "replyAddress": "r", "body": 21}))
            answer = json.loads(answers.read(int.from_bytes(answers.read(4), "big")))
        assert (answer["type"], answer["address"], answer["body"]) == ("message", "r", 42)
        bus = node.bus
        node.run(node.close_bus())
        assert node.bus is not bus
        assert node.is_running


def test_nothing_is_left_of_a_bus() -> None:
    threads = set(threading.enumerate())
    with EmbeddedNode(topics=["orders"]) as node:
        node.bus.consumer("silent", lambda message: None)
        reply = node.bus.request("silent")
    with pytest.raises(ReplyError):
        reply.result(WAIT_S)
    with pytest.raises(RuntimeError, match="not open"):
        _ = node.bus
    assert set(threading.enumerate()) == threads
