"""The spans that this node keeps, as consoles show them.

Knows nothing of who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.server.spans.messages import SPANS_MAX, ShownSpan, SpansAnswer

if TYPE_CHECKING:
    from collections.abc import Collection

    from hutong.tracing.kept import KeptSpan, KeptSpans

_MILLISECOND_NS: Final = 1e6


def own_spans(kept: KeptSpans | None, traces: Collection[str]) -> SpansAnswer:
    """The spans of these traces that this node keeps."""
    if kept is None:
        return SpansAnswer()
    found, is_cut = kept.of_traces({int(trace, 16) for trace in traces}, SPANS_MAX)
    return SpansAnswer(True, is_cut, tuple(map(shown_span, found)))


def shown_span(span: KeptSpan) -> ShownSpan:
    """A kept span within the bounds above."""
    return ShownSpan(
        trace=f"{span.trace_id:032x}",
        id=f"{span.span_id:016x}",
        parent=None if span.parent_id is None else f"{span.parent_id:016x}",
        name=_clean(span.name),
        kind=span.kind,
        begin_ms=span.begin_ns / _MILLISECOND_NS,
        # A clock that was set back meanwhile gives a negative one.
        duration_ms=max(0, span.end_ns - span.begin_ns) / _MILLISECOND_NS,
        error=None if span.error is None else _clean(span.error),
        attributes=tuple((_clean(name), _clean(value)) for name, value in span.attributes),
    )


def _clean(text: str) -> str:
    """The text without lone surrogates, which no UTF-8 has: a program's names may be any."""
    return text if text.isascii() else text.encode(errors="replace").decode()
