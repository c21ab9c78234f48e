"""From OpenTelemetry's contexts to headers and back.

Strategy: our own parser reads, since what it reads comes from strangers; headers are text on the bus and in calls,
bytes in records, and both are taken as they come. Knows no messages.
"""

from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from hutong.foundation.trace_context import TRACE_NAMES, HeaderValue, TraceContext, read_trace

Pairs = tuple[tuple[str, str], ...]
RecordHeaders = list[tuple[str, str | bytes | None]]
"""As clients of Kafka take them; the values that are made here are bytes."""
AnyHeaders = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]] | None


def inject(headers: AnyHeaders = None, *, context: Context | None = None) -> RecordHeaders:
    """The headers of a record, for confluent-kafka, aiokafka or kafka-python, with the trace of the current span.

    Another trace in `headers` is left out; text becomes UTF-8.
    """
    return list(with_trace(headers, context))


def with_trace(headers: AnyHeaders, context: Context | None) -> Iterator[tuple[str, bytes | None]]:
    """As `inject`, pair by pair."""
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        # The given headers may name another trace, and a record has one traceparent.
        if name.lower() not in TRACE_NAMES:
            yield name, value.encode() if isinstance(value, str) else value
    for name, text in headers_of(get_current_span(context).get_span_context()):
        yield name, text.encode()


def extract(headers: AnyHeaders) -> Context:
    """The context in headers: a parent for spans. Empty without one."""
    found = span_context_of(headers)
    return Context() if found is None else remote_parent(found)


def span_context_of(headers: AnyHeaders) -> SpanContext | None:
    """The span in headers, for a link."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    found = read_trace(pairs)
    # Absent or malformed: a new trace begins, as the specification demands.
    if found is None:
        return None
    flags, state = TraceFlags(found.flags), TraceState(found.state)
    return SpanContext(found.trace_id, found.span_id, is_remote=True, trace_flags=flags, trace_state=state)


def parent_of_send(headers: AnyHeaders) -> Context | None:
    """The parent of what is sent: the current span (None), else the one in the given headers."""
    return None if get_current_span().get_span_context().is_valid else extract(headers)


def remote_parent(parent: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(parent), Context())


def headers_of(span: SpanContext) -> Pairs:
    """The headers of a span; none where there is none."""
    if span is INVALID_SPAN_CONTEXT or not span.is_valid:
        return ()
    return TraceContext(span.trace_id, span.span_id, span.trace_flags, tuple(span.trace_state.items())).headers()
