"""The tracing port of services and callers: an optional tracer of calls.

Strategy: a traced caller has another transport around its own, and a traced service has a dispatcher of another class;
without a tracer neither exists. Knows no tracer: `hutong.tracing` is one.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from hutong.rpc.call import RELEASE, Done, IncomingCall
from hutong.rpc.calling.transport import Transport
from hutong.rpc.serving.dispatcher import Dispatcher

OTHER: Final = "_OTHER"
"""The name of an unknown method in spans."""
Dispatch = Callable[[IncomingCall, Done], None]


class CallTracer(Protocol):
    """Adds headers to calls, and runs services as part of the trace that a call's headers name."""

    def carrying(self, transport: Transport, service: str) -> Transport:
        """A transport that reports each call of the service before `transport` carries it."""
        ...

    def serving(self, service: str, action: str, call: IncomingCall, done: Done, dispatch: Dispatch) -> None:
        """Call `dispatch(call, done)`, with `done` perhaps wrapped. `action` is OTHER where there is no such method."""
        ...


class TracedDispatcher(Dispatcher):
    """Reports each call to the tracer before it is executed."""

    tracer: CallTracer

    def dispatch(self, call: IncomingCall, done: Done) -> None:
        # No call of the application.
        if call.action == RELEASE:
            super().dispatch(call, done)
            return
        action = call.action if call.action in self.served else OTHER
        self.tracer.serving(self.description.address, action, call, done, super().dispatch)


def dispatcher_for(tracer: CallTracer | None) -> Callable[..., Dispatcher]:
    """Return the factory of dispatchers."""
    return Dispatcher if tracer is None else partial(_traced, tracer)


def _traced(tracer: CallTracer, *arguments: object, **named: object) -> Dispatcher:
    dispatcher = TracedDispatcher(*arguments, **named)  # type: ignore[arg-type]
    dispatcher.tracer = tracer
    return dispatcher
