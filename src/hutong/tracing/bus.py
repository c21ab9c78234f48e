"""Tracing of the event bus and of durable addresses.

Strategy: a message sent is a span of its own, whose id travels in the message's headers; a request's lasts until
its reply, a durable message's until it is stored. A handler runs in a span whose parent is that of the message. What is
read by `async for` has no handler: `Tracing.processing(message)` is for its reader.

Knows no exporters.
"""

from typing import TYPE_CHECKING, Any

from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.bus.envelope.headers import Headers
from hutong.foundation.errors import LimitExceeded
from hutong.foundation.trace_context import without_trace
from hutong.tracing import names
from hutong.tracing.headers import extract, headers_of, with_trace
from hutong.tracing.messaging import Messaging

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.bus.durable.message import DurableMessage
    from hutong.bus.durable.publishing import Settle
    from hutong.bus.envelope.message import FullMessage, Message


class BusTracing:
    """A `BusTracer`."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging

    def sending(self, message: "FullMessage") -> None:
        reply = message._reply
        name = names.REQUEST if reply is not None else names.SEND if message.is_send else names.PUBLISH
        given = message.header_pairs
        operation = self._messaging.sending(names.BUS, name, message.address, given)
        try:
            message._headers = Headers((*without_trace(given), *headers_of(operation.span.get_span_context())))
        except LimitExceeded:  # it goes without: tracing is never why a message cannot be sent
            message._headers = Headers.of(given)
        # A message without a reply is over once it is sent; a request's span measures the way there and back.
        if reply is None:
            operation.end()
        else:
            reply.watch(operation.end)

    def publishing(self, record: OutgoingRecord, settle: "Settle") -> "tuple[OutgoingRecord, Settle]":
        operation = self._messaging.sending(names.KAFKA, names.SEND, record.topic, record.headers)

        def settled(outcome: Stored | PublishFailed) -> object:
            # Known only now: the broker chooses the offset, and the client perhaps the partition.
            if isinstance(outcome, Stored):
                operation.span.set_attribute(names.PARTITION, str(outcome.partition))
                operation.span.set_attribute(names.OFFSET, outcome.offset)
                operation.end()
            else:
                operation.end(outcome, outcome.code)
            return settle(outcome)

        headers = list(with_trace(record.headers, operation.context))
        return OutgoingRecord(record.topic, record.key, record.value, headers), settled

    def handling(self, message: "Message", handler: "Callable[[Message], object]") -> object:
        operation = self._messaging.processing(names.BUS, message.address, parent=extract(message.header_pairs))
        return operation.during(handler, message)

    def handling_record(
        self, message: "DurableMessage", group: str, handler: "Callable[[DurableMessage], object]"
    ) -> object:
        more: dict[str, Any] = {names.PARTITION: str(message.partition), names.OFFSET: message.offset}
        # A first attempt is the rule, so only later ones have the attribute.
        if message.attempt > 1:
            more[names.ATTEMPT] = message.attempt
        parent = extract(message.header_pairs)
        operation = self._messaging.processing(names.KAFKA, message.topic, group=group, more=more, parent=parent)
        return operation.during(handler, message, lambda: message.failure)
