"""Durable addresses while nodes, networks, handlers and dead-letter topics break. Nothing is lost, and it is said."""

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, send
from tests.support.durable import (
    PublishingLoad,
    Worker,
    dead_letters,
    judge,
    read_diary,
    sometimes_failing,
    wait_for_all,
)
from tests.support.node import Node

from hutong.bus import BusClosed, DeliveryOptions, EventBus, Headers
from hutong.bus.durable import ConsumerStopped, PublishFailed, Retry
from hutong.bus.durable.kafka import KafkaLog
from hutong.bus.durable.message import DurableMessage
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import OwnerGone
from hutong.runtime.runtime import Runtime

pytestmark = [pytest.mark.fault, pytest.mark.timeout(300)]
TOPIC, GROUP, PARTITIONS = "orders", "billing", 4
DEADLINE_S = 60.0
QUICK: dict[str, Any] = {"reconnect.backoff.max.ms": 200, "log_level": 0}
SESSION: dict[str, Any] = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
HASTY = Retry(attempts=3, first_delay=0.01, delay_max=0.05)


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Iterator[Node]:
    with Node(tmp_path) as running:
        create_topic(running.address, TOPIC, partitions=PARTITIONS, records=0)
        yield running


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


@pytest.fixture
async def bus(node: Node, runtime: Runtime) -> AsyncIterator[EventBus]:
    async with EventBus(runtime, log=KafkaLog(node.address, settings=QUICK, consumer_settings=SESSION)) as bus:
        yield bus


class Seen:
    """Counts what was handled by body."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}
        self.news = asyncio.Event()

    def __call__(self, message: DurableMessage) -> None:
        self.counts[message.body] = self.counts.get(message.body, 0) + 1
        self.news.set()

    async def all_of(self, bodies: set[Any], deadline_s: float = DEADLINE_S) -> None:
        async with asyncio.timeout(deadline_s):
            while not bodies <= self.counts.keys():
                self.news.clear()
                await self.news.wait()


async def test_a_node_killed_under_load_loses_nothing(node: Node, tmp_path: pathlib.Path) -> None:
    retry = {"attempts": 4, "first_delay": 0.02}
    with Worker(tmp_path, address=node.address, topic=TOPIC, group=GROUP, retry=retry) as process:
        with PublishingLoad(node.address, TOPIC) as load:
            for _ in range(3):
                load.wait_for(2_000)
                node.kill()
                node.start()
            load.wait_for(2_000)
        wait_for_all(process.diary_path, load.stored, sometimes_failing, 90)
        assert process.stop() == 0
    verdict = judge(
        load.stored,
        sometimes_failing,
        read_diary(process.diary_path),
        dead_letters(node.address, f"{TOPIC}.{GROUP}.dead"),
        attempts=4,
        group=GROUP,
        first_delay_ms=20,
    )
    print(verdict)
    assert verdict.problems == []
    assert verdict.lives == 1, "the consumer outlives the node"
    assert verdict.messages >= 8_000


async def test_publishing_waits_for_a_broker_that_is_away(node: Node, bus: EventBus) -> None:
    seen = Seen()
    consumer = bus.consumer(f"topic:{TOPIC}", seen, group=GROUP)
    await bus.publish(f"topic:{TOPIC}", "before")
    await seen.all_of({"before"})
    node.stop()
    publication = bus.publish(f"topic:{TOPIC}", "meanwhile")
    await asyncio.to_thread(node.start)
    assert await publication is not None
    await seen.all_of({"meanwhile"})
    assert consumer.failure is None


async def test_publishing_fails_by_its_timeout(node: Node, bus: EventBus) -> None:
    await bus.publish(f"topic:{TOPIC}", "before")
    node.stop()
    with pytest.raises(PublishFailed, match="in time") as failed:
        await bus.publish(f"topic:{TOPIC}", "late", DeliveryOptions(timeout=0.5))
    assert failed.value.is_outcome_unknown
    assert bus.replies_waiting == 0
    await asyncio.to_thread(node.start)


@pytest.mark.thorough
async def test_closing_while_the_broker_is_away(node: Node, runtime: Runtime) -> None:
    bus = EventBus(runtime, log=KafkaLog(node.address, settings=QUICK, consumer_settings=SESSION))
    consumer = bus.consumer(f"topic:{TOPIC}", Seen(), group=GROUP)
    await consumer.ready()
    node.stop()
    publication = bus.publish(f"topic:{TOPIC}", "late")
    await bus.close()
    with pytest.raises((PublishFailed, OwnerGone)):
        await publication
    assert not consumer.is_registered


async def test_a_message_that_ends_its_process_is_given_up(node: Node, tmp_path: pathlib.Path) -> None:
    bodies = [{"id": number, "kills": number == 70} for number in range(100)]
    send(
        producer(node.address),
        TOPIC,
        [json.dumps(body).encode() for body in bodies],
        partition=0,
        headers={"content-type": "application/json"},
    )
    deaths = 0
    worker = Worker(tmp_path, address=node.address, topic=TOPIC, group=GROUP, member="one", retry={"crashes": 3})
    with worker:
        for _ in range(20):
            if await asyncio.to_thread(lambda: worker.has_ended_or(lambda: len(handled(worker)) == 99)):
                worker.wait_until_dead()
                deaths += 1
                worker.start()
            else:
                break
        assert worker.stop() == 0
    assert deaths == 5  # in the dark, among 32, and three times alone
    ((number, told),) = dead_letters(node.address, f"{TOPIC}.{GROUP}.dead")
    assert (number, told["error-type"], told["attempts"]) == (70, "ProcessEnded", "0")


def handled(worker: Worker) -> set[int]:
    return {line.id for line in read_diary(worker.diary_path) if line.what == "handled"}


async def test_a_handler_slower_than_the_poll_interval_keeps_its_partition(node: Node, tmp_path: pathlib.Path) -> None:
    with Worker(
        tmp_path,
        address=node.address,
        topic=TOPIC,
        group=GROUP,
        consumer_settings={"max.poll.interval.ms": 6_000},
    ) as worker:
        load = {number: {"id": number, "slow_ms": 8_000 if number == 1 else 0} for number in range(1, 5)}
        values = [json.dumps(body).encode() for body in load.values()]
        send(producer(node.address), TOPIC, values, partition=0, headers={"content-type": "application/json"})
        assert not await asyncio.to_thread(lambda: worker.has_ended_or(lambda: handled(worker) == set(load)))
        assert worker.stop() == 0
    assert [line.id for line in read_diary(worker.diary_path) if line.what == "begun"] == [1, 2, 3, 4], "once each"


async def test_a_rebalance_in_the_middle_of_retries(node: Node, bus: EventBus, runtime: Runtime) -> None:
    """Two members come and go while every message fails at first and buffers are full: each is handled, by somebody."""
    seen, may_handle = Seen(), asyncio.Event()

    async def handle(message: DurableMessage) -> None:
        await may_handle.wait()
        if message.attempt < 2 and message.body % 3 == 0:
            raise ValueError("not yet")
        seen(message)

    retry = Retry(attempts=5, first_delay=0.02)
    first = bus.consumer(f"topic:{TOPIC}", handle, group=GROUP, retry=retry, max_buffered_messages=20)
    await first.ready()
    for numbers in (range(300), range(300, 600)):
        # Nothing is handled until the second member has joined, so that there is something in hand and in buffers.
        may_handle.clear()
        for number in numbers:
            bus.publish(f"topic:{TOPIC}", number, DeliveryOptions(headers=Headers({"hutong-key": str(number)})))
        second = bus.consumer(f"topic:{TOPIC}", handle, group=GROUP, retry=retry, max_buffered_messages=20)
        await second.ready()
        may_handle.set()
        await seen.all_of({numbers[0]})
        await second.unregister()
    await seen.all_of(set(range(600)))
    assert first.failure is None
    assert first.buried_total == 0


async def test_a_dead_letter_that_is_refused_stops_the_consumer_and_loses_nothing(node: Node, runtime: Runtime) -> None:
    create_topic(node.address, "small", configs={"max.message.bytes": "10"}, records=0)
    told: list[BaseException] = []
    async with EventBus(runtime, log=KafkaLog(node.address, settings=QUICK, consumer_settings=SESSION)) as bus:
        for body in ("good", "bad", "later"):
            await bus.publish(f"topic:{TOPIC}", body, DeliveryOptions(headers=Headers({"hutong-key": "k"})))
        context = runtime.context()
        context.exception_handler = told.append
        ended = asyncio.Event()
        seen = Seen()

        def handle(message: DurableMessage) -> None:
            if message.body == "bad":
                raise ValueError("bad")
            seen(message)

        consumer = bus.consumer(
            f"topic:{TOPIC}", handle, group=GROUP, retry=HASTY, dead_letter="small", context=context
        )
        consumer.end_handler = ended.set
        await asyncio.wait_for(ended.wait(), DEADLINE_S)
        assert set(seen.counts) == {"good"}
        assert isinstance(consumer.failure, ConsumerStopped)
        assert "dead letter was refused" in str(consumer.failure)
        assert told == [consumer.failure]
        again = Seen()
        bus.consumer(f"topic:{TOPIC}", again, group=GROUP)
        await again.all_of({"bad", "later"})
        assert "good" not in again.counts


async def test_a_topic_that_is_not_there(tmp_path: pathlib.Path, runtime: Runtime) -> None:
    """Where the broker makes no topics by itself: publishing fails by name, a consumer waits until there is one."""
    with Node(tmp_path, "topic.auto_create=false") as node:
        log = KafkaLog(
            node.address, settings={**QUICK, "topic.metadata.propagation.max.ms": 500}, consumer_settings=SESSION
        )
        async with EventBus(runtime, log=log) as bus:
            with pytest.raises(PublishFailed) as failed:
                await bus.publish("topic:nowhere", 1)
            assert failed.value.code in ("_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")
            assert failed.value.is_hopeless
            seen = Seen()
            bus.consumer("topic:nowhere", seen, group=GROUP)
            create_topic(node.address, "nowhere", records=0)
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    try:
                        await bus.publish("topic:nowhere", 2)
                        break
                    except PublishFailed:
                        continue
            await seen.all_of({2})


async def test_no_broker_at_all(runtime: Runtime) -> None:
    log = KafkaLog("127.0.0.1:1", settings=QUICK, publish_timeout_ms=300)
    bus = EventBus(runtime, log=log)
    consumer = bus.consumer("topic:orders", print, group=GROUP)
    with pytest.raises(PublishFailed) as failed:
        await bus.publish("topic:orders", 1)
    assert failed.value.code == "_MSG_TIMED_OUT"
    async with asyncio.timeout(20):
        await bus.close()
        await bus.close()
    assert not consumer.is_registered
    with pytest.raises(BusClosed):
        await consumer.ready()
