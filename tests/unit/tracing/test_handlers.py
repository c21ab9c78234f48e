"""Handlers of an app, traced into memory: each call is a span of its message's trace, and results go on with it."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.tracing.scenes import Recording, is_child

from hutong.foundation.trace_context import read_trace
from hutong.handlers import App, Retry
from hutong.testing import EmbeddedNode
from hutong.tracing import inject

HASTY = Retry(attempts=3, first_delay=0.01, jitter=0)


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode() as node:
        yield node


@pytest.fixture
def app(recording: Recording) -> App:
    return App("unused:1", tracing=recording.tracing)


def headers_of(record: Any) -> list[tuple[str, bytes | None]]:
    return [(name, record.header(name)) for name in ("traceparent", "tracestate")]


@pytest.mark.parametrize("way", ["async", "thread"])
def test_a_call_belongs_to_the_trace_of_its_message_and_its_result_to_the_call(
    app: App, node: EmbeddedNode, recording: Recording, way: str
) -> None:
    if way == "async":

        @app.topic("traced-async", group="billing", to="results-async")
        async def bill(order: dict[str, int]) -> dict[str, int]:
            with recording.own.start_as_current_span("inside"):
                return order
    else:

        @app.topic("traced-thread", group="billing", to="results-thread")
        def bill_on_thread(order: dict[str, int]) -> dict[str, int]:
            with recording.own.start_as_current_span("inside"):
                return order

    with recording.own.start_as_current_span("shop"):
        sent = {name: (value or b"").decode() for name, value in inject() if isinstance(value, bytes)}
    with app.test(node=node) as test:
        test.produce(f"traced-{way}", {"number": 1}, headers=sent)
        [result] = test.records(f"results-{way}", 1)
    call = recording.span(f"process traced-{way}")
    assert is_child(call, recording.span("shop"))
    assert is_child(recording.span("inside"), call)
    assert (call.attributes or {})["messaging.consumer.group.name"] == "billing"
    found = read_trace(headers_of(result))
    context = call.get_span_context()
    assert found is not None
    assert context is not None
    assert (found.trace_id, found.span_id) == (context.trace_id, context.span_id)
    [(_, count)] = recording.points("messaging.process.duration")
    assert count == 1


def test_each_attempt_is_a_span_and_a_failed_one_says_so(app: App, node: EmbeddedNode, recording: Recording) -> None:
    tries = iter([ValueError("first"), None])

    @app.topic("tried", group="billing", retries=HASTY)
    async def bill(order: dict[str, int]) -> None:
        if (problem := next(tries)) is not None:
            raise problem

    with app.test(node=node) as test:
        test.produce("tried", {"number": 1})
        test.handled("tried")
    kinds = [(span.attributes or {}).get("error.type") for span in recording.spans if span.name == "process tried"]
    assert kinds == ["ValueError", None]


def test_a_batch_is_one_span_with_a_link_to_each_producer(app: App, node: EmbeddedNode, recording: Recording) -> None:
    @app.topic("piles", group="billing", batch=2, batch_wait=5)
    async def bill(orders: list[dict[str, int]]) -> None: ...

    with app.test(node=node) as test:
        for number in range(2):
            with recording.own.start_as_current_span(f"shop {number}"):
                sent = {name: value.decode() for name, value in inject() if isinstance(value, bytes)}
            test.produce("piles", {"number": number}, headers=sent)
        test.handled("piles")
    spans = [span for span in recording.spans if span.name == "process piles"]
    shops = [recording.span(f"shop {number}").get_span_context() for number in range(2)]
    links = [link.context.span_id for span in spans for link in span.links]
    assert links == [shop.span_id for shop in shops if shop is not None]


def test_what_a_handler_publishes_is_a_span_of_its_own(app: App, node: EmbeddedNode, recording: Recording) -> None:
    @app.topic("asked", group="billing")
    async def bill(order: dict[str, int]) -> None:
        await app.publish("told", order, headers=[("kind", "copy")])

    with app.test(node=node) as test:
        test.produce("asked", {"number": 1})
        [told] = test.records("told", 1)
        test.handled("asked")
    assert is_child(recording.span("send told"), recording.span("process asked"))
    assert told.header("kind") == b"copy"
