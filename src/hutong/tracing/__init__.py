"""Tracing with OpenTelemetry: one trace through Kafka clients, the log, the event bus and services. Extra: `tracing`.

    tracing = Tracing()                       # of the program's own OpenTelemetry SDK
    async with hutong.Node(tracing=tracing) as node: ...

See docs/tracing.md. Nothing else in the project imports OpenTelemetry.
"""

from hutong.foundation.errors import UsageError

try:
    import opentelemetry.trace  # noqa: F401
except ModuleNotFoundError as missing:
    raise UsageError("Tracing needs OpenTelemetry: pip install 'hutong[tracing]'.") from missing

from hutong.tracing.headers import extract, inject
from hutong.tracing.tracing import Tracing

__all__ = ["Tracing", "extract", "inject"]
