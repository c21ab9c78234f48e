"""Helpers for other Kafka clients: headers as they have them, parents for single messages, links for batches."""

from dataclasses import dataclass, field

import pytest
from opentelemetry.trace import SpanKind, get_current_span
from tests.unit.tracing.scenes import Recording, is_child

from hutong.foundation.errors import UsageError
from hutong.tracing import extract, inject

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Record:
    """As aiokafka and kafka-python have it."""

    topic: str = "orders"
    partition: int = 3
    offset: int = 7
    headers: list[tuple[str, bytes]] = field(default_factory=list)


class Message:
    """As confluent-kafka has it."""

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 7

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("traceparent", PARENT.encode())]


def test_headers_are_injected_in_the_place_of_old_ones(recording: Recording) -> None:
    assert inject({"a": "b"}) == [("a", b"b")]
    with recording.own.start_as_current_span("mine"):
        headers = inject([("Traceparent", PARENT.encode()), ("a", b"b"), ("none", None)])
    context = recording.span("mine").get_span_context()
    assert context is not None
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-".encode()
    assert headers[:2] == [("a", b"b"), ("none", None)]
    assert headers[2][0] == "traceparent"
    value = headers[2][1]
    assert isinstance(value, bytes)
    assert value.startswith(expected)


def test_a_context_is_extracted_from_headers() -> None:
    assert get_current_span(extract([("traceparent", PARENT)])).get_span_context().span_id == 0x00F067AA0BA902B7
    assert get_current_span(extract({"traceparent": PARENT.encode()})).get_span_context().is_remote
    assert not get_current_span(extract(None)).get_span_context().is_valid
    assert not get_current_span(extract([("traceparent", "junk")])).get_span_context().is_valid


@pytest.mark.parametrize("message", [Record(headers=[("traceparent", PARENT.encode())]), Message()])
def test_a_message_is_processed_in_the_trace_of_its_producer(recording: Recording, message: object) -> None:
    with recording.tracing.processing(message, group="billing"):
        recording.own.start_span("inside").end()
    process = recording.span("process orders")
    assert is_child(recording.span("inside"), process)
    assert process.parent is not None
    assert process.parent.span_id == 0x00F067AA0BA902B7
    attributes = dict(process.attributes or {})
    assert attributes["messaging.system"] == "kafka"
    assert attributes["messaging.destination.partition.id"] == "3"
    assert attributes["messaging.kafka.offset"] == 7
    assert attributes["messaging.consumer.group.name"] == "billing"


def test_what_is_sent_tells_of_its_span(recording: Recording) -> None:
    with recording.tracing.sending("orders", [("a", "b")]) as headers:
        record = Record(headers=headers)  # type: ignore[arg-type]
    with recording.tracing.processing(record):
        pass
    sent = recording.span("send orders")
    assert sent.kind is SpanKind.PRODUCER
    assert is_child(recording.span("process orders"), sent)


def test_a_batch_is_linked_with_all_its_producers(recording: Recording) -> None:
    records = []
    for _ in range(3):
        with recording.tracing.sending("orders") as headers:
            records.append(Record(headers=headers))  # type: ignore[arg-type]
    with recording.tracing.processing_batch([*records, Record()], group="billing"):
        pass
    batch = recording.span("process orders")
    assert batch.parent is None
    sent = [span.get_span_context() for span in recording.spans if span.name == "send orders"]
    assert [link.context.span_id for link in batch.links] == [context.span_id for context in sent if context]
    assert (batch.attributes or {})["messaging.batch.message_count"] == 4
    assert [count for _, count in recording.points("messaging.client.consumed.messages")] == [4]


def test_a_batch_of_several_topics_names_none(recording: Recording) -> None:
    with recording.tracing.processing_batch([Record(), Record(topic="other")]):
        pass
    assert "messaging.destination.name" not in (recording.span("process").attributes or {})
    with pytest.raises(UsageError), recording.tracing.processing_batch([]):
        pass


def test_what_a_block_raises_fails_its_span(recording: Recording) -> None:
    with pytest.raises(ValueError), recording.tracing.processing(Record()):
        raise ValueError("no")
    assert (recording.span("process orders").attributes or {})["error.type"] == "ValueError"
