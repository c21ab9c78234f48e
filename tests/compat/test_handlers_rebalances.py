"""Members of a handler's group that come and go on a real node: nothing is lost, and keys keep their order."""

import asyncio
from typing import Any

import msgspec
import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, read_partition

from hutong.handlers import App, HandlingHalted, MessageContext

CUSTOMERS = 8
ORDERS = 200
DEADLINE_S = 60


class Order(msgspec.Struct):
    number: int


class Story:
    """The orders of one test: sent by confluent-kafka, handled by members that tell of it."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self.sent = 0
        self.seen: list[int] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._options = options
        self._told = asyncio.Event()

    def member(self) -> App:
        app = App(self._bootstrap, consumer_settings={"heartbeat.interval.ms": 200})

        @app.topic(self._topic, group=self._topic, concurrency=4, **self._options)
        async def handle(order: Order, context: MessageContext) -> Order:
            await asyncio.sleep(0)
            assert context.key == b"customer-%d" % (order.number % CUSTOMERS)
            self.seen.append(order.number)
            self._told.set()
            return order

        return app

    async def send(self) -> None:
        await asyncio.to_thread(self._send, self.sent)
        self.sent += ORDERS

    def _send(self, first: int) -> None:
        sender = producer(self._bootstrap)
        for number in range(first, first + ORDERS):
            sender.produce(self._topic, b'{"number": %d}' % number, b"customer-%d" % (number % CUSTOMERS))
            sender.poll(0)
        assert sender.flush(30) == 0

    async def until_seen(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(set(self.seen)) < count:
                self._told.clear()
                await self._told.wait()


@pytest.mark.parametrize("is_exactly_once", [False, True])
async def test_members_come_and_go(bootstrap: str, wide_topic: str, is_exactly_once: bool) -> None:
    results = f"{wide_topic}-out"
    await asyncio.to_thread(create_topic, bootstrap, results, records=0)
    story = Story(bootstrap, wide_topic, to=results, exactly_once=is_exactly_once)
    async with story.member().running():
        await story.send()
        await story.until_seen(10)
        async with story.member().running() as joined, asyncio.timeout(DEADLINE_S):
            while not joined.consumers[0].handled_total:  # the group gives it a share, sooner or later
                await story.send()
                await story.until_seen(story.sent - ORDERS // 2)
            await story.send()
        await story.send()
        await story.until_seen(story.sent)
    for customer in range(CUSTOMERS):
        # Where something came twice, its second time is left out.
        first_times = dict.fromkeys(number for number in story.seen if number % CUSTOMERS == customer)
        assert list(first_times) == sorted(first_times)
    # Committed on leaving: another member finds nothing left.
    records = await asyncio.to_thread(read_partition, bootstrap, results, isolation_level="read_committed")
    written = sorted(msgspec.json.decode(record.value() or b"")["number"] for record in records)
    assert sorted(set(written)) == list(range(story.sent))
    if is_exactly_once:
        assert written == list(range(story.sent))


async def test_a_refused_log_in_halts_the_app(bootstrap: str, wide_topic: str) -> None:
    story = Story(bootstrap, wide_topic)
    app = story.member()
    app.settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "b",
    }
    async with app.running() as running, asyncio.timeout(DEADLINE_S):
        with pytest.raises(HandlingHalted, match="handle stopped"):
            await running.until_halted_or(asyncio.Event())
