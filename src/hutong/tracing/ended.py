"""A span of OpenTelemetry's SDK that has ended, as it is kept.

Knows nothing of where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan

from hutong.tracing.kept import ATTRIBUTES_MAX, TEXT_CHARACTERS_MAX, KeptSpan
from hutong.tracing.names import ERROR_TYPE

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from hutong.tracing.kept import KeptSpans


def keep_ended(span: Span, kept: KeptSpans) -> None:
    """Keep a span that has ended and is sampled, where some are kept."""
    if not kept.is_on or not span.get_span_context().trace_flags.sampled:
        return
    # Another SDK's spans cannot be read.
    if isinstance(span, ReadableSpan) and span.start_time is not None and span.end_time is not None:
        kept.add(_kept(span, span.start_time, span.end_time))


def _kept(span: ReadableSpan, begin_ns: int, end_ns: int) -> KeptSpan:
    context, attributes = span.get_span_context(), dict(span.attributes or {})
    assert context is not None, "a span that was started has a context"
    # The status alone has no type where the failure was an answer, as of a call.
    kind = attributes.get(ERROR_TYPE)
    described = f"{kind}: {span.status.description}" if span.status.description else str(kind)
    return KeptSpan(
        context.trace_id,
        context.span_id,
        None if span.parent is None else span.parent.span_id,
        _short(span.name),
        span.kind.name.lower(),
        begin_ns,
        end_ns,
        None if span.status.is_ok else _short(described),
        tuple((_short(name), _short(str(value))) for name, value in [*attributes.items()][:ATTRIBUTES_MAX]),
    )


def _short(text: str) -> str:
    return text[:TEXT_CHARACTERS_MAX]
