"""OpenTelemetry's SDK for processes that are ours from the start: `hutong serve` and `hutong rpc serve`.

Strategy: OpenTelemetry's own variables declare where spans and metrics go, and which (OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...), so that nothing of it has a second name here. Knows no bus and no calls.
"""

from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from hutong.tracing.tracing import Tracing

SERVICE: Final = "hutong"
NAMELESS: Final = "unknown_service"
"""OpenTelemetry's name for a service without a configured name."""


class EnvironmentTracing:
    """A `tracing` with providers of its own, by OTLP over HTTP. `close` sends what is left, and blocks for it.

    Without `exports` spans are for the console of the node alone, and nothing is sent.
    """

    def __init__(self, *, exports: bool = True) -> None:
        resource = Resource.create()
        # OTEL_SERVICE_NAME wins; without it the SDK would name every node `unknown_service`.
        if str(resource.attributes[SERVICE_NAME]).startswith(NAMELESS):
            resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        if exports:
            self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        # Without a reader the instruments measure nothing.
        readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if exports else []
        self._metrics = MeterProvider(readers, resource, shutdown_on_exit=False)
        self.tracing = Tracing(self._spans, self._metrics)

    def close(self) -> None:
        self._spans.shutdown()
        self._metrics.shutdown()
