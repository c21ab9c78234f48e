"""Spans and metrics of messages on any transport, by OpenTelemetry's conventions for messaging.

Knows neither the bus nor Kafka clients.
"""

from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind

from hutong.tracing import names
from hutong.tracing.headers import AnyHeaders, parent_of_send
from hutong.tracing.instruments import Instruments
from hutong.tracing.names import BoundedNames
from hutong.tracing.spans import TracedOperation, TracedOperations

More = Mapping[str, str | int | bool]


class Messaging:
    """Spans of sending and of processing."""

    def __init__(self, operations: TracedOperations, instruments: Instruments) -> None:
        self._operations = operations
        self._instruments = instruments
        self._shown = BoundedNames()

    def sending(self, system: str, name: str, destination: str, headers: AnyHeaders) -> TracedOperation:
        """Part of the current trace, else of the one in `headers`."""
        attributes = {
            names.SYSTEM: system,
            names.OPERATION_NAME: name,
            names.OPERATION_TYPE: names.SEND,
            names.DESTINATION: destination,
        }
        measured = {**attributes, names.DESTINATION: self._shown(destination)}
        self._instruments.sent(1, measured)
        return self._operations.begin_operation(
            SpanKind.PRODUCER,
            f"{name} {destination}",
            attributes,
            self._instruments.operation_s,
            measured,
            parent=parent_of_send(headers),
        )

    def processing(
        self,
        system: str,
        destination: str,
        *,
        group: str | None = None,
        more: More | None = None,
        parent: Context | None = None,
        links: Sequence[Link] = (),
        count: int = 1,
    ) -> TracedOperation:
        """`destination` may be empty: messages of several."""
        attributes: dict[str, str | int | bool] = {
            names.SYSTEM: system,
            names.OPERATION_NAME: names.PROCESS,
            names.OPERATION_TYPE: names.PROCESS,
        }
        if group is not None:
            attributes[names.GROUP] = group
        measured = dict(attributes)
        if destination:
            attributes[names.DESTINATION] = destination
            measured[names.DESTINATION] = self._shown(destination)
        self._instruments.consumed(count, measured)
        return self._operations.begin_operation(
            SpanKind.CONSUMER,
            f"{names.PROCESS} {destination}".rstrip(),
            {**attributes, **(more or {})},
            self._instruments.process_s,
            measured,
            parent=parent,
            links=links,
        )
