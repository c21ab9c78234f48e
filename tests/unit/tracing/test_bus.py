"""Messages of the bus as spans: who caused what, how it is named, what is measured; and nothing where it is off."""

import asyncio

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from tests.unit.tracing.scenes import Recording, is_child, until

from hutong.bus import DeliveryOptions, EventBus, Headers, Message, ReplyError
from hutong.bus.envelope.headers import HEADERS_MAX
from hutong.foundation.errors import UsageError
from hutong.runtime.contexts.contexts import ContextKind
from hutong.runtime.runtime import Runtime
from hutong.tracing import Tracing

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_send_and_its_handler_are_one_trace(bus: EventBus, recording: Recording) -> None:
    seen: list[Message] = []
    bus.consumer("orders", seen.append)
    with recording.own.start_as_current_span("mine"):
        bus.send("orders", "one")
    await until(lambda: len(recording.spans) == 3)
    sent, process = recording.span("send orders"), recording.span("process orders")
    assert is_child(sent, recording.span("mine"))
    assert is_child(process, sent)
    assert (sent.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(sent.attributes or {}) == {
        "messaging.system": "hutong",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
    }
    assert (process.attributes or {})["messaging.operation.type"] == "process"
    assert seen[0].headers.get("traceparent", "")[3:35] == f"{sent.get_span_context().trace_id:032x}"  # type: ignore[union-attr,index]


async def test_what_a_handler_does_belongs_to_its_message(bus: EventBus, recording: Recording) -> None:
    bus.consumer("second", lambda message: None)

    async def pass_on(message: Message) -> None:
        await asyncio.sleep(0)
        bus.send("second", message.body)

    bus.consumer("first", pass_on)
    bus.send("first", 1)
    bus.send("first", 2)
    await until(lambda: len(recording.spans) == 8)
    traces = {span.get_span_context().trace_id for span in recording.spans}  # type: ignore[union-attr]
    assert len(traces) == 2
    sends = [span for span in recording.spans if span.name == "send second"]
    parents = [span for span in recording.spans if span.name == "process first"]
    assert all(any(is_child(sent, parent) for parent in parents) for sent in sends)


async def test_one_message_leaves_no_span_behind_for_the_next(bus: EventBus, recording: Recording) -> None:
    current = []
    bus.consumer("a", lambda message: current.append(get_current_span().get_span_context().span_id))
    bus.send("a")
    bus.send("a")
    await until(lambda: len(current) == 2)
    assert current[0] != current[1]
    assert all(span.parent is None for span in recording.spans if span.name == "send a")


async def test_a_publication_reaches_every_consumer_in_one_trace(bus: EventBus, recording: Recording) -> None:
    for _ in range(3):
        bus.consumer("news", lambda message: None)
    bus.publish("news", {"x": 1})
    await until(lambda: len(recording.spans) == 4)
    published = recording.span("publish news")
    assert sum(is_child(span, published) for span in recording.spans) == 3


async def test_a_request_lasts_until_its_reply(bus: EventBus, recording: Recording) -> None:
    async def answer(message: Message) -> str:
        await asyncio.sleep(0)
        return "yes"

    bus.consumer("ask", answer)
    assert (await bus.request("ask", 1)).body == "yes"
    await until(lambda: len(recording.spans) == 2)
    request, process = recording.span("request ask"), recording.span("process ask")
    assert is_child(process, request)
    assert request.end_time >= process.start_time  # type: ignore[operator]
    assert recording.points("messaging.client.operation.duration") == [
        (
            {
                "messaging.system": "hutong",
                "messaging.operation.name": "request",
                "messaging.operation.type": "send",
                "messaging.destination.name": "ask",
            },
            1,
        )
    ]


async def test_a_failed_handler_fails_both_spans(
    bus: EventBus, recording: Recording, failures: list[BaseException]
) -> None:
    async def fail(message: Message) -> None:
        raise ValueError("no")

    bus.consumer("ask", fail)
    with pytest.raises(ReplyError):
        await bus.request("ask", 1)
    await until(lambda: len(recording.spans) == 2)
    process, request = recording.span("process ask"), recording.span("request ask")
    assert process.status.status_code is StatusCode.ERROR
    assert (process.attributes or {})["error.type"] == "ValueError"
    assert (request.attributes or {})["error.type"] == "HandlerRaised"
    assert recording.points("messaging.process.duration")[0][0]["error.type"] == "ValueError"
    assert len(failures) == 1


async def test_a_request_that_nobody_waits_for_any_more_ends(bus: EventBus, recording: Recording) -> None:
    bus.consumer("ask", lambda message: None)
    waiting = asyncio.ensure_future(_ask(bus))
    await asyncio.sleep(0)
    waiting.cancel()
    await until(lambda: any(span.name == "request ask" for span in recording.spans))
    assert (recording.span("request ask").attributes or {})["error.type"] == "CancelledError"
    assert bus.replies_waiting == 0


async def _ask(bus: EventBus) -> None:
    await bus.request("ask", 1)


async def test_a_request_from_a_plain_thread_is_a_span(bus: EventBus, recording: Recording) -> None:
    bus.consumer("ask", lambda message: message.reply("yes"))
    reply = await asyncio.to_thread(lambda: bus.request("ask", 1).result(10))
    assert reply.body == "yes"
    await until(lambda: len(recording.spans) == 2)
    assert is_child(recording.span("process ask"), recording.span("request ask"))


async def test_a_handler_on_a_worker_is_part_of_the_trace(
    bus: EventBus, runtime: Runtime, recording: Recording
) -> None:
    async def work(message: Message) -> str:
        await asyncio.sleep(0)
        with recording.own.start_as_current_span("inside"):
            return "done"

    bus.consumer("work", work, context=runtime.context(ContextKind.WORKER))
    await bus.request("work", 1)
    await until(lambda: len(recording.spans) == 3)
    assert is_child(recording.span("inside"), recording.span("process work"))


async def test_a_trace_from_outside_goes_on(bus: EventBus, recording: Recording) -> None:
    bus.consumer("a", lambda message: None)
    given = Headers({"traceparent": PARENT, "x": "y"})
    bus.send("a", 1, DeliveryOptions(headers=given, is_traced=False))
    await until(lambda: len(recording.spans) == 1)
    process = recording.span("process a")
    assert process.parent is not None
    assert process.parent.span_id == 0x00F067AA0BA902B7
    assert process.parent.is_remote


async def test_a_message_that_is_full_of_headers_goes_without(bus: EventBus, recording: Recording) -> None:
    seen: list[Message] = []
    bus.consumer("a", seen.append)
    full = Headers([(f"h{number}", "") for number in range(HEADERS_MAX)])
    bus.send("a", 1, DeliveryOptions(headers=full))
    await until(lambda: seen)
    assert len(seen[0].headers) == HEADERS_MAX


async def test_writes_of_a_producer_belong_to_who_wrote_them(bus: EventBus, recording: Recording) -> None:
    bus.consumer("a", lambda message: None)
    sender = bus.sender("a", write_queue_max=1)
    with recording.own.start_as_current_span("mine"):
        writes = [sender.write(number) for number in range(3)]
    for write in writes:
        await write
    await until(lambda: len(recording.spans) == 7)
    mine = recording.span("mine")
    assert sum(is_child(span, mine) for span in recording.spans) == 3


async def test_what_is_read_by_a_loop_is_processed_by_the_loop(bus: EventBus, recording: Recording) -> None:
    consumer = bus.consumer("a")
    bus.send("a", 1)
    async for message in consumer:
        with recording.tracing.processing(message) as span:
            assert span.is_recording()
        break
    assert is_child(recording.span("process a"), recording.span("send a"))


async def test_messages_are_counted(bus: EventBus, recording: Recording) -> None:
    bus.consumer("a", lambda message: None)
    for _ in range(5):
        bus.send("a")
    await until(lambda: len(recording.spans) == 10)
    assert [count for _, count in recording.points("messaging.client.sent.messages")] == [5]
    assert [count for _, count in recording.points("messaging.client.consumed.messages")] == [5]
    assert [count for _, count in recording.points("messaging.process.duration")] == [5]


async def test_metrics_tell_only_so_many_destinations_apart(bus: EventBus, recording: Recording) -> None:
    for number in range(1_100):
        bus.send(f"nowhere-{number}")
    destinations = {row["messaging.destination.name"] for row, _ in recording.points("messaging.client.sent.messages")}
    assert len(destinations) == 1_001
    assert "_OTHER" in destinations


async def test_a_bus_that_is_not_traced_sends_no_headers_and_stays_plain(runtime: Runtime) -> None:
    seen: list[Message] = []
    async with EventBus(runtime) as bus:
        bus.consumer("a", seen.append)
        bus.send("a", 1)
        await until(lambda: seen)
        assert bus.is_plain
        assert seen[0].header_pairs == ()


async def test_tracing_can_be_taken_away(bus: EventBus, recording: Recording) -> None:
    seen: list[Message] = []
    bus.consumer("a", seen.append)
    bus.set_tracer(None)
    bus.send("a", 1)
    await until(lambda: seen)
    assert bus.is_plain
    assert recording.spans == []


async def test_a_bus_has_one_tracer(bus: EventBus, recording: Recording) -> None:
    with pytest.raises(UsageError, match="traced already"):
        Tracing(recording.spans_of, recording.metrics_of).trace(bus)
    with pytest.raises(UsageError, match="not a str"):
        recording.tracing.trace("bus")  # type: ignore[arg-type]


async def test_who_has_no_span_goes_on_with_the_trace_of_the_headers_given(bus: EventBus, recording: Recording) -> None:
    bus.consumer("a", lambda message: None)
    bus.send("a", 1, DeliveryOptions(headers=Headers({"traceparent": PARENT})))
    await until(lambda: len(recording.spans) == 2)
    sent = recording.span("send a")
    assert sent.parent is not None
    assert sent.parent.span_id == 0x00F067AA0BA902B7
    assert is_child(recording.span("process a"), sent)
