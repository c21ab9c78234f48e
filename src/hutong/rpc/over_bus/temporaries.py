"""Temporary services: the streams and references that methods return, each at its own address for one caller.

Strategy: the address is an unguessable UUID in a header of the answer. A temporary service ends when its caller closes
it, when it has been idle for long, when the caller's connection ends, or with the binding that opened it, whichever
comes first. The idle time is one parked wait on the home loop, checked only when it is over.

Registers temporary services on the bus; other transports find them in the registry.
"""

import uuid
from collections.abc import Callable
from contextvars import Context as Variables
from typing import TYPE_CHECKING, Any, Final

from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, UsageError
from hutong.foundation.waiting.table import Owner, ParkedWait, WaitTable
from hutong.rpc.call import PROXY_ADDRESS, STREAM_ADDRESS, IncomingCall, Outcome
from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription, describe
from hutong.rpc.errors import DispatchFailed
from hutong.rpc.over_bus.endpoint import PEER, BusEndpoint
from hutong.rpc.serving.dispatcher import Dispatcher
from hutong.rpc.serving.implementation import invocations
from hutong.rpc.streams import InVariables, Stream, StreamSource
from hutong.rpc.tracing import CallTracer, dispatcher_for
from hutong.runtime.contexts.contexts import Context, ContextKind

if TYPE_CHECKING:
    from hutong.bus.delivery.consumer import Consumer
    from hutong.rpc.serving.binding import Registry

TEMPORARIES_MAX: Final = 100_000
"""Streams and references of one Rpc that are open at a time."""
IDLE_MS_DEFAULT: Final = 300_000  # as in Vert.x


class Surroundings:
    """The shared parts of all temporary services of one Rpc. `waits` is for the home loop alone."""

    def __init__(self, bus: EventBus, registry: "Registry", clock: Clock, waits: WaitTable[None], idle_ms: int) -> None:
        self.bus = bus
        self.registry = registry
        self.clock = clock
        self.waits = waits
        self.idle_ms = idle_ms
        self.tracer: CallTracer | None = None
        self.open: set[Temporary] = set()


class BindingTemporaries:
    """The temporary services that one binding has opened."""

    def __init__(self, surroundings: Surroundings, *, has_debug_info: bool) -> None:
        self._surroundings = surroundings
        self._has_debug_info = has_debug_info
        self._open: set[Temporary] = set()

    def publish(
        self, call: IncomingCall, method: MethodDescription, value: Any, variables: Variables, context: Context
    ) -> Outcome:
        """Bind a stream or a reference for the caller. Raises DispatchFailed for what is neither, LimitExceeded."""
        # Before anything is made: callers that never close what they open must not fill the memory.
        if len(self._surroundings.open) >= TEMPORARIES_MAX:
            raise LimitExceeded("temporaries_max", TEMPORARIES_MAX)
        if method.kind is ResultKind.STREAM:
            iterator = in_variables(method, value, variables)
            # gRPC reads the iterator itself, so no temporary service is needed.
            if call.takes_streams:
                return Outcome(iterator)
            source = StreamSource(iterator, self._surroundings.bus)
            context.run(lambda _: source.pull(), None)
            return self._bound(call, describe(Stream), source, context, STREAM_ADDRESS)
        return self._bound(call, describe(method.result_type), value, context, PROXY_ADDRESS)

    def close(self) -> None:
        """Close them all: the binding ends."""
        for temporary in list(self._open):
            temporary.close()

    def _bound(
        self, call: IncomingCall, description: ServiceDescription, value: object, context: Context, header: str
    ) -> Outcome:
        try:
            methods = invocations(description, value, may_block=context.kind is not ContextKind.EVENT_LOOP)
        except UsageError as error:
            raise DispatchFailed(f"{call.action!r} returned what is no {description.name}: {error}") from None
        clock = self._surroundings.clock
        # The calls that fetch a stream's items are no calls of the application.
        tracer = None if isinstance(value, StreamSource) else self._surroundings.tracer
        dispatcher = dispatcher_for(tracer)(
            description, methods, context, clock, has_debug_info=self._has_debug_info, temporaries=self
        )
        temporary = Temporary(self._surroundings, dispatcher, value, self._open.discard)
        if isinstance(value, StreamSource):
            value.done_handler = temporary.close
        self._open.add(temporary)
        temporary.open(call)
        return Outcome(headers=((header, temporary.address),))


class Temporary:
    """One stream or reference. `open` and `close` from any thread."""

    def __init__(
        self,
        surroundings: Surroundings,
        dispatcher: Dispatcher,
        value: object,
        forget: "Callable[[Temporary], object]",
    ) -> None:
        self.address = str(uuid.uuid4())
        self._surroundings = surroundings
        self._dispatcher = dispatcher
        self._value = value
        self._forget = forget
        self._consumer: Consumer | None = None
        self._owner: Owner | None = None
        self._ticket: ParkedWait[None] | None = None
        self._is_open = True

    def open(self, call: IncomingCall) -> None:
        around, dispatcher = self._surroundings, self._dispatcher
        dispatcher.last_used_us = around.clock.monotonic_us()
        dispatcher.closing_handler = self.close
        self._owner = call.owner
        around.open.add(self)
        around.registry.add(self.address, dispatcher)
        if call.peer == PEER:
            endpoint = BusEndpoint(self.address, dispatcher)
            self._consumer = around.bus.consumer(self.address, endpoint.receive, context=dispatcher.context)
            self._consumer.is_traced = False
            self._consumer.settle()
        around.bus.on_home_loop(self._park)

    def close(self) -> None:
        """Be found no more; then let it clean up, in its context."""
        if not self._is_open:
            return
        self._is_open = False
        around, dispatcher = self._surroundings, self._dispatcher
        around.open.discard(self)
        self._forget(self)
        around.registry.remove(self.address, dispatcher)
        if self._consumer is not None:
            self._consumer.unregister()
        around.bus.on_home_loop(self._unpark)
        try:
            dispatcher.context.run(self._clean_up, None)
        except RuntimeError:  # the context has ended, and what ran in it
            return

    def _clean_up(self, _: None) -> Any:
        dispatcher = self._dispatcher
        dispatcher.close()
        dispatcher.end()
        close = getattr(self._value, "aclose", None)
        return close() if callable(close) else None

    def _park(self) -> None:
        """On the home loop: until it has been idle for long enough, or its caller's connection ends."""
        if self._is_open:
            around = self._surroundings
            due_ms = self._dispatcher.last_used_us // 1_000 + around.idle_ms
            if self._dispatcher.in_flight:
                due_ms = around.clock.monotonic_ms() + around.idle_ms
            self._ticket = around.waits.park(self, self._woken, deadline_ms=due_ms, owner=self._owner)

    def _unpark(self) -> None:
        if self._ticket is not None:
            self._ticket.abandon()

    def _woken(self, outcome: HutongError | None) -> None:
        around, dispatcher = self._surroundings, self._dispatcher
        self._ticket = None
        has_ended = self._owner is not None and self._owner.has_ended
        idle_us = around.clock.monotonic_us() - dispatcher.last_used_us
        if not has_ended and (dispatcher.in_flight or idle_us < around.idle_ms * 1_000):
            self._park()
        else:
            self.close()


def in_variables(method: MethodDescription, value: Any, variables: Variables) -> InVariables:
    """The stream that a method returned. Raises DispatchFailed if it is none."""
    if not hasattr(value, "__aiter__"):
        raise DispatchFailed(f"{method.name!r} returned a {type(value).__name__} where a stream is promised")
    return InVariables(value.__aiter__(), variables)
