"""Dispatchers: from a call that has arrived to its outcome, in the context of one binding.

Strategy: callbacks, since most calls finish at once. The chain of a call is: statistics, interceptors, memory,
arguments, implementation. Without interceptors, an implementation that does not wait needs no task.

Knows no transport: `done` encodes the outcome. An implementation is user code: its exception is the call's failure, and
goes to the context's exception handler as well, unless it is a ServiceError.
"""

import asyncio
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError
from hutong.rpc.call import CURRENT_CALL, Done, IncomingCall, Outcome
from hutong.rpc.delivery_port import NEEDS_MEMORY
from hutong.rpc.descriptions.conversion import to_builtins
from hutong.rpc.descriptions.description import MethodDescription, ResultKind, ServiceDescription
from hutong.rpc.errors import (
    DISPATCH_CODE,
    FAULT_CODE,
    OUTCOME_UNKNOWN_CODE,
    DebugInfo,
    DispatchFailed,
    Failure,
    ServiceError,
)
from hutong.rpc.figures import MethodFigures
from hutong.rpc.serving.implementation import Invocation, Invoke
from hutong.rpc.serving.interceptors import Interceptor
from hutong.rpc.serving.stepping import Stepper
from hutong.runtime.contexts.contexts import Context

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller
    from hutong.rpc.delivery_port import Memory

STACK_LINES_MAX: Final = 64  # of debug information


class Temporaries(Protocol):
    """The binder of results that are no values, streams and references; and what answers those of arguments."""

    def publish(
        self, call: IncomingCall, method: MethodDescription, value: Any, variables: Variables, context: Context
    ) -> Outcome:
        """Bind a stream or references for the caller. Raises DispatchFailed for what is neither, LimitExceeded."""

    def caller_for(self, call: IncomingCall) -> "Caller":
        """The caller of what the call has passed. Raises DispatchFailed where its peer cannot be called back."""


class Served(Struct, eq=False):
    """One method of the binding."""

    method: MethodDescription
    invoke: Invoke
    is_plain: bool  # the call itself does the work
    chain: tuple[Interceptor, ...]
    figures: MethodFigures
    has_references: bool  # among its arguments


class Dispatcher:
    """Executes the calls of one binding. All but `submit` is called in its context.

    `idle_handler`, if set, is called whenever no call is under way any more; `closing_handler` when a method that
    closes has been called.
    """

    def __init__(
        self,
        description: ServiceDescription,
        invocations: dict[str, Invocation],
        context: Context,
        clock: Clock,
        *,
        interceptors: tuple[Interceptor, ...] = (),
        memory: "Memory | None" = None,
        has_debug_info: bool = False,
        temporaries: Temporaries | None = None,
    ) -> None:
        self.description = description
        self.context = context
        self.is_open = True
        self.unknown_actions_total = 0
        self.in_flight = 0
        self.last_used_us = 0  # when a call has ended
        self.idle_handler: Callable[[], None] | None = None
        self.closing_handler: Callable[[], None] | None = None
        self.served: dict[str, Served] = {
            name: Served(
                method, *invocations[name], _chain(interceptors, name), MethodFigures(), bool(method.references)
            )
            for name, method in description.methods.items()
        }
        self._memory = memory
        self._temporaries = temporaries
        self._has_debug_info = has_debug_info
        self._now_us = clock.monotonic_us
        self._stepper = Stepper(context)

    def submit(self, call: IncomingCall, done: Done) -> None:
        """As `dispatch`, soon; from any thread. Raises LimitExceeded where too much is waiting in the context."""
        self.context.run(self._dispatch_submitted, (call, done))

    def dispatch(self, call: IncomingCall, done: Done) -> None:
        """Execute the call; `done` gets the outcome once, in this context, perhaps before this returns."""
        served = self.served.get(call.action)
        # Checked in the context, not in `submit`: a call may wait there while the service is unbound.
        if served is None or not self.is_open:
            done(self._refusal(call))
            return
        figures = served.figures
        figures.requests_total += 1
        self.in_flight += 1
        token = CURRENT_CALL.set(call)
        # The copy is the call's own: `current_call` finds it there, and in every task that the implementation starts.
        execution = Execution(self, served, call, done, copy_context(), self._now_us())
        CURRENT_CALL.reset(token)
        if served.chain:
            self._stepper.run(_pass(served.chain, call), execution.variables, execution.passed)
        else:
            execution.begin_execution()

    def close(self) -> None:
        """Refuse calls from now on."""
        self.is_open = False

    def end(self) -> None:
        """No call is under way any more, and none will come."""
        self._stepper.close()

    def failure_of(self, error: BaseException, where: str) -> Failure:
        """Convert an error to a failure; report one that is no ServiceError."""
        if isinstance(error, ServiceError):
            given = error.debug_info
            if given is None and self._has_debug_info and error.__cause__ is not None:
                given = debug_info(error.__cause__)
            return Failure(error.code, error.message, _info_to_builtins(given))
        # The context was closed under the call: how much of it was done is not known.
        if isinstance(error, asyncio.CancelledError):
            return Failure(OUTCOME_UNKNOWN_CODE, f"the service was closed while it executed {where!r}")
        self.context.fail(error)
        if not self._has_debug_info:  # an exception's text was not written for outsiders
            return Failure(FAULT_CODE, f"the implementation of {where!r} raised {type(error).__name__}")
        return Failure(FAULT_CODE, str(error) or type(error).__name__, debug_info(error))

    def publish(self, call: IncomingCall, method: MethodDescription, value: Any, variables: Variables) -> Outcome:
        """Bind a stream or a reference and return the outcome for the caller.

        Raises DispatchFailed, or LimitExceeded.
        """
        if self._temporaries is None:
            raise DispatchFailed(f"{method.name!r} returns a {method.kind.value}, which cannot be had here")
        return self._temporaries.publish(call, method, value, variables, self.context)

    def receive_references(self, call: IncomingCall, method: MethodDescription, arguments: Struct) -> None:
        """Make proxies of the references among the arguments. Raises BadArguments, DispatchFailed."""
        from hutong.rpc.calling.references import receive_arguments

        if self._temporaries is None:
            raise DispatchFailed(f"{method.name!r} takes a reference, which cannot be passed here")
        receive_arguments(method, arguments, self._temporaries.caller_for(call).received)

    def _dispatch_submitted(self, submitted: tuple[IncomingCall, Done]) -> None:
        self.dispatch(*submitted)

    def _refusal(self, call: IncomingCall) -> Outcome:
        if not self.is_open:
            text = f"the service at {call.address!r} has been unbound"
        elif not call.action:
            text = "action not specified"  # the words of Vert.x
        else:
            text = f"Invalid action: {call.action}"
        self.unknown_actions_total += 1
        return Outcome(failure=Failure(DISPATCH_CODE, text))


class Execution(Struct, eq=False):
    """One call on its way through the chain."""

    dispatcher: Dispatcher
    served: Served
    call: IncomingCall
    done: Done
    variables: Variables
    begun_us: int

    def passed(self, value: object, error: BaseException | None) -> None:
        """Continue after the interceptors, or fail with the error of one."""
        if error is not None:
            failure = self.dispatcher.failure_of(error, self.call.action)
            # A fault of an interceptor: the implementation was not called, which this code tells the caller.
            if failure.code == FAULT_CODE and not isinstance(error, ServiceError):
                failure = Failure(DISPATCH_CODE, failure.message, failure.debug_info)
            if self.served.has_references:
                self._drop_references()
            self.finish(Outcome(failure=failure))
        else:
            self.begin_execution()

    def _drop_references(self) -> None:
        """Report what a refused call has passed as dropped; its caller would keep it until it is idle."""
        # Arguments that cannot be read have nothing to report.
        with suppress(HutongError):
            arguments = self.call.arguments(self.served.method.arguments_type)
            self.dispatcher.receive_references(self.call, self.served.method, arguments)

    def begin_execution(self) -> None:
        """Execute it, unless it is remembered."""
        memory, call = self.dispatcher._memory, self.call
        if memory is not None:
            memory.begin_call(call, self.execute, self.finish)
        # A call that must not run twice is refused where it would not be remembered.
        elif call.header_pairs and NEEDS_MEMORY in call.headers:
            text = f"the service at {call.address!r} remembers no calls; bind it with deduplicate=Deduplication()"
            self.finish(Outcome(failure=Failure(DISPATCH_CODE, text)))
        else:
            self.execute(self.finish)

    def execute(self, then: Done) -> None:
        """Decode the arguments and run the implementation."""
        served = self.served
        try:
            arguments = self.call.arguments(served.method.arguments_type)
            if served.has_references:
                self.dispatcher.receive_references(self.call, served.method, arguments)
            result = self.variables.run(served.invoke, arguments) if served.is_plain else served.invoke(arguments)
        except Exception as error:  # noqa: BLE001  # a supervisor: implementations are other people's code
            self._end(then, None, error)
            return
        # The usual case, by a comparison that costs less than `isawaitable`.
        if type(result) is CoroutineType:
            self.dispatcher._stepper.run(result, self.variables, partial(self._end, then))
        elif isawaitable(result):
            self.dispatcher._stepper.run(_awaited(result), self.variables, partial(self._end, then))
        else:
            self._end(then, result, None)

    def _end(self, then: Done, value: Any, error: BaseException | None) -> None:
        if error is None:
            if self.served.method.kind is ResultKind.UNARY:
                then(Outcome(value))
                return
            try:
                outcome = self.dispatcher.publish(self.call, self.served.method, value, self.variables)
            except Exception as wrong:  # noqa: BLE001  # a supervisor: such as a bound that is reached
                error = wrong
            else:
                then(outcome)
                return
        then(Outcome(failure=self.dispatcher.failure_of(error, self.call.action)))

    def finish(self, outcome: Outcome) -> None:
        """Count the outcome, and pass it on."""
        dispatcher, figures = self.dispatcher, self.served.figures
        now_us = dispatcher.last_used_us = dispatcher._now_us()
        spent_us = now_us - self.begun_us
        figures.ended_total += 1
        figures.processing_us_total += spent_us
        if spent_us > figures.processing_us_max:
            figures.processing_us_max = spent_us
        if outcome.failure is not None:
            figures.errors_total += 1
            figures.last_error = f"{outcome.failure.code}: {outcome.failure.message}"
        dispatcher.in_flight -= 1
        try:
            self.done(outcome)
        finally:
            # In `finally`: an answer that cannot be sent must not keep an unbind waiting.
            if dispatcher.closing_handler is not None and self.served.method.closes:
                dispatcher.closing_handler()
            if not dispatcher.in_flight and dispatcher.idle_handler is not None:
                dispatcher.idle_handler()


def debug_info(error: BaseException) -> DebugInfo:
    """Return the cause of a failure in the form of Vert.x's `includeDebugInfo`."""
    lines = traceback.format_tb(error.__traceback__)[-STACK_LINES_MAX:]
    kind = type(error)
    return {
        "causeName": f"{kind.__module__}.{kind.__qualname__}",
        "causeMessage": str(error),
        "causeStackTrace": [line.strip() for line in lines],
    }


def _chain(interceptors: tuple[Interceptor, ...], name: str) -> tuple[Interceptor, ...]:
    return tuple([one for one in interceptors if one.actions is None or name in one.actions])


async def _pass(chain: tuple[Interceptor, ...], call: IncomingCall) -> None:
    for one in chain:
        result = one.function(call)
        if isawaitable(result):
            await result


async def _awaited(result: Any) -> Any:
    return await result


def _info_to_builtins(given: DebugInfo | None) -> DebugInfo | None:
    if given is None:
        return None
    try:
        return dict(to_builtins(given))
    except (TypeError, ValueError):
        return {"unsayable": repr(given)[:1_000]}
