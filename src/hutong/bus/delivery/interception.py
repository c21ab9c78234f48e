"""The interceptors and the tracer of a bus: what a message passes between its sender and its route.

Strategy: both are set seldom and asked for with each message, so one flag of the bus and one of each consumer say that
there is neither.

Knows no routes: it calls what it was given.
"""

import logging
from collections.abc import Callable

from hutong.bus.delivery.registrations import Registrations
from hutong.bus.envelope.interceptors import Delivery, Interceptor, chain_with, chain_without
from hutong.bus.envelope.message import FullMessage, Message
from hutong.bus.options import DeliveryOptions
from hutong.bus.tracing import BusTracer
from hutong.foundation.errors import UsageError
from hutong.runtime.contexts.contexts import carried_variables, current_context

_log = logging.getLogger("hutong.bus")


class InterceptedBus:
    """The part of an event bus that keeps its interceptors and its tracer, and passes messages through them."""

    def __init__(self, registrations: Registrations) -> None:
        self.is_plain = True  # without interceptors and tracer
        self.tracer: BusTracer | None = None
        self.inbound_chain: tuple[Interceptor, ...] = ()
        self.outbound_chain: tuple[Interceptor, ...] = ()
        self._lock = registrations.lock  # also over chains, codecs and the end of the bus
        self._consumers = registrations.by_address

    def add_outbound_interceptor(self, interceptor: Interceptor) -> None:
        """Let it see every message (replies too) before it is sent, in the sender, until it calls `delivery.next()`."""
        with self._lock:
            self._set_chains(chain_with(self.outbound_chain, interceptor), self.inbound_chain)

    def remove_outbound_interceptor(self, interceptor: Interceptor) -> None:
        with self._lock:
            self._set_chains(chain_without(self.outbound_chain, interceptor), self.inbound_chain)

    def add_inbound_interceptor(self, interceptor: Interceptor) -> None:
        """Let it see every message (replies too) before its handler, in the handler's context."""
        with self._lock:
            self._set_chains(self.outbound_chain, chain_with(self.inbound_chain, interceptor))

    def remove_inbound_interceptor(self, interceptor: Interceptor) -> None:
        with self._lock:
            self._set_chains(self.outbound_chain, chain_without(self.inbound_chain, interceptor))

    def set_tracer(self, tracer: BusTracer | None) -> None:
        """Report every message except replies to the tracer from now on. RPC calls have their own: `Rpc.set_tracer`.

        Raises UsageError where there is another one already.
        """
        with self._lock:
            # A second tracer would replace the trace headers of the first, so its spans would lose their children.
            if tracer is not None and self.tracer not in (None, tracer):
                raise UsageError("this bus is traced already.")
            self.tracer = tracer
            self._set_chains(self.outbound_chain, self.inbound_chain)

    def report(self, error: BaseException) -> None:
        """Report an interceptor's error: to the exception handler of the caller's context, else to the log."""
        context = current_context()
        if context is not None:
            context.fail(error)
        else:
            _log.error("an interceptor failed: %s", error, exc_info=error)

    def _route(self, message: FullMessage, options: DeliveryOptions, carry: Callable[[Message], None]) -> None:
        """Carry the message with the caller's variables, past the tracer and the outbound interceptors."""
        # Taken in the sender: an interceptor may continue the delivery from another thread.
        message._variables = carried_variables()
        if self.tracer is not None and options.is_traced:
            self.tracer.sending(message)
        self._intercept(message, carry)

    def _intercept(self, message: FullMessage, carry: Callable[[Message], None]) -> None:
        if self.outbound_chain:
            Delivery(message, self.outbound_chain, carry, self.report).begin()
        else:
            carry(message)

    def _set_chains(self, outbound: tuple[Interceptor, ...], inbound: tuple[Interceptor, ...]) -> None:
        self.outbound_chain, self.inbound_chain = outbound, inbound
        self.is_plain = not outbound and not inbound and self.tracer is None
        # Each consumer keeps its own flag, so that a delivery reads one attribute and not the chain and the tracer.
        for consumers in self._consumers.values():
            for consumer in consumers:
                consumer.settle()
