"""Handlers at work on a node in this process: all that an app does, seen by what comes out."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hutong.bus.errors import ReplyError
from hutong.foundation.errors import UsageError
from hutong.handlers import App, MessageContext, Output, RejectMessage, Retry
from hutong.testing import EmbeddedNode

HASTY = Retry(attempts=3, first_delay=0.01, jitter=0)


class Order(msgspec.Struct):
    number: int
    customer: str = "ann"


class Invoice(msgspec.Struct):
    order: int


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode() as node:
        yield node


@pytest.fixture
def app() -> App:
    return App("unused:1")


def text(record: Any, name: str) -> str:
    return bytes(record.header(name) or b"").decode()


def test_a_result_is_written_under_the_key_of_its_message(app: App, node: EmbeddedNode) -> None:
    seen: list[tuple[str, bytes | None, str | None, int]] = []

    @app.topic("results-in", group="billing", to="results-out")
    async def bill(order: Order, context: MessageContext) -> Invoice:
        seen.append((context.topic, context.key, context.headers.get("TRACE"), context.offset))
        assert (context.partition, context.attempt) == (0, 1)
        assert context.timestamp_ms > 0
        return Invoice(order.number)

    with app.test(node=node) as test:
        test.produce("results-in", Order(7), key="ann", headers={"trace": "4bf9"})
        [record] = test.records("results-out", 1)
    assert (record.json(), record.key) == ({"order": 7}, b"ann")
    assert text(record, "content-type") == "application/json"
    assert seen == [("results-in", b"ann", "4bf9", 0)]


def test_failures_are_tried_again_and_then_put_aside_with_their_reason(app: App, node: EmbeddedNode) -> None:
    attempts: list[int] = []

    @app.topic("failures", group="billing", retries=HASTY, dead_letters="failures.dead")
    async def bill(order: Order, context: MessageContext) -> None:
        attempts.append(context.attempt)
        raise ValueError(f"no order {order.number}")

    with app.test(node=node) as test:
        test.produce("failures", Order(3), key="bob")
        test.handled()
        [dead] = test.records("failures.dead", 1)
    assert attempts == [1, 2, 3]
    assert (dead.json()["number"], dead.key) == (3, b"bob")
    told = {name: text(dead, f"hutong-dead-{name}") for name in ("error-type", "error-message", "attempts", "group")}
    assert told == {"error-type": "ValueError", "error-message": "no order 3", "attempts": "3", "group": "billing"}
    where = [text(dead, f"hutong-dead-{name}") for name in ("topic", "partition", "offset")]
    assert where == ["failures", "0", "0"]


def test_what_cannot_be_decoded_or_is_rejected_is_put_aside_at_once(app: App, node: EmbeddedNode) -> None:
    attempts: list[int] = []

    @app.topic("rejects", group="billing", dead_letters="rejects.dead")
    async def bill(order: Order) -> None:
        attempts.append(order.number)
        if order.number == 2:
            raise RejectMessage("sold out")

    with app.test(node=node) as test:
        test.produce("rejects", b"{", Order(2), None, Order(3))
        test.handled()
        dead = test.records("rejects.dead", 3)
    assert attempts == [2, 3]
    kinds = sorted(text(record, "hutong-dead-error-type") for record in dead)
    assert kinds == ["RejectMessage", "UndecodableMessage", "UndecodableMessage"]


def test_batches(app: App, node: EmbeddedNode) -> None:
    batches: list[list[int]] = []

    @app.topic("batches", group="billing", batch=3, batch_wait=0.05, to="batches-out")
    async def bill(orders: list[Order], contexts: list[MessageContext]) -> list[Output]:
        batches.append([order.number for order in orders])
        assert [context.offset for context in contexts] == batches[-1]
        return [Output(Invoice(order.number), key=order.customer, headers=[("of", "a batch")]) for order in orders]

    node.create_topic("batches")
    node.produce("batches", *(msgspec.json.encode(Order(number)) for number in range(7)))
    with app.test(node=node) as test:
        test.handled()
        records = test.records("batches-out", 7)
    assert batches == [[0, 1, 2], [3, 4, 5], [6]]
    assert [(record.json()["order"], record.key, text(record, "of")) for record in records] == [
        (number, b"ann", "a batch") for number in range(7)
    ]


def test_keys_are_handled_at_the_same_time_each_in_its_order(app: App, node: EmbeddedNode) -> None:
    seen: list[tuple[str, int]] = []
    at_once = asyncio.Event()

    @app.topic("keys", group="billing", concurrency=2)
    async def bill(order: Order) -> None:
        seen.append((order.customer, order.number))
        if {"ann", "bob"} <= {customer for customer, _ in seen}:
            at_once.set()
        await at_once.wait()

    with app.test(node=node) as test:
        for number in range(3):
            test.produce("keys", Order(number, "ann"), key="ann")
        test.produce("keys", Order(9, "bob"), key="bob")
        test.handled()
    assert [number for customer, number in seen if customer == "ann"] == [0, 1, 2]
    assert seen.index(("bob", 9)) == 1


def test_plain_functions_run_on_threads(app: App, node: EmbeddedNode) -> None:
    names: list[str] = []

    @app.topic("plain", group="billing")
    def bill(message: bytes) -> None:
        names.append(threading.current_thread().name)

    with app.test(node=node) as test:
        test.produce("plain", b"\xff")
        test.handled()
    assert len(names) == 1
    assert names[0] != node.thread._thread.name


def test_exactly_once_writes_results_with_the_offsets(app: App, node: EmbeddedNode) -> None:
    @app.topic("once-in", group="billing", to="once-out", exactly_once=True, concurrency=4, retries=HASTY)
    async def bill(order: Order) -> Invoice:
        if order.number == 5:
            raise ValueError("no")
        return Invoice(order.number)

    with app.test(node=node) as test:
        test.produce("once-in", *(Order(number) for number in range(10)))
        test.handled()
        # With counts: the markers of a transaction reach its partitions one after the other.
        records = test.records("once-out", 9)
        [dead] = test.records("once-in.billing.dead", 1)
    assert sorted(record.json()["order"] for record in records) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert dead.json()["number"] == 5


def test_a_stop_waits_for_handlers_and_commits(app: App, node: EmbeddedNode) -> None:
    begun, go_on = threading.Event(), asyncio.Event()

    @app.topic("stops", group="billing")
    async def bill(order: Order) -> None:
        begun.set()
        await go_on.wait()

    with app.test(node=node) as test:
        test.produce("stops", Order(1), Order(2))
        assert begun.wait(10)
        node.thread.loop.call_soon_threadsafe(node.thread.loop.call_later, 0.05, go_on.set)
    [standing] = node.standings("billing", "stops")
    assert standing.lag == 1


def test_a_handler_beyond_its_grace_is_left_and_its_message_comes_again(app: App, node: EmbeddedNode) -> None:
    begun = threading.Event()

    @app.topic("graces", group="billing", grace=0.05)
    async def bill(order: Order) -> None:
        begun.set()
        await asyncio.Event().wait()

    with app.test(node=node) as test:
        test.produce("graces", Order(1))
        assert begun.wait(10)
    [standing] = node.standings("billing", "graces")
    assert standing.lag == 1


def test_addresses_answer_on_the_bus(app: App, node: EmbeddedNode) -> None:
    @app.address("trial.price")
    async def price(order: Order, context: MessageContext) -> Invoice:
        assert context.address == "trial.price"
        return Invoice(order.number)

    @app.address("trial.nothing")
    def nothing(order: Order) -> None: ...

    with app.test(node=node) as test:
        assert test.request("trial.price", Order(4)) == {"order": 4}
        assert test.request("trial.nothing", Order(4)) is None
        with pytest.raises(ReplyError, match="it is no Order") as failed:
            test.request("trial.price", "four")
    assert failed.value.failure_code == 400


async def test_on_an_event_loop_and_publishing_from_a_handler(node: EmbeddedNode) -> None:
    app = App("unused:1")

    @app.topic("loops", group="billing")
    async def bill(order: Order) -> None:
        stored = await app.publish("loops-out", Invoice(order.number), key="k", headers=[("a", "b")])
        assert stored.topic == "loops-out"

    async with app.test(node=node) as test:
        await node.aio.produce("loops", msgspec.json.encode(Order(1)))
        await test.wait_handled("loops")
        [record] = await node.aio.records("loops-out", 1)
    assert (record.json(), record.key, text(record, "a")) == ({"order": 1}, b"k", "b")


def test_a_topic_without_handler_is_refused(app: App, node: EmbeddedNode) -> None:
    @app.topic("known", group="billing")
    async def bill(order: Order) -> None: ...

    with app.test(node=node) as test, pytest.raises(UsageError, match="No handler of the app has the topic unknown"):
        test.handled("unknown")
    with pytest.raises(UsageError, match="does not run"):
        test.produce("known", Order(1))
