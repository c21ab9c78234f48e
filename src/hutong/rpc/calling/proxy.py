"""Proxies: objects with a Protocol's methods, each of which is a call.

Strategy: a method is a closure over its call site, made when it is first asked for: so `with_options` costs one small
object, and a call costs what the arguments, a future and the transport cost.

Knows no transport.
"""

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, Unpack, cast

from hutong.bus.options import GivenHeaders
from hutong.foundation.errors import HutongError, UsageError
from hutong.rpc.call import PROXY_ADDRESS, STREAM_ADDRESS, Outcome
from hutong.rpc.calling.leases import ReferenceLease
from hutong.rpc.calling.references import receive_result
from hutong.rpc.calling.transport import CallSite, OutgoingCall, Transport
from hutong.rpc.descriptions.description import IS_BASE, MethodDescription, ResultKind, ServiceDescription
from hutong.rpc.errors import BadReply, NoService, ReferenceGone, error_of
from hutong.rpc.options import CallOptions, Delivery, GivenOptions

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller

P = TypeVar("P")
Settle = Callable[[Outcome], Any]


async def ended(transport: Transport, call: OutgoingCall, timeout_ms: int) -> Outcome | HutongError:
    """Make a call, and wait for its outcome. Cancelling the wait abandons the call."""
    future: asyncio.Future[Outcome | HutongError] = get_running_loop().create_future()
    abandon = transport.begin_call(call, timeout_ms, partial(_settle, future))
    try:
        return await future
    except asyncio.CancelledError:
        abandon()
        raise


def _settle(future: "asyncio.Future[Outcome | HutongError]", outcome: Outcome | HutongError) -> None:
    if not future.done():
        future.set_result(outcome)  # raised where it is awaited, with the stack of the caller


class Target(NamedTuple):
    """The service that a proxy calls, and its call options."""

    caller: "Caller"
    description: ServiceDescription
    address: str
    options: CallOptions
    is_reference: bool = False  # it may be released, and then nothing is at the address again
    lease: ReferenceLease | None = None  # of an object that was passed or returned: released with the last proxy


class Service(Protocol):
    """Optional base of a declared service: gives its proxies a `with_options` that type checkers know.

    @service("orders")
    class Orders(Service, Protocol): ...
    """

    def with_options(self, **given: Unpack[GivenOptions]) -> Self:
        """The same service, called otherwise; see `hutong.rpc.with_options`."""
        raise UsageError("with_options() is for a proxy; this is an implementation.")


setattr(Service, IS_BASE, True)  # not in the class: it would be one of the Protocol's members


def with_options(
    proxy: P,
    *,
    timeout: float | None = None,
    headers: GivenHeaders = None,
    retries: int | None = None,
    request_id: str | None = None,
    delivery: Delivery | None = None,
) -> P:
    """Return a proxy for the same service with other options; options that are not given stay.

    `timeout` is in seconds, for a call as a whole; `headers` are added to the existing ones; `request_id` is for one
    call, and the proxy should not be used for a second. Raises TypeError or ValueError for invalid values, and
    UsageError for an object that is no proxy.
    """
    if not isinstance(proxy, Proxy):
        raise UsageError(f"with_options() is for a proxy, not for a {type(proxy).__name__}.")
    options = proxy._hutong.options.changed(
        timeout=timeout, headers=headers, retries=retries, request_id=request_id, delivery=delivery
    )
    return cast("P", type(proxy)(proxy._hutong._replace(options=options)))


class Proxy:
    """Calls a service. Made by `Rpc.proxy`; any number of proxies may call the same service."""

    def __init__(self, target: Target) -> None:
        self._hutong = target

    def with_options(self, **given: Unpack[GivenOptions]) -> Self:
        """The same service, called otherwise; see `hutong.rpc.with_options`."""
        target = self._hutong
        return type(self)(target._replace(options=target.options.changed(**given)))

    def __getattr__(self, name: str) -> Any:
        target: Target = self.__dict__.get("_hutong") or _unmade()
        method = target.description.methods.get(name)
        if method is None:
            raise AttributeError(f"{target.description.name} has no method {name!r}")
        made = self.__dict__[name] = _method(Bound(target, method))
        return made

    def __eq__(self, other: object) -> bool:
        """Two proxies are equal if they call the same object by the same way; options do not count."""
        return isinstance(other, Proxy) and self._called == other._called

    def __hash__(self) -> int:
        return hash(self._called)

    @property
    def _called(self) -> tuple[int, str, str]:
        # Not the options: they say how it is called, and not what.
        target = self._hutong
        return id(target.caller), target.description.name, target.address

    def __repr__(self) -> str:
        return f"<proxy of {self._hutong.description.name} at {self._hutong.address!r}>"


class Bound:
    """One method of one proxy: all that a call needs but its arguments."""

    __slots__ = ("errors", "make", "method", "site", "target", "timeout_ms", "transport")

    def __init__(self, target: Target, method: MethodDescription) -> None:
        self.target = target
        self.method = method
        self.site = CallSite(target.address, method.name, method, target.options.headers)
        self.make = method.arguments_type
        self.errors = target.description.errors
        self.timeout_ms = target.options.timeout_ms
        self.transport: Transport = target.caller.transport_for(target.options, target.description.address)
        # Around the others, so that retries repeat an address, and not the binding of an object.
        if method.references:
            is_repeated = target.options.delivery is not Delivery.AT_MOST_ONCE
            self.transport = target.caller.referring(self.transport, is_repeated=is_repeated)

    def result_of(self, outcome: Outcome) -> Any:
        """Return the caller's result. Raises the service's failure, or BadReply."""
        if outcome.failure is not None:
            raise error_of(outcome.failure, self.errors)
        if self.method.kind is ResultKind.UNARY:
            return outcome.value
        return self._made(outcome)

    def error_of(self, error: HutongError) -> HutongError:
        """Return what the caller gets for a call that nobody answered."""
        # At a declared address a service may be bound again; at that of a reference nothing will be.
        if self.target.is_reference and isinstance(error, NoService):
            return ReferenceGone(f"{self.target.description.name}.{self.method.name}: the object is released: {error}")
        return error

    def _made(self, outcome: Outcome) -> Any:
        if self.method.kind is ResultKind.REFERENCES:
            return receive_result(self.method, outcome.value, self._reference)
        name = PROXY_ADDRESS if self.method.kind is ResultKind.REFERENCE else STREAM_ADDRESS
        address = next((value for given, value in outcome.headers if given.lower() == name), None)
        if address is None:
            raise BadReply(f"the answer to {self.method.name!r} has no header {name!r}")
        target = self.target
        if self.method.kind is ResultKind.REFERENCE:
            return target.caller.reference(self.method.result_type, address, target.options)
        options = target.options.changed(delivery=Delivery.AT_MOST_ONCE)
        from hutong.rpc.calling.stream_reader import read_stream

        return read_stream(target.caller.transport, address, self.method, options, self.errors, target.lease)

    def _reference(self, protocol: type, address: Any) -> Proxy:
        return self.target.caller.reference(protocol, address, self.target.options)


def _method(bound: Bound) -> Callable[..., Any]:
    function = _awaited_method(bound) if bound.method.is_awaited else _stream_method(bound)
    function.__name__ = bound.method.name
    function.__qualname__ = f"{bound.target.description.name}.{bound.method.name}"
    function.__doc__ = bound.method.documentation
    function.__hutong_call__ = bound  # type: ignore[attr-defined]
    return function


def _awaited_method(bound: Bound) -> Callable[..., Any]:
    """The method itself. It repeats `ended` in place, since every call pays for it."""
    make, site, timeout_ms, begin_call = bound.make, bound.site, bound.timeout_ms, bound.transport.begin_call
    is_unary = bound.method.kind is ResultKind.UNARY

    async def call(*arguments: Any, **named: Any) -> Any:
        future: asyncio.Future[Outcome | HutongError] = get_running_loop().create_future()
        abandon = begin_call(OutgoingCall(site, make(*arguments, **named)), timeout_ms, partial(_settle, future))
        try:
            outcome = await future
        except asyncio.CancelledError:
            abandon()
            raise
        if not isinstance(outcome, Outcome):
            raise bound.error_of(outcome)
        if is_unary and outcome.failure is None:
            return outcome.value
        return bound.result_of(outcome)

    return call


def _stream_method(bound: Bound) -> Callable[..., Any]:
    open_stream = _awaited_method(bound)

    def call(*arguments: Any, **named: Any) -> Any:
        from hutong.rpc.calling.stream_reader import read_lazily

        bound.make(*arguments, **named)  # invalid arguments raise here, not at the first item
        return read_lazily(lambda: open_stream(*arguments, **named))

    return call


def _unmade() -> Target:
    raise AttributeError("a proxy is made by Rpc.proxy")
