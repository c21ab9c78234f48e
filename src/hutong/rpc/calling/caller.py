"""Callers: proxies, and calls by name, over one transport.

Knows no transport and no services of its own: `Rpc` adds those.
"""

import asyncio
import concurrent.futures
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar, cast, overload

from hutong.bus.options import GivenHeaders
from hutong.foundation.errors import HutongError, UsageError
from hutong.rpc.call import Outcome
from hutong.rpc.calling.leases import ReferenceLeases
from hutong.rpc.calling.proxy import Bound, Proxy, Target, ended
from hutong.rpc.calling.references import BLOCKS, Exporter, ReferringTransport
from hutong.rpc.calling.transport import CallSite, OutgoingCall, Transport
from hutong.rpc.delivery_port import MakeReliable
from hutong.rpc.descriptions.description import describe
from hutong.rpc.descriptions.references import is_unguessable
from hutong.rpc.errors import error_of
from hutong.rpc.options import DEFAULT, RETRIES_DEFAULT, CallOptions, Delivery
from hutong.rpc.tracing import CallTracer
from hutong.runtime.contexts.contexts import CURRENT, Context, ContextKind, current_context

T = TypeVar("T")
P = ParamSpec("P")
TIMEOUT_S: Final = 30.0


class Caller:
    """Calls services over one transport. `make_reliable` wraps it for deliveries that try again.

    `exporter` binds objects that are passed to services.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        make_reliable: MakeReliable | None = None,
        exporter: Exporter | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.transport = transport
        self._exporter = exporter
        self._tracer: CallTracer | None = None
        self._make_reliable = make_reliable
        self._loop = loop or asyncio.get_running_loop()
        self._leases = ReferenceLeases(transport, self._loop)

    def proxy(
        self,
        protocol: Callable[..., T],
        *,
        address: str | None = None,
        timeout: float = TIMEOUT_S,
        headers: GivenHeaders = None,
        retries: int = RETRIES_DEFAULT,
        delivery: Delivery = Delivery.AT_MOST_ONCE,
    ) -> T:
        """An object that calls the service at `address`, by default the one of the declaration.

        `timeout` is in seconds, for a call as a whole. Nothing is looked up: a missing service shows at the first call.
        Raises UsageError for a class that is no declared service, TypeError and ValueError for invalid options.

        The parameter's type is the Protocol itself; it is written as a callable because type checkers refuse a Protocol
        where a `type[T]` is asked for.
        """
        description = describe(protocol)
        options = DEFAULT.changed(timeout=timeout, headers=headers, retries=retries, delivery=delivery)
        return cast("T", Proxy(Target(self, description, address or description.address, options)))

    def call(
        self,
        address: str,
        action: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result: Any = Any,
        timeout: float = TIMEOUT_S,
        headers: GivenHeaders = None,
        retries: int = RETRIES_DEFAULT,
        request_id: str | None = None,
        delivery: Delivery = Delivery.AT_MOST_ONCE,
    ) -> Awaitable[Any]:
        """Call by name, without a Protocol. `result` is a type to convert the result to; without, it is as JSON has it.

        Raises a CallFailed: a ServiceError with its code, since no classes are declared here.
        """
        options = DEFAULT.changed(
            timeout=timeout, headers=headers, retries=retries, request_id=request_id, delivery=delivery
        )
        site = CallSite(address, action, None, options.headers, result)
        return _ended(self.transport_for(options, address), OutgoingCall(site, arguments or {}), options.timeout_ms)

    @overload
    def go(self, method: str, action: str, arguments: Mapping[str, Any] | None = None, /) -> "asyncio.Future[Any]": ...
    @overload
    def go(
        self, method: Callable[P, Awaitable[T]], /, *arguments: P.args, **named: P.kwargs
    ) -> "asyncio.Future[T]": ...
    def go(self, method: Any, /, *arguments: Any, **named: Any) -> "asyncio.Future[Any]":
        """Start a call now: `go(orders.place, "apple")`, or by name `go("orders", "place", {...})`. Return its future.

        For the event loop; a thread without one takes `go_from_thread`. Cancelling the future abandons the call. A
        failure that is never retrieved goes to the exception handler of the caller's context, else to that of the event
        loop, which logs it.
        """
        future = _Going(loop=get_running_loop())
        # Taken now: `__del__` runs on any thread, where another context or none is current.
        future.context = current_context()
        call, timeout_ms, bound = self._prepared(method, arguments, named)
        transport = self.transport_for(DEFAULT, call.address) if bound is None else bound.transport

        def done(outcome: Outcome | HutongError) -> None:
            if future.done():
                return
            try:
                future.set_result(_result(outcome, bound))
            except HutongError as error:
                future.set_exception(error)

        abandon = transport.begin_call(call, timeout_ms, done)
        future.add_done_callback(lambda ended: abandon() if ended.cancelled() else None)
        return future

    @overload
    def go_from_thread(
        self, method: str, action: str, arguments: Mapping[str, Any] | None = None, /
    ) -> concurrent.futures.Future[Any]: ...
    @overload
    def go_from_thread(
        self, method: Callable[P, Awaitable[T]], /, *arguments: P.args, **named: P.kwargs
    ) -> concurrent.futures.Future[T]: ...
    def go_from_thread(self, method: Any, /, *arguments: Any, **named: Any) -> concurrent.futures.Future[Any]:
        """As `go`, for threads that run no event loop: `.result()` blocks until the call has ended."""

        context = current_context()

        async def call() -> Any:
            # A context whose thread blocks in `.result()` could run neither the answer's handler nor a callback.
            if context is not None and context.kind is not ContextKind.EVENT_LOOP:
                CURRENT.set(None)
                BLOCKS.set(True)
            return await self.go(method, *arguments, **named)

        future = _GoingFromThread(self._loop, context)
        future.follow(asyncio.run_coroutine_threadsafe(call(), self._loop))
        return future

    def set_tracer(self, tracer: "CallTracer | None") -> None:
        """Report to it every call of proxies made from now on, and every call by name."""
        self._tracer = tracer

    def release(self, passed: object) -> bool:
        """Let services call an object no more that was passed to them. False if none can call it now.

        Calls of the proxies that they still have raise ReferenceGone.
        """
        return self._exporter is not None and self._exporter.release(passed)

    def referring(self, transport: Transport, *, is_repeated: bool) -> Transport:
        """For proxies: what carries the calls of a method that takes references."""
        return ReferringTransport(transport, self._exports(), is_repeated=is_repeated)

    def received(self, protocol: type, address: str) -> Proxy:
        """For services: the proxy of an object that was passed. Its caller hears when the last one is dropped."""
        lease = self._leases.take(address)
        return Proxy(Target(self, describe(protocol), address, DEFAULT, is_reference=True, lease=lease))

    def reference(self, protocol: type, address: Any, options: CallOptions) -> Proxy:
        """For proxies: the proxy of an object that a service returned; released with the last one."""
        # The object keeps no memory of calls, so a delivery that repeats them could not keep its promise.
        options = options.changed(delivery=Delivery.AT_MOST_ONCE)
        # A peer chooses this address. Only at a UUID may a report of ours arrive, and not at some service or topic.
        lease = self._leases.take(address) if is_unguessable(address) else None
        return Proxy(Target(self, describe(protocol), address, options, is_reference=True, lease=lease))

    def _exports(self) -> Exporter:
        if self._exporter is None:
            raise UsageError("an object cannot be passed to a service over this transport.")
        return self._exporter

    def transport_for(self, options: CallOptions, service: str) -> Transport:
        """For proxies: what carries calls with these options. `service` is what tracing calls their service."""
        transport = self._transport_for(options)
        return transport if self._tracer is None else self._tracer.carrying(transport, service)

    def _transport_for(self, options: CallOptions) -> Transport:
        # A plain call needs no retries and no id, and pays for neither.
        if options.delivery is Delivery.AT_MOST_ONCE and options.request_id is None:
            return self.transport
        if self._make_reliable is None:
            raise UsageError(f"calls of delivery {options.delivery.value!r} are not possible over this transport.")
        return self._make_reliable(self.transport, options)

    def _prepared(
        self, method: Any, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[OutgoingCall, int, Bound | None]:
        if isinstance(method, str):
            # `dict()` of no argument is empty: a call by name may leave its arguments out.
            return OutgoingCall(CallSite(method, arguments[0]), dict(*arguments[1:])), DEFAULT.timeout_ms, None
        bound = getattr(method, "__hutong_call__", None)
        if not isinstance(bound, Bound):
            raise UsageError(f"go() takes a method of a proxy, or an address and an action, not {method!r}.")
        return OutgoingCall(bound.site, bound.make(*arguments, **named)), bound.timeout_ms, bound


class _Going(asyncio.Future[Any]):
    """The future of a call. If it failed and is collected unread, its error is reported."""

    context: Context | None = None

    def __del__(self) -> None:
        # asyncio's own flag: set with an exception, cleared when the exception is retrieved
        # Before `super().__del__`, which reports to the loop what no context has taken.
        if self._log_traceback and self.context is not None:
            error = self.exception()
            assert error is not None
            error.add_note("go() made this call, and nobody has asked for its outcome")
            self.context.fail(error)
        super().__del__()


class _GoingFromThread(concurrent.futures.Future[Any]):
    """The future of a call from a thread. An error that nobody asked it for is reported when the future goes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        super().__init__()
        self._loop = loop
        self._context = context
        self._is_asked = False

    def follow(self, call: concurrent.futures.Future[Any]) -> None:
        """End as the call ends, and cancel the call when this future is cancelled."""
        followed = [call]  # cleared at the end: a cycle would put off `__del__` to the garbage collector

        def call_ended(call: concurrent.futures.Future[Any]) -> None:
            followed.clear()
            if call.cancelled():
                self.cancel()
            if not self.set_running_or_notify_cancel():
                return  # cancelled, perhaps by this thread just now
            error = call.exception()
            if error is None:
                self.set_result(call.result())
            else:
                self.set_exception(error)

        self.add_done_callback(lambda _: followed[0].cancel() if followed else None)
        call.add_done_callback(call_ended)

    def result(self, timeout: float | None = None) -> Any:
        self._is_asked = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._is_asked = True
        return super().exception(timeout)

    def __del__(self) -> None:
        if self._is_asked or not self.done() or self.cancelled():
            return
        error = super().exception()
        if error is None:
            return
        error.add_note("go_from_thread() made this call, and nobody has asked for its outcome")
        if self._context is not None:
            self._context.fail(error)
        elif not self._loop.is_closed():
            context = {"message": "the failure of a call from a thread was never retrieved", "exception": error}
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)


async def _ended(transport: Transport, call: OutgoingCall, timeout_ms: int) -> Any:
    return _result(await ended(transport, call, timeout_ms), None)


def _result(outcome: Outcome | HutongError, bound: Bound | None) -> Any:
    if isinstance(outcome, HutongError):
        raise outcome if bound is None else bound.error_of(outcome)
    if bound is not None:
        return bound.result_of(outcome)
    if outcome.failure is not None:
        raise error_of(outcome.failure, {})
    return outcome.value
