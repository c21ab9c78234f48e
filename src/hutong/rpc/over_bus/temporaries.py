"""Streams and references that methods return, bound for the caller by the binding that returned them.

Strategy: the answer has their addresses: that of a stream or of one reference in a header, as with Vert.x, those of
several references in its body. Knows transports only by the call that asked.
"""

from collections.abc import Callable
from contextvars import Context as Variables
from functools import partial
from typing import TYPE_CHECKING, Any

from hutong.foundation.errors import UsageError
from hutong.rpc.call import PROXY_ADDRESS, RELEASE, STREAM_ADDRESS, IncomingCall, Outcome
from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription, describe
from hutong.rpc.descriptions.references import Counted, WrongReference
from hutong.rpc.errors import DispatchFailed
from hutong.rpc.over_bus.endpoint import PEER
from hutong.rpc.over_bus.releasing import releasing
from hutong.rpc.over_bus.temporary import ON_BUS, TEMPORARIES_MAX, Surroundings, Temporary
from hutong.rpc.serving.dispatcher import Dispatcher
from hutong.rpc.serving.implementation import invocations
from hutong.rpc.streams import InVariables, Stream, StreamSource
from hutong.rpc.tracing import dispatcher_for
from hutong.runtime.contexts.contexts import Context, ContextKind

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller


class BindingTemporaries:
    """The temporary services that one binding has opened. `caller` calls back over the bus."""

    def __init__(self, surroundings: Surroundings, caller: "Caller", *, has_debug_info: bool = False) -> None:
        self._surroundings = surroundings
        self._caller = caller
        self._has_debug_info = has_debug_info
        self._open: dict[Temporary, None] = {}  # oldest first

    def publish(
        self, call: IncomingCall, method: MethodDescription, value: Any, variables: Variables, context: Context
    ) -> Outcome:
        """Bind a stream or references for the caller. Raises DispatchFailed for what is neither, LimitExceeded."""
        if method.kind is ResultKind.STREAM:
            iterator = in_variables(method, value, variables)
            # gRPC reads the iterator itself, so no temporary service is needed.
            if call.takes_streams:
                return Outcome(iterator)
            source = StreamSource(iterator, self._surroundings.bus)
            temporary = self._bound(call, describe(Stream), source, context)
            context.run(lambda _: source.pull(), None)
            return Outcome(headers=((STREAM_ADDRESS, temporary.address),))
        if method.kind is ResultKind.REFERENCE:
            temporary = self._bound(call, describe(method.result_type), value, context)
            return Outcome(headers=((PROXY_ADDRESS, temporary.address),))
        return Outcome(self._addresses(call, method, value, context), has_references=True)

    def caller_for(self, call: IncomingCall) -> "Caller":
        """The caller of what a call has passed. Raises DispatchFailed where its peer cannot be called back."""
        return self._caller if call.peer == PEER else call.caller()

    def close(self) -> None:
        """Close them all: the binding ends."""
        for temporary in list(self._open):
            temporary.close()

    def _addresses(self, call: IncomingCall, method: MethodDescription, value: Any, context: Context) -> Any:
        """The result with addresses in the place of its services."""
        opened: list[Temporary] = []

        def bound(protocol: type, one: Any) -> str:
            opened.append(self._bound(call, describe(protocol), one, context))
            return opened[-1].address

        assert method.result_shape is not None
        try:
            return method.result_shape.exchanged(value, Counted(bound))
        except BaseException as error:
            # The caller gets a failure, and would never close the ones before.
            for temporary in opened:
                temporary.close()
            if isinstance(error, WrongReference):
                raise DispatchFailed(f"the result of {call.action!r} cannot be sent: {error}") from None
            raise

    def _bound(self, call: IncomingCall, description: ServiceDescription, value: object, context: Context) -> Temporary:
        try:
            dispatcher = dispatcher_of(self._surroundings, description, value, context, self, self._has_debug_info)
        except UsageError as error:
            raise DispatchFailed(f"{call.action!r} returned what is no {description.name}: {error}") from None
        close: Callable[[], Any] | None = getattr(value, "aclose", None)
        # Callers on the bus have no connection: what they open is for all who know the address.
        owner = ON_BUS if call.owner is None else call.owner
        temporary = Temporary(
            self._surroundings, dispatcher, lambda: owner, self._forget, close if callable(close) else None
        )
        if isinstance(value, StreamSource):
            value.done_handler = temporary.close
        else:
            # Its address is sent once. A stream has `cancel`.
            temporary.references = 1
            dispatcher.served[RELEASE] = releasing(lambda released: temporary.returned(released.count))
        # First: it may be closed, and forgotten, before `open` returns.
        self._open[temporary] = None
        temporary.open(TEMPORARIES_MAX if owner is ON_BUS else call.references_max)
        return temporary

    def _forget(self, temporary: Temporary) -> None:
        self._open.pop(temporary, None)


def dispatcher_of(
    surroundings: Surroundings,
    description: ServiceDescription,
    value: object,
    context: Context,
    temporaries: BindingTemporaries,
    has_debug_info: bool = False,
) -> Dispatcher:
    """Make the dispatcher of an object. Raises UsageError for one that does not implement the Protocol."""
    methods = invocations(description, value, may_block=context.kind is not ContextKind.EVENT_LOOP)
    # The calls that fetch a stream's items are no calls of the application.
    tracer = None if isinstance(value, StreamSource) else surroundings.tracer
    make = partial(dispatcher_for(tracer), description, methods, context, surroundings.clock)
    return make(has_debug_info=has_debug_info, temporaries=temporaries)


def in_variables(method: MethodDescription, value: Any, variables: Variables) -> InVariables:
    """The stream that a method returned. Raises DispatchFailed if it is none."""
    if not hasattr(value, "__aiter__"):
        raise DispatchFailed(f"{method.name!r} returned a {type(value).__name__} where a stream is promised")
    return InVariables(value.__aiter__(), variables)
