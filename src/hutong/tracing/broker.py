"""Spans of a broker's Produce and Fetch requests: a `RequestTracer`.

Strategy: each request is the root of a trace of its own, since only the headers of records name its sender, which a
broker would have to unpack for that. What the sampler leaves out costs its question alone.

Knows no exporters.
"""

from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer

from hutong.broker.dispatch.request_errors import errors_in
from hutong.broker.dispatch.request_tracing import Ended
from hutong.broker.handling.context import RequestContext
from hutong.tracing import names
from hutong.tracing.ended import keep_ended
from hutong.tracing.kept import KeptSpans
from hutong.wire.kafka.error_codes import ErrorCode

PRODUCE: Final = 0
_OPERATIONS: Final = {0: ("produce", "send"), 1: ("fetch", "receive")}


class BrokerTracing:
    """Of one node."""

    def __init__(self, tracer: Tracer, kept: KeptSpans) -> None:
        """`kept` gets each that has ended."""
        self._tracer = tracer
        self._kept = kept
        self._errors_in = {api_key: errors_in(api_key) for api_key in _OPERATIONS}

    def begin_request(self, api_key: int, request: Any, context: RequestContext[Any]) -> Ended:
        operation, kind = _OPERATIONS[api_key]
        topic, partition = _destination(api_key, request, context)
        attributes = {names.SYSTEM: names.KAFKA, names.OPERATION_NAME: operation, names.OPERATION_TYPE: kind}
        if topic:
            attributes[names.DESTINATION] = topic
        span = self._tracer.start_span(f"{operation} {topic}".rstrip(), Context(), SpanKind.SERVER, attributes)
        # The attributes below would be computed for nothing.
        if not span.is_recording():
            return _not_sampled
        session = context.session
        span.set_attribute(names.PEER_ADDRESS, session.address)
        span.set_attribute(names.PEER_PORT, session.port)
        if context.client_id:
            span.set_attribute(names.CLIENT_ID, context.client_id)
        # OpenTelemetry's messaging conventions want the partition's id as text.
        if partition is not None:
            span.set_attribute(names.PARTITION, str(partition))

        def ended(answer: Any) -> None:
            codes = None if answer is None else self._errors_in[api_key](answer)
            # An answer can hold several codes; one value keeps the attribute's cardinality low.
            if codes is not None:
                span.set_attribute(names.ERROR_TYPE, ErrorCode(min(codes)).name)
                span.set_status(StatusCode.ERROR)
            elif answer is not None and api_key == PRODUCE and partition is not None:
                _put_offset(span, answer)
            span.end()
            keep_ended(span, self._kept)

        return ended


def _destination(api_key: int, request: Any, context: RequestContext[Any]) -> tuple[str, int | None]:
    """The topic, and the partition where it is one; empty for several, and for a fetch session's usual request."""
    topics = request.topic_data if api_key == PRODUCE else request.topics
    if len(topics) != 1:
        return "", None
    (topic,) = topics
    name: str = topic.name if api_key == PRODUCE else topic.topic
    # From version 13 on Fetch and Produce name topics by id (KIP-516).
    if not name:
        known = context.broker.topics.by_id(topic.topic_id)
        name = "" if known is None else known.name
    partitions = topic.partition_data if api_key == PRODUCE else topic.partitions
    if len(partitions) != 1:
        return name, None
    return name, partitions[0].index if api_key == PRODUCE else partitions[0].partition


def _put_offset(span: Span, answer: Any) -> None:
    (topic,) = answer.responses
    (partition,) = topic.partition_responses
    span.set_attribute(names.OFFSET, partition.base_offset)


def _not_sampled(_answer: Any) -> None:
    """Ignore the end of a request that is not sampled."""
