"""The metrics of messaging and of calls, under the names of OpenTelemetry's conventions.

Knows no spans: callers measure.
"""

from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.metrics import Meter

BOUNDARIES_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""As the conventions advise."""
Attributes = Mapping[str, str | int | bool]
Measure = Callable[[float, Attributes], None]


class Instruments:
    """Made once for a meter. Each is a function of an amount and attributes."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Measure:
            made = meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=BOUNDARIES_S)
            return made.record

        def messages(name: str, description: str) -> Measure:
            return meter.create_counter(name, "{message}", description).add

        self.operation_s = seconds("messaging.client.operation.duration", "How long sending or receiving took.")
        self.process_s = seconds("messaging.process.duration", "How long handlers took.")
        self.client_call_s = seconds("rpc.client.call.duration", "How long outgoing calls took.")
        self.server_call_s = seconds("rpc.server.call.duration", "How long incoming calls took.")
        self.sent = messages("messaging.client.sent.messages", "Messages that were attempted to be sent.")
        self.consumed = messages("messaging.client.consumed.messages", "Messages that were given to the application.")
