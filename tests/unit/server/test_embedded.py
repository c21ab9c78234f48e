"""`hutong.Node`: a node inside a program."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import hutong
from hutong.bus.envelope.message import Message
from hutong.bus.errors import FailureType, ReplyError
from hutong.foundation.errors import UsageError
from hutong.runtime import ContextKind, DeploymentOptions, Verticle, current_context
from hutong.server.broker.broker_part import BrokerPart
from hutong.server.broker.broker_verticle import BrokerVerticle
from hutong.server.configuration import loader
from hutong.server.serving import node_of

TCP_FRAME = b'{"type":"send","address":"echo","replyAddress":"r","body":7}'
TCP_REQUEST = len(TCP_FRAME).to_bytes(4, "big") + TCP_FRAME


class Echo(Verticle):
    """Answers what it is asked."""

    def __init__(self, node: hutong.Node, ended: list[str]) -> None:
        self.node = node
        self.ended = ended

    async def start(self) -> None:
        self.node.bus.consumer("echo", lambda message: message.reply(message.body))

    async def stop(self) -> None:
        self.ended.append(str((await self.node.bus.request("echo", "still there")).body))


async def test_clients_of_both_bridges_join_its_bus() -> None:
    anywhere, settings = "127.0.0.1:0", {"sockjs.prefix": "/bus"}
    async with hutong.Node(tcp_bridge=anywhere, sockjs=anywhere, permit_in=["echo"], settings=settings) as node:
        node.bus.consumer("echo", lambda message: message.reply(message.body))
        assert node.tcp_bridge is not None
        assert node.sockjs is not None
        for address, words, answer in (
            (node.tcp_bridge, TCP_REQUEST, b'"body":7'),
            (node.sockjs, b"GET /bus/info HTTP/1.1\r\nHost: localhost\r\n\r\n", b'"websocket":true'),
        ):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(words)
            assert (await asyncio.wait_for(reader.readuntil(answer), 10)).endswith(answer)
            writer.close()
            await writer.wait_closed()


async def test_a_node_has_a_bus_and_verticles_that_end_before_it() -> None:
    ended: list[str] = []
    async with hutong.Node() as node:
        await node.runtime.deploy(lambda: Echo(node, ended))
        assert (await node.bus.request("echo", 7)).body == 7
        assert node.kafka is None
    assert ended == ["still there"]
    assert not any(thread.name.startswith(("hutong-", "loop-")) for thread in threading.enumerate())


@pytest.mark.parametrize("kind", list(ContextKind))
async def test_what_a_verticle_registers_runs_in_its_context_and_ends_with_it(kind: ContextKind) -> None:
    class Where(Verticle):
        async def start(self) -> None:
            node.bus.consumer("plain", lambda message: message.reply(self.context.is_current))
            node.bus.consumer("coroutine", self.answer)
            self.context.set_timer(60, print)

        async def answer(self, message: Message) -> None:
            await asyncio.sleep(0)
            message.reply(self.context.is_current and current_context() is self.context)

    async with hutong.Node(event_loops=2) as node:
        deployment = await node.runtime.deploy(Where, DeploymentOptions(kind=kind, instances=2))
        for address in ("plain", "coroutine") * 2:
            assert (await node.bus.request(address)).body is True
        await node.runtime.undeploy(deployment)
        for address in ("plain", "coroutine"):
            with pytest.raises(ReplyError) as failure:
                await node.bus.request(address)
            assert failure.value.failure_type is FailureType.NO_HANDLERS


def test_a_node_without_a_broker_imports_none() -> None:
    script = """
import asyncio, sys, hutong
async def main():
    async with hutong.Node() as node:
        node.bus.consumer("echo", lambda message: message.reply(message.body))
        assert (await node.bus.request("echo", 7)).body == 7
asyncio.run(main())
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    rooms = {".".join(name.split(".")[:2]) for name in done.stdout.split() if name.startswith("hutong")}
    assert not rooms & {"hutong.broker", "hutong.journal", "hutong.groups", "hutong.wire", "hutong.cli"}
    assert not {"confluent_kafka", "typer", "rich", "uvloop"} & set(done.stdout.split())


async def test_a_broker_that_is_asked_for_serves_kafka_and_goes_with_its_data() -> None:
    async with hutong.Node(kafka="127.0.0.1:0") as node:
        producer = Producer({"bootstrap.servers": node.kafka})
        producer.produce("orders", b"one")
        assert await asyncio.to_thread(producer.flush, 10) == 0
        [broker] = [verticle for on in node.runtime.deployments for verticle in on.verticles if on.name == "broker"]
        assert isinstance(broker, BrokerVerticle)
        assert broker._data_dir is not None
        folder = broker._data_dir.path
        assert folder.exists()
    assert not folder.exists()


async def test_the_collector_of_the_program_stays_as_it_is() -> None:
    """Thresholds, callbacks and frozen objects belong to the process, and so to the program."""
    before = gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)
    async with hutong.Node(kafka="127.0.0.1:0", metrics="127.0.0.1:0"):
        assert (gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)) == before
    assert (gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)) == before


async def test_a_folder_is_kept(tmp_path: Path) -> None:
    for number in range(2):
        async with hutong.Node(tmp_path, settings={"group.initial_rebalance_delay_ms": "0"}) as node:
            if number == 0:
                producer = Producer({"bootstrap.servers": node.kafka})
                producer.produce("orders", b"one")
                assert await asyncio.to_thread(producer.flush, 10) == 0
                continue
            options = {"bootstrap.servers": node.kafka, "group.id": "g", "auto.offset.reset": "earliest"}
            consumer = Consumer(options)
            consumer.subscribe(["orders"])
            message = await asyncio.to_thread(consumer.poll, 20)
            assert message is not None
            assert message.value() == b"one"
            await asyncio.to_thread(consumer.close)


async def test_bridges_that_the_settings_open_are_on_the_same_bus() -> None:
    settings = {"tcp_bridge.listen": "127.0.0.1:0", "bridge.permit_in": "echo"}
    async with hutong.Node(kafka="127.0.0.1:0", settings=settings) as node:
        node.bus.consumer("echo", lambda message: message.reply(message.body))
        assert node.tcp_bridge is not None
        assert node.sockjs is None
        host, port = node.tcp_bridge.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        frame = b'{"type":"send","address":"echo","replyAddress":"mine","body":7}'
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert json.loads(answer)["body"] == 7
        writer.close()
        await writer.wait_closed()


async def test_a_node_that_serves_has_the_runtime_that_its_settings_ask_for(tmp_path: Path) -> None:
    flags = {"runtime.event_loops": "2", "runtime.worker_threads": "3", "runtime.blocked_loop_ms": "500"}
    flags |= {"node.data_dir": str(tmp_path), "kafka.listen": "127.0.0.1:0"}
    settings = loader.load(environment={}, flags=flags).settings
    node = node_of(BrokerPart(settings))
    await node.start()
    runtime = node.runtime
    contexts = [runtime.context() for _ in range(2)]
    assert {context.home.name for context in contexts} == {"loop-0", "loop-1"}
    assert contexts[0].pool.size == 3
    assert runtime.blocked_threads is not None
    assert runtime.blocked_threads.limits.loop_ms == 500
    await node.stop()


async def test_what_cannot_be_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no settings; give it data_dir, kafka, metrics, tcp_bridge or sockjs"):
        hutong.Node(settings={"log.retention_ms": "1"})
    with pytest.raises(UsageError, match=r"runtime\.event_loops is not for a node inside a program"):
        hutong.Node(kafka="127.0.0.1:0", settings={"runtime.event_loops": "2"})
    async with hutong.Node(tmp_path) as node:
        with pytest.raises(UsageError, match="in use by another node"):
            async with hutong.Node(tmp_path):
                pass
        with pytest.raises(UsageError, match=f"Cannot listen on {node.kafka}"):
            async with hutong.Node(kafka=node.kafka):
                pass
        with pytest.raises(UsageError, match=r"log\.retention_days"):
            async with hutong.Node(kafka="127.0.0.1:0", settings={"log.retention_days": "1"}):
                pass
    assert not any(thread.name.startswith("hutong-") for thread in threading.enumerate())


def test_the_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Knot'"):
        hutong.Knot  # noqa: B018


async def test_a_node_without_a_broker_may_have_its_log_elsewhere() -> None:
    async with hutong.Node(log="kafka://127.0.0.1:1,[::1]:2") as node:
        assert node.kafka is None
        table = node.bus.table("calls")
        assert table.topic == "calls"
        with pytest.raises(UsageError, match="name of a topic"):
            node.bus.table("a/b")


@pytest.mark.parametrize("log", ["127.0.0.1:9092", "kafka://", "kafka://host", "kafka://h:1,", "http://h:1"])
async def test_a_log_that_is_none_is_refused(log: str) -> None:
    with pytest.raises(UsageError, match="kafka://HOST:PORT"):
        async with hutong.Node(log=log):
            pass
    with pytest.raises(UsageError, match="kafka://HOST:PORT"):
        loader.load(environment={"HUTONG_BUS_LOG": log})


async def test_a_broker_may_have_the_log_of_its_bus_elsewhere() -> None:
    async with (
        hutong.Node(kafka="127.0.0.1:0") as there,
        hutong.Node(kafka="127.0.0.1:0", log=f"kafka://{there.kafka}") as node,
    ):
        assert await node.bus.publish("topic:orders", "hello")
        assert node.kafka is not None
        consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "g"})
        assert "orders" not in (await asyncio.to_thread(consumer.list_topics, timeout=10)).topics
        consumer.close()
