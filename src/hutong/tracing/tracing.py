"""`Tracing`: what a program makes once, and hands to nodes, buses and callers.

Strategy: spans and metrics go to the program's own OpenTelemetry providers, the global ones unless others are given:
what is sampled, and where it goes, is declared there. Knows no exporters.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, TracerProvider, get_tracer

from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.rpc.calling.caller import Caller
from hutong.tracing import kafka
from hutong.tracing.broker import BrokerTracing
from hutong.tracing.bus import BusTracing
from hutong.tracing.headers import AnyHeaders, RecordHeaders
from hutong.tracing.instruments import Instruments
from hutong.tracing.kept import KeptSpans
from hutong.tracing.messaging import Messaging
from hutong.tracing.rpc import CallTracing
from hutong.tracing.spans import TracedOperations

SCOPE: Final = "hutong"


class Tracing:
    """Spans and metrics of messages and calls.

    `Node(tracing=...)` is traced as a whole. `trace(...)` is for a bus, an `Rpc` or a client (`hutong.rpc.connect`) of
    your own, before it is used. `sending`, `processing` and `processing_batch` are for your own Kafka clients.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        instruments = Instruments(get_meter(SCOPE, meter_provider=meter_provider))
        tracer = get_tracer(SCOPE, tracer_provider=tracer_provider)
        self.kept = KeptSpans()
        """Spans for the console of a node; none until it asks for them."""
        operations = TracedOperations(tracer, clock or SystemClock(), self.kept)
        self._messaging = Messaging(operations, instruments)
        self._bus = BusTracing(self._messaging)
        self._calls = CallTracing(operations, instruments)
        self.requests = BrokerTracing(tracer, self.kept)
        """For the broker of a node whose `kafka.tracing` is set."""

    def trace(self, *parts: EventBus | Caller) -> None:
        """Trace a bus, an Rpc or a client from now on. Raises UsageError for anything else, or where it is too late."""
        for part in parts:
            if isinstance(part, EventBus):
                part.set_tracer(self._bus)
            elif isinstance(part, Caller):
                part.set_tracer(self._calls)
            else:
                raise UsageError(f"a bus, an Rpc or a client can be traced, not a {type(part).__name__}.")

    def sending(self, topic: str, headers: AnyHeaders = None) -> AbstractContextManager[RecordHeaders]:
        """`with tracing.sending("orders") as headers: producer.produce("orders", value, headers=headers)`."""
        return kafka.sending(self._messaging, topic, headers)

    def processing(self, message: Any, *, group: str | None = None) -> AbstractContextManager[Span]:
        """`with tracing.processing(message): ...`, of confluent-kafka, aiokafka, kafka-python or the bus.

        Spans started in the block (sends, calls, your own) belong to the trace of the message's producer.
        """
        return kafka.processing(self._messaging, message, group)

    def processing_batch(self, messages: Sequence[Any], *, group: str | None = None) -> AbstractContextManager[Span]:
        """The same for a batch that is handled as one: its span is linked with those of all its producers."""
        return kafka.processing_batch(self._messaging, messages, group)
