"""Spans and metrics kept in memory, and questions about them."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hutong.tracing import Tracing


class Recording:
    """A `Tracing` whose spans and metrics can be looked at."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.spans_of = TracerProvider(shutdown_on_exit=False)
        self.spans_of.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.metrics_of = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracing = Tracing(self.spans_of, self.metrics_of)
        self.own = self.spans_of.get_tracer("test")

    def close(self) -> None:
        self.spans_of.shutdown()
        self.metrics_of.shutdown()

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, oldest first."""
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, f"{name} is there {len(found)} times: {[span.name for span in self.spans]}"
        return found[0]

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """The attributes and the count (of a histogram) or value (of a counter) of each row of a metric."""
        data = self._reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [
            (dict(point.attributes or {}), getattr(point, "count", None) or getattr(point, "value", None))
            for metric in metrics
            for point in metric.data.data_points
        ]


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    context = parent.get_span_context()
    assert context is not None
    return (
        child.parent is not None
        and child.parent.span_id == context.span_id
        and child.get_span_context().trace_id == context.trace_id  # type: ignore[union-attr]
    )


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop turn until it is so."""
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never was")
