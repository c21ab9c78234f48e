"""Spans that have ended, kept for the console of the node: the newest ones, within bounds.

Strategy: nothing is kept until somebody asks for that. Spans end on any thread, so adding one takes a lock, for a
microsecond. What is too much pushes out the oldest; the bounds are a number, bytes and an age.

Knows no OpenTelemetry, and no clock: a span's own end says when it came.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

SPANS_MAX: Final = 20_000
BYTES_MAX: Final = 16 * 1024 * 1024
AGE_MS_MAX: Final = 3_600_000
ATTRIBUTES_MAX: Final = 16
"""Of one span."""
TEXT_CHARACTERS_MAX: Final = 300
"""Of a name, an error, an attribute's name and its value."""
_SPAN_BYTES: Final = 500  # of the objects that one span is, without its texts
_MILLISECOND_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """One span. Times are nanoseconds since 1970; `error` is None where it went well."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    kind: str
    begin_ns: int
    end_ns: int
    error: str | None
    attributes: tuple[tuple[str, str], ...]

    @property
    def size_bytes(self) -> int:
        texts = (self.name, self.kind, self.error or "", *(part for pair in self.attributes for part in pair))
        return _SPAN_BYTES + sum(map(len, texts))


class KeptSpans:
    """Of one `Tracing`. Figures: `size_bytes`, `dropped_total`."""

    def __init__(self) -> None:
        self.is_on = False
        self.size_bytes = 0
        self.dropped_total = 0
        self._spans: deque[KeptSpan] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._spans)

    def begin(self) -> None:
        """Keep spans from now on."""
        self.is_on = True

    def add(self, span: KeptSpan) -> None:
        """Keep one more."""
        with self._lock:
            self._spans.append(span)
            self.size_bytes += span.size_bytes
            self._push_out(span.end_ns - AGE_MS_MAX * _MILLISECOND_NS)

    def of_traces(self, trace_ids: Collection[int], spans_max: int) -> tuple[list[KeptSpan], bool]:
        """The spans of these traces, the earliest first, and True where there are more."""
        # A look through all takes a millisecond or two, and only people ask: an index would cost at each span.
        with self._lock:
            found = [span for span in self._spans if span.trace_id in trace_ids]
        found.sort(key=lambda span: (span.begin_ns, span.end_ns))
        return found[:spans_max], len(found) > spans_max

    def _push_out(self, before_ns: int) -> None:
        spans = self._spans
        while spans and (len(spans) > SPANS_MAX or self.size_bytes > BYTES_MAX or spans[0].end_ns < before_ns):
            self.size_bytes -= spans.popleft().size_bytes
            self.dropped_total += 1
