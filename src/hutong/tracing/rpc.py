"""Tracing of calls on every transport: at the caller around the transport, at the service around the dispatcher.

Knows no transport and no gateway.
"""

from typing import Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import SpanKind

from hutong.foundation.errors import HutongError
from hutong.foundation.trace_context import without_trace
from hutong.rpc.call import Done, IncomingCall, Outcome
from hutong.rpc.calling.transport import Abandon, Ended, OutgoingCall, Transport
from hutong.rpc.options import HeaderPairs
from hutong.rpc.tracing import Dispatch
from hutong.tracing import names
from hutong.tracing.headers import extract, headers_of, parent_of_send
from hutong.tracing.instruments import Instruments, Measure
from hutong.tracing.names import BoundedNames
from hutong.tracing.spans import TracedOperation, TracedOperations

CANCELLED: Final = "cancelled"


class CallTracing:
    """A `CallTracer`."""

    def __init__(self, operations: TracedOperations, instruments: Instruments) -> None:
        self._operations = operations
        self._instruments = instruments
        self._shown = BoundedNames()

    def carrying(self, transport: Transport, service: str) -> Transport:
        return TracedTransport(self, transport, service)

    def calling(self, service: str, action: str, headers: HeaderPairs) -> TracedOperation:
        """A call begins at its caller: part of the current trace, else of the one in the headers."""
        parent = parent_of_send(headers)
        return self._operation(SpanKind.CLIENT, f"{service}/{action}", self._instruments.client_call_s, parent)

    def serving(self, service: str, action: str, call: IncomingCall, done: Done, dispatch: Dispatch) -> None:
        operation = self._operation(
            SpanKind.SERVER, f"{service}/{action}", self._instruments.server_call_s, extract(call.header_pairs)
        )

        def report(outcome: Outcome) -> None:
            _end(operation, outcome)
            done(outcome)

        token = attach(operation.context)
        try:
            dispatch(call, report)
        except BaseException as error:
            operation.end(error)
            raise
        finally:
            detach(token)

    def _operation(
        self,
        kind: SpanKind,
        method: str,
        measure: Measure,
        parent: Context | None,
    ) -> TracedOperation:
        attributes = {names.RPC_SYSTEM: names.BUS, names.RPC_METHOD: method}
        measured = {**attributes, names.RPC_METHOD: self._shown(method)}
        return self._operations.begin_operation(kind, method, attributes, measure, measured, parent=parent)


class TracedTransport:
    """Carries calls of one service, with a span for each."""

    def __init__(self, tracing: CallTracing, transport: Transport, service: str) -> None:
        self._tracing = tracing
        self._transport = transport
        self._service = service

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        operation = self._tracing.calling(self._service, call.action, call.site.headers)

        def ended(outcome: Outcome | HutongError) -> None:
            _end(operation, outcome)
            done(outcome)

        headers = call.headers
        if without_trace(call.site.headers) == call.site.headers:  # else the proxy's own headers say whose trace it is
            headers = (*without_trace(headers), *headers_of(operation.span.get_span_context()))
        try:
            abandon = self._transport.begin_call(OutgoingCall(call.site, call.arguments, headers), timeout_ms, ended)
        except BaseException as error:
            operation.end(error)
            raise

        def abandoned() -> object:
            operation.end(error_type=CANCELLED)
            return abandon()

        return abandoned


def _end(operation: TracedOperation, outcome: Outcome | HutongError) -> None:
    if isinstance(outcome, HutongError):
        operation.end(outcome)
    elif outcome.failure is not None:
        code = str(outcome.failure.code)
        operation.span.set_attribute(names.RPC_STATUS, code)
        operation.end(error_type=code)
    else:
        operation.end()
