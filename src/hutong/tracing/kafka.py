"""Tracing of a program's own Kafka clients: confluent-kafka, aiokafka, kafka-python.

Strategy: a record that is sent says in its headers which span sent it; one that is handled has that span as its parent.
A batch that is handled as one has many: its span is linked with all of them. What a message is made of is read as each
client has it: methods of confluent-kafka's messages, attributes of the others'.

Imports no client.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.trace import Link, Span, use_span

from hutong.foundation.errors import UsageError
from hutong.tracing import names
from hutong.tracing.headers import AnyHeaders, RecordHeaders, extract, inject, span_context_of
from hutong.tracing.messaging import Messaging
from hutong.tracing.spans import TracedOperation

LINKS_MAX: Final = 1_000
"""Links of one batch's span. OpenTelemetry keeps 128 of them by default."""


@contextmanager
def sending(messaging: Messaging, topic: str, headers: AnyHeaders) -> Iterator[RecordHeaders]:
    given = list(headers.items() if isinstance(headers, Mapping) else headers or ())
    operation = messaging.sending(names.KAFKA, names.SEND, topic, given)
    with _current(operation):
        yield inject(given)


@contextmanager
def processing(messaging: Messaging, message: Any, group: str | None) -> Iterator[Span]:
    topic, partition, offset = (_read(message, name) for name in ("topic", "partition", "offset"))
    more = {} if partition is None else {names.PARTITION: str(partition), names.OFFSET: offset}
    # A message of the bus has an address and no topic.
    system, destination = (names.BUS, message.address) if topic is None else (names.KAFKA, topic)
    parent = extract(headers_in(message))
    operation = messaging.processing(system, destination, group=group, more=more, parent=parent)
    with _current(operation):
        yield operation.span


@contextmanager
def processing_batch(messaging: Messaging, messages: Sequence[Any], group: str | None) -> Iterator[Span]:
    # An empty batch has no destination, and its span would say nothing.
    if not messages:
        raise UsageError("a batch has at least one message.")
    topics = {str(_read(message, "topic")) for message in messages}
    found = [span_context_of(headers_in(message)) for message in messages[:LINKS_MAX]]
    operation = messaging.processing(
        names.KAFKA,
        topics.pop() if len(topics) == 1 else "",
        group=group,
        more={names.BATCH_COUNT: len(messages)},
        links=[Link(context) for context in found if context is not None],
        count=len(messages),
    )
    with _current(operation):
        yield operation.span


def headers_in(message: Any) -> AnyHeaders:
    """The headers of a message of whichever client, or of the bus."""
    pairs = getattr(message, "header_pairs", None)
    headers: AnyHeaders = _read(message, "headers") if pairs is None else pairs
    return headers


@contextmanager
def _current(operation: TracedOperation) -> Iterator[None]:
    """The block is the operation, and its span the current one there."""
    with use_span(operation.span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            operation.end(error)
            raise
        operation.end()


def _read(message: Any, name: str) -> Any:
    value = getattr(message, name, None)
    # confluent-kafka has methods where the others have attributes.
    return value() if callable(value) else value
