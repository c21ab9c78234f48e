"""Exactly once and at least once while requests are refused and answers are lost."""

import msgspec
import pytest

from hutong.handlers import App, Retry
from hutong.testing import EmbeddedNode

COUNT = 60


class Order(msgspec.Struct):
    number: int


def written(node: EmbeddedNode, topic: str) -> list[int]:
    return sorted(record.json()["number"] for record in node.records(topic, COUNT, timeout=40))


def app_of(*, exactly_once: bool) -> App:
    app = App("unused:1", settings={"retry.backoff.max.ms": 100, "reconnect.backoff.max.ms": 100})

    @app.topic("orders", group="billing", to="invoices", concurrency=4, exactly_once=exactly_once)
    async def bill(order: Order) -> Order:
        return order

    return app


def orders(first: int) -> list[bytes]:
    return [msgspec.json.encode(Order(number)) for number in range(first, first + COUNT // 3)]


@pytest.mark.parametrize("api", ["EndTxn", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "Produce"])
def test_lost_answers_write_nothing_twice(api: str) -> None:
    app = app_of(exactly_once=True)
    with EmbeddedNode(topics=["orders", "invoices"]) as node, app.test(node=node) as test:
        node.produce("orders", *orders(0))
        test.handled(timeout=30)
        lost = node.faults.lose_answers(api=api, times=2)
        node.produce("orders", *orders(COUNT // 3))
        test.handled(timeout=40)
        node.produce("orders", *orders(2 * COUNT // 3))
        test.handled(timeout=40)
        assert written(node, "invoices") == list(range(COUNT))
        assert lost.hits > 0


@pytest.mark.parametrize(
    ("api", "error"), [("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"), ("Produce", "NOT_LEADER_OR_FOLLOWER")]
)
def test_refused_transactions_are_repeated(api: str, error: str) -> None:
    app = app_of(exactly_once=True)
    with EmbeddedNode(topics=["orders", "invoices"]) as node, app.test(node=node) as test:
        refused = node.faults.refuse_requests(api, error, times=1)
        node.produce("orders", *orders(0), *orders(COUNT // 3), *orders(2 * COUNT // 3))
        test.handled(timeout=40)
        assert written(node, "invoices") == list(range(COUNT))
        assert refused.hits == 1


def test_a_restart_of_the_broker_loses_nothing() -> None:
    app = app_of(exactly_once=False)
    with EmbeddedNode(topics=["orders", "invoices"]) as node, app.test(node=node) as test:
        node.produce("orders", *orders(0))
        test.handled(timeout=30)
        node.restart()
        node.produce("orders", *orders(COUNT // 3), *orders(2 * COUNT // 3))
        test.handled(timeout=40)
        assert set(written(node, "invoices")) == set(range(COUNT))


def test_a_commit_that_fails_is_repeated() -> None:
    app = app_of(exactly_once=False)
    with EmbeddedNode(topics=["orders", "invoices"]) as node, app.test(node=node) as test:
        refused = node.faults.refuse_requests("OffsetCommit", "INVALID_COMMIT_OFFSET_SIZE", times=1)
        node.produce("orders", *orders(0))
        node.wait_for_fault(refused)
        test.handled(timeout=30)


def test_a_missing_dead_letter_topic_holds_its_message() -> None:
    app = App("unused:1")

    @app.topic("orders", group="billing", retries=Retry(attempts=1), dead_letters="orders.dead")
    async def bill(order: Order) -> None:
        raise ValueError("no")

    with EmbeddedNode(topics=["orders"], settings={"topic.auto_create": "false"}) as node, app.test(node=node) as test:
        refused = node.faults.refuse_requests("CreateTopics", "POLICY_VIOLATION", times=1)
        node.produce("orders", *orders(0)[:1])
        node.wait_for_fault(refused)
        node.create_topic("orders.dead")
        test.handled(timeout=40)
        assert len(node.records("orders.dead", 1)) == 1
