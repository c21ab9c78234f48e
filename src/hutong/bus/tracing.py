"""The port for tracing: the calls that a traced bus makes when messages are sent and handled.

Strategy: a bus without a tracer pays nothing for this; with one, messages take the careful path, which calls the tracer
at the places below. Knows no tracer: `hutong.tracing` is one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hutong.bus.durable.message import DurableMessage
    from hutong.bus.durable.publishing import Settle
    from hutong.bus.durable.records import OutgoingRecord
    from hutong.bus.envelope.message import FullMessage, Message


class BusTracer(Protocol):
    """Adds headers to what is sent and has handlers run as part of the trace that their message's headers tell of.

    Called on any thread, and never raises.
    """

    def sending(self, message: "FullMessage") -> None:
        """The message is about to be sent, published or, where it awaits a reply, requested: give it headers."""
        ...

    def publishing(self, record: "OutgoingRecord", settle: "Settle") -> "tuple[OutgoingRecord, Settle]":
        """The record is about to be handed to the log. Returns the record and the callback to use instead."""
        ...

    def handling(self, message: "Message", handler: "Callable[[Message], object]") -> object:
        """Call `handler(message)`; returns what it returned, a coroutine perhaps wrapped. Raises what it raised."""
        ...

    def handling_record(
        self, message: "DurableMessage", group: str, handler: "Callable[[DurableMessage], object]"
    ) -> object:
        """As `handling`, for a message that came from the log to a member of a group."""
        ...
