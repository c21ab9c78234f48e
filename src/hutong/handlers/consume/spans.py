"""Spans and figures of one handler's calls, by OpenTelemetry, for an app that has a `Tracing`.

Strategy: a call is a span whose parent is the producer of its message; a batch has a link to each. What the handler
returns is written with the span of its call, so that the trace goes on in the topic of the results.

Knows no machine.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.messages import WorkItem
from hutong.handlers.declare.options import TopicHandler
from hutong.tracing import Tracing, inject


class HandlerSpans:
    """The spans of one handler."""

    def __init__(self, tracing: Tracing, handler: TopicHandler) -> None:
        self._tracing = tracing
        self._handler = handler

    def calling(self, item: WorkItem) -> AbstractContextManager[object]:
        """The block is one attempt; what it raises is the span's failure."""
        if self._handler.batch is None:
            return self._tracing.processing(item.records[0].message, group=self._handler.group)
        # A span has one parent, and a batch may have a producer for each record.
        return self._tracing.processing_batch([record.message for record in item.records], group=self._handler.group)

    def mark_results(self, results: Iterable[OutgoingRecord]) -> None:
        """Write the current span into the headers of results, in the block of `calling`."""
        for result in results:
            marked = inject(result.headers)
            result.headers[:] = [(name, text.encode() if isinstance(text, str) else text) for name, text in marked]
