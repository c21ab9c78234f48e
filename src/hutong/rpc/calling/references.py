"""References at the sides of a call: objects become addresses at the caller, and addresses become proxies.

Strategy: only methods whose signature has references pay for them. At the caller a transport around the others binds
the objects before a call and unpins them after it. So proxies, `go`, retries and tracing need not know of them.

Knows no transport, and binding only by a port.
"""

from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from hutong.foundation.errors import HutongError, LimitExceeded, UsageError
from hutong.rpc.call import Outcome
from hutong.rpc.calling.transport import Abandon, Ended, OutgoingCall, Transport
from hutong.rpc.descriptions.description import MethodDescription
from hutong.rpc.descriptions.references import Counted, Exchange, WrongReference, checked_address
from hutong.rpc.errors import BadArguments, BadReply, NoService, Overloaded

BLOCKS: Final[ContextVar[bool]] = ContextVar("hutong_rpc_blocks", default=False)
"""True for a call that a worker made and waits for by blocking: its own context can run nothing meanwhile."""


class Exporter(Protocol):
    """Binds objects for the peer of one transport."""

    def export(self, protocol: type, value: object, *, is_repeated: bool) -> Any:
        """Bind it and keep it bound until `unpin`. Raises UsageError for what is no such service, LimitExceeded."""

    def unpin(self, temporary: Any, *, is_received: bool) -> None:
        """A call that passed it is over. Unless nobody has received it, its holder decides how long it lasts."""

    def release(self, value: object) -> bool:
        """Bind the object no more. False if it was not bound."""

    def close(self) -> None:
        """Release them all."""


class ReferringTransport:
    """Carries calls of methods that take references."""

    def __init__(self, transport: Transport, exporter: Exporter, *, is_repeated: bool) -> None:
        """`is_repeated` says that one call may be received more than once."""
        self._transport = transport
        self._exporter = exporter
        self._is_repeated = is_repeated

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        """Raises TypeError for an object that is no such service, Overloaded for more than may be passed."""
        # One for each call: calls of one proxy overlap, and each releases its own pins.
        passed = _Passed(self._exporter, self._is_repeated)
        method, arguments = call.method, call.arguments
        assert method is not None
        assert isinstance(arguments, msgspec.Struct)
        try:
            sent = OutgoingCall(call.site, passed.addressed(method, arguments), call.headers)
            abandon = self._transport.begin_call(sent, timeout_ms, partial(passed.ended, done))
        # The call never started, so neither its end nor its abandoning will release the objects.
        except BaseException:
            passed.unpin(is_received=False)
            raise
        return partial(passed.abandoned, abandon)


class _Passed:
    """The objects that one call passes. They stay bound at least until it is over."""

    __slots__ = ("_exporter", "_is_repeated", "_pinned")

    def __init__(self, exporter: Exporter, is_repeated: bool) -> None:
        self._exporter = exporter
        self._is_repeated = is_repeated
        self._pinned: list[Any] = []

    def addressed(self, method: MethodDescription, arguments: msgspec.Struct) -> msgspec.Struct:
        """A copy of the arguments, with addresses in the place of objects."""
        # One count for all parameters of the call.
        exchange = Counted(self._export)
        changes: dict[str, Any] = {}
        for parameter in method.references:
            assert parameter.shape is not None
            try:
                changes[parameter.name] = parameter.shape.exchanged(getattr(arguments, parameter.name), exchange)
            except (WrongReference, UsageError) as error:
                raise TypeError(f"{method.name}: the argument {parameter.name!r} is wrong: {error}") from None
            except LimitExceeded as error:
                raise Overloaded(f"{method.name!r} was not called: {error}") from None
        return msgspec.structs.replace(arguments, **changes)

    def _export(self, protocol: type, value: Any) -> str:
        exported = self._exporter.export(protocol, value, is_repeated=self._is_repeated)
        self._pinned.append(exported)
        address: str = exported.address
        return address

    def ended(self, done: Ended, outcome: Outcome | HutongError) -> None:
        # Of all failures these alone say that no service has seen the call.
        self.unpin(is_received=not isinstance(outcome, NoService | Overloaded))
        done(outcome)

    def abandoned(self, abandon: Abandon) -> object:
        self.unpin(is_received=True)
        return abandon()

    def unpin(self, *, is_received: bool) -> None:
        """Once: a call may be abandoned after its end."""
        pinned, self._pinned = self._pinned, []
        for exported in pinned:
            self._exporter.unpin(exported, is_received=is_received)


def receive_arguments(method: MethodDescription, arguments: msgspec.Struct, proxy: Exchange) -> None:
    """At the service: put proxies in the place of addresses. Raises BadArguments."""
    exchange = Counted(_checking(proxy))
    for parameter in method.references:
        assert parameter.shape is not None
        try:
            received = parameter.shape.exchanged(getattr(arguments, parameter.name), exchange)
        except WrongReference as error:
            text = f"{method.name}: the argument {parameter.name!r} is wrong: {error}"
            raise BadArguments(text) from None
        setattr(arguments, parameter.name, received)


def receive_result(method: MethodDescription, value: Any, proxy: Exchange) -> Any:
    """At the caller: the result with proxies in the place of addresses. Raises BadReply."""
    assert method.result_shape is not None
    try:
        return method.result_shape.exchanged(value, Counted(_checking(proxy)))
    except WrongReference as error:
        raise BadReply(f"the answer to {method.name!r} is not what its signature says: {error}") from None


def _checking(proxy: Exchange) -> Exchange:
    return lambda protocol, address: proxy(protocol, checked_address(address))
