"""Durable addresses against a real node: what is published is handled, tried again, given up; also by other clients."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable

import pytest
from bench.raw_client import create_topic
from tests.support.confluent import producer, read_partition, send
from tests.support.node import Node

from hutong.bus import DeliveryOptions, EventBus, Headers
from hutong.bus.durable import ConsumerStopped, Order, PublishFailed, Retry, Stored
from hutong.bus.durable.kafka import KafkaLog
from hutong.bus.durable.message import DurableMessage
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import LimitExceeded, UsageError
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime

HASTY = Retry(attempts=3, first_delay=0.01, delay_max=0.05)
DEADLINE_S = 30.0
_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    return f"durable-{next(_numbers)}"


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(SystemClock()) as runtime:
        yield runtime


@pytest.fixture
async def bus(node: Node, runtime: Runtime) -> AsyncIterator[EventBus]:
    async with EventBus(runtime, log=KafkaLog(node.address)) as bus:
        yield bus
        assert bus.replies_waiting == 0, "a test leaves nothing awaited"


class Seen:
    """A handler that remembers, fails what it is told to, and says when enough came."""

    def __init__(self, *fails: object) -> None:
        self.messages: list[DurableMessage] = []
        self._fails = fails
        self._news = asyncio.Event()

    def __call__(self, message: DurableMessage) -> None:
        self.messages.append(message)
        self._news.set()
        if message.body in self._fails:
            raise ValueError(f"not {message.body}")

    @property
    def bodies(self) -> list[object]:
        return [message.body for message in self.messages]

    async def count(self, count: int) -> list[object]:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.messages) < count:
                self._news.clear()
                await self._news.wait()
        return self.bodies


async def dead_letters(bus: EventBus, topic: str, count: int) -> list[DurableMessage]:
    seen = Seen()
    async with bus.consumer(f"topic:{topic}", seen, group="repair"):
        await seen.count(count)
    return seen.messages


async def test_what_is_published_is_handled_in_order(bus: EventBus, topic: str) -> None:
    stored = await bus.publish(f"topic:{topic}", {"n": 0})
    assert stored == Stored(topic, 0, 0)
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    for number in range(1, 10):
        await bus.publish(f"topic:{topic}", {"n": number})
    assert await seen.count(10) == [{"n": number} for number in range(10)]
    message = seen.messages[9]
    assert (message.topic, message.partition, message.offset, message.attempt) == (topic, 0, 9, 1)
    assert (message.is_send, message.reply_address, message.address) == (False, None, f"topic:{topic}")
    assert message.timestamp_ms > 1_700_000_000_000


@pytest.mark.parametrize("body", [None, b"\x00\xff", b"", "", "Grüße", 7, 1.5, True, [1, {"a": None}], {"b": "c"}])
async def test_bodies_come_back_as_they_were(bus: EventBus, topic: str, body: object) -> None:
    await bus.publish(f"topic:{topic}", body)
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    assert await seen.count(1) == [body]
    assert type(seen.bodies[0]) is type(body)


async def test_headers_keep_order_and_repetition_and_the_key_is_the_records(bus: EventBus, topic: str) -> None:
    headers = Headers([("trace", "1"), ("Trace", "2"), ("hutong-key", "customer-7")])
    await bus.publish(f"topic:{topic}", "x", DeliveryOptions(headers=headers))
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    await seen.count(1)
    message = seen.messages[0]
    assert message.headers.get_all("trace") == ["1", "2"]
    assert message.key == b"customer-7"
    assert message.headers.get("hutong-key") is None


async def test_a_failed_message_is_tried_again_and_then_a_dead_letter(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", "good")
    await bus.publish(f"topic:{topic}", "bad", DeliveryOptions(headers=Headers({"trace": "1", "hutong-key": "k"})))
    await bus.publish(f"topic:{topic}", "better")
    seen = Seen("bad")
    consumer = bus.consumer(f"topic:{topic}", seen, group="billing", retry=HASTY)
    assert await seen.count(5) == ["good", "bad", "bad", "bad", "better"]
    assert [message.attempt for message in seen.messages] == [1, 1, 2, 3, 1]
    (dead,) = await dead_letters(bus, f"{topic}.billing.dead", 1)
    assert (dead.body, dead.key, dead.headers.get("trace")) == ("bad", b"k", "1")
    told = {name.removeprefix("hutong-dead-"): dead.headers.get(name) for name in dead.headers if "dead" in name}
    first_ms, last_ms = int(told.pop("first-failure-ms") or 0), int(told.pop("last-failure-ms") or 0)
    assert told == {
        "error-type": "ValueError",
        "error-message": "not bad",
        "attempts": "3",
        "group": "billing",
        "topic": topic,
        "partition": "0",
        "offset": "1",
        "timestamp-ms": str(seen.messages[1].timestamp_ms),
    }
    assert last_ms - first_ms >= 20
    assert (consumer.handled_total, consumer.failed_total, consumer.buried_total) == (2, 3, 1)


async def test_a_coroutine_handler_fails_and_succeeds_at_its_end(bus: EventBus, topic: str) -> None:
    attempts: list[int] = []
    handled = asyncio.Event()

    async def handle(message: DurableMessage) -> None:
        await asyncio.sleep(0)
        attempts.append(message.attempt)
        if message.attempt < 3:
            raise ValueError("not yet")
        handled.set()

    bus.consumer(f"topic:{topic}", handle, group="billing", retry=HASTY)
    await bus.publish(f"topic:{topic}", 1)
    await asyncio.wait_for(handled.wait(), DEADLINE_S)
    assert attempts == [1, 2, 3]


async def test_fail_counts_as_a_failure_and_retry_after_sets_the_pause(bus: EventBus, topic: str) -> None:
    def handle(message: DurableMessage) -> None:
        message.retry_after(0)
        message.fail(42, "no stock")

    retry = Retry(attempts=2, first_delay=60, delay_max=60)
    bus.consumer(f"topic:{topic}", handle, group="billing", retry=retry, dead_letter="sold-out")
    await bus.publish(f"topic:{topic}", 1)
    (dead,) = await dead_letters(bus, "sold-out", 1)
    assert dead.headers.get("hutong-dead-error-type") == "HandlerFailed"
    assert dead.headers.get("hutong-dead-error-message") == "no stock (code 42)"
    with pytest.raises(UsageError, match="durable"):
        dead.reply("thanks")
    with pytest.raises(ValueError, match="pause"):
        dead.retry_after(-1)


async def test_a_group_goes_on_where_it_left_off(bus: EventBus, topic: str) -> None:
    for turn in range(3):
        await bus.publish(f"topic:{topic}", turn)
        seen = Seen()
        consumer = bus.consumer(f"topic:{topic}", seen, group="billing")
        assert await seen.count(1) == [turn]
        await consumer.unregister()
        assert not consumer.is_registered


async def test_every_group_has_every_message(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", "x")
    for group in ("billing", "shipping"):
        seen = Seen()
        bus.consumer(f"topic:{topic}", seen, group=group)
        assert await seen.count(1) == ["x"]


async def test_a_group_may_begin_with_what_is_new(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", "old")
    seen = Seen()
    consumer = bus.consumer(f"topic:{topic}", seen, group="billing", start="latest")
    await consumer.ready()
    await bus.publish(f"topic:{topic}", "new")
    assert await seen.count(1) == ["new"]


async def test_async_for_handles_a_message_by_asking_for_the_next(bus: EventBus, topic: str) -> None:
    for number in range(4):
        await bus.publish(f"topic:{topic}", number)
    bodies = []
    async with bus.consumer(f"topic:{topic}", group="billing", retry=HASTY) as consumer:
        async for message in consumer:
            bodies.append((message.body, message.attempt))
            if message.body == 1 and message.attempt == 1:
                message.fail(1)
            if message.body == 3:
                break  # and so it is not handled
    assert bodies == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1)]
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    assert await seen.count(1) == [3]


async def test_async_for_ends_when_the_consumer_is_unregistered(bus: EventBus, topic: str) -> None:
    consumer = bus.consumer(f"topic:{topic}", group="billing")
    bus.publish(f"topic:{topic}", 1)
    bodies = []
    async for message in consumer:
        bodies.append(message.body)
        consumer.unregister()
    assert bodies == [1]


async def test_pause_fetch_and_resume(bus: EventBus, topic: str) -> None:
    for number in range(5):
        await bus.publish(f"topic:{topic}", number)
    seen = Seen()
    consumer = bus.consumer(f"topic:{topic}", seen, group="billing").pause().fetch(2)
    assert await seen.count(2) == [0, 1]
    consumer.resume()
    assert await seen.count(5) == [0, 1, 2, 3, 4]


async def test_by_key_others_go_on_while_one_waits(bus: EventBus, topic: str) -> None:
    for key, body in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")]:
        await bus.publish(f"topic:{topic}", body, DeliveryOptions(headers=Headers({"hutong-key": key})))
    seen = Seen("a1")
    bus.consumer(f"topic:{topic}", seen, group="billing", order=Order.KEY, retry=Retry(attempts=2, first_delay=0.3))
    assert await seen.count(5) == ["a1", "b1", "b2", "a1", "a2"]


async def test_a_handler_in_a_worker_context(bus: EventBus, runtime: Runtime, topic: str) -> None:
    worker = runtime.context(ContextKind.WORKER)
    seen: list[object] = []
    handled = asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(message: DurableMessage) -> None:
        seen.append(message.body)
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        if len(seen) == 5:
            loop.call_soon_threadsafe(handled.set)

    bus.consumer(f"topic:{topic}", handle, group="billing", context=worker)
    for number in range(5):
        bus.publish(f"topic:{topic}", number)
    await asyncio.wait_for(handled.wait(), DEADLINE_S)
    assert seen == [0, 1, 2, 3, 4]


async def test_plain_clients_read_and_write_the_same_topic(bus: EventBus, node: Node, topic: str) -> None:
    await bus.publish(f"topic:{topic}", {"by": "bus"})
    (message,) = read_partition(node.address, topic)
    assert message.value() == b'{"by":"bus"}'
    assert message.headers() == [("content-type", b"application/json")]
    send(producer(node.address), topic, [b"raw"], headers=[("h", b"\xff"), ("none", None)])
    send(producer(node.address), topic, [b'{"a": 1}'], headers={"Content-Type": "application/json; charset=utf-8"})
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    assert await seen.count(3) == [{"by": "bus"}, b"raw", {"a": 1}]
    assert seen.messages[1].headers.items() == [("h", "\ufffd"), ("none", "")]


async def test_a_body_that_is_not_what_it_says_is_a_dead_letter_at_once(bus: EventBus, node: Node, topic: str) -> None:
    send(producer(node.address), topic, [b"{", b"[" * 100_000], headers={"content-type": "application/json"})
    send(producer(node.address), topic, [b"\xff"], headers={"content-type": "text/plain"})
    await bus.publish(f"topic:{topic}", "good")
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    assert await seen.count(1) == ["good"]
    letters = read_partition(node.address, f"{topic}.billing.dead")
    assert [letter.value() for letter in letters] == [b"{", b"[" * 100_000, b"\xff"]
    assert {dict(letter.headers() or [])["hutong-dead-error-type"] for letter in letters} == {b"UnreadableBody"}


async def test_a_dead_letter_that_dies_again_tells_of_its_last_death(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", "bad")
    once = Retry(attempts=1)
    bus.consumer(f"topic:{topic}", Seen("bad"), group="billing", retry=once, dead_letter=f"{topic}-1")
    bus.consumer(f"topic:{topic}-1", Seen("bad"), group="again", retry=once, dead_letter=f"{topic}-2")
    (dead,) = await dead_letters(bus, f"{topic}-2", 1)
    assert dead.headers.get_all("hutong-dead-group") == ["again"]
    assert dead.headers.get_all("hutong-dead-topic") == [f"{topic}-1"]


async def test_without_dead_letters_a_message_that_is_given_up_stops_the_consumer(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", "good")
    await bus.publish(f"topic:{topic}", "bad")
    consumer = bus.consumer(f"topic:{topic}", group="billing", retry=Retry(attempts=1), dead_letter=None)

    async def handle_all() -> None:
        async for message in consumer:
            if message.body == "bad":
                message.fail(1, "no")

    with pytest.raises(ConsumerStopped, match=r"offset 1.*failed 1 times.*no dead-letter topic"):
        await asyncio.wait_for(handle_all(), DEADLINE_S)
    seen = Seen()
    bus.consumer(f"topic:{topic}", seen, group="billing")
    assert await seen.count(1) == ["bad"], "it stays in the log"


async def test_too_much_under_way_is_refused_and_nothing_is_lost(node: Node, runtime: Runtime, topic: str) -> None:
    async with EventBus(runtime, log=KafkaLog(node.address, publish_in_flight_max=10)) as bus:
        under_way: list[Awaitable[Stored | None]] = []

        def publish_without_waiting() -> None:
            for number in range(10_000):
                under_way.append(bus.publish(f"topic:{topic}", number))  # noqa: PERF401  # kept when one is refused

        with pytest.raises(LimitExceeded, match="publish_in_flight_max is 10"):
            publish_without_waiting()
        stored = [await publication for publication in under_way]
    assert [place.offset for place in stored if place is not None] == list(range(len(under_way)))


async def test_a_record_that_is_too_large_fails_by_its_name(bus: EventBus, topic: str) -> None:
    await bus.publish(f"topic:{topic}", b"")
    for size in (1_500_000, 3_000_000):  # refused by the broker, and by the client library
        with pytest.raises(PublishFailed) as failed:
            await bus.publish(f"topic:{topic}", bytes(size))
        assert failed.value.code == "MSG_SIZE_TOO_LARGE"
        assert failed.value.is_hopeless
        assert not failed.value.is_outcome_unknown


async def test_publishing_from_a_plain_thread(bus: EventBus, topic: str) -> None:
    stored = await asyncio.to_thread(lambda: bus.publish(f"topic:{topic}", 1).result(DEADLINE_S))  # type: ignore[attr-defined]
    assert stored == Stored(topic, 0, 0)


async def test_two_members_share_the_partitions(bus: EventBus, node: Node, topic: str) -> None:
    """In the end, that is: who comes second is given its share in two steps, and until then the first has all."""
    create_topic(node.address, topic, partitions=4, records=0)
    both, shares = Seen(), (set[int](), set[int]())

    async def join(share: set[int]) -> None:
        def handle(message: DurableMessage) -> None:
            share.add(message.partition)
            both(message)

        await bus.consumer(f"topic:{topic}", handle, group="billing").ready()

    async def handled_by_each(numbers: range) -> tuple[set[int], set[int]]:
        for share in shares:
            share.clear()
        for number in numbers:
            await bus.publish(f"topic:{topic}", number, DeliveryOptions(headers=Headers({"hutong-key": str(number)})))
        while not both.bodies or not set(numbers) <= set(both.bodies):
            await both.count(len(both.messages) + 1)
        return shares

    for share in shares:
        await join(share)
    async with asyncio.timeout(DEADLINE_S):
        for begin in itertools.count(0, 40):
            one, other = await handled_by_each(range(begin, begin + 40))
            if one and other and not one & other:
                break
    assert one | other == {0, 1, 2, 3}


async def test_a_durable_consumer_is_a_decorator(bus: EventBus, topic: str) -> None:
    handled = asyncio.Event()

    consumer = bus.consumer(f"topic:{topic}", group="billing")

    @consumer
    async def bill(message: DurableMessage) -> None:
        if message.body == "first":
            handled.set()

    await bus.publish(f"topic:{topic}", "first")
    await asyncio.wait_for(handled.wait(), DEADLINE_S)
    with pytest.raises(UsageError, match="has a handler already"):
        consumer(bill)
