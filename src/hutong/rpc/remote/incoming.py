"""Incoming calls of a connection, passed to the services bound on this side.

Strategy: a call is one object: the incoming call that interceptors see, and the receiver of the outcome (`finish`). It
needs no task and no timer. A call that cannot be dispatched is answered at once with a failure that names its side. The
calls in progress are bounded for each connection and for all; one more is refused with the name of the bound. The
remoting reads no more from a peer that does not read its answers, so those are bounded as well.

Knows services only by their dispatchers.
"""

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, LimitExceeded, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.remoting.channels.answers import frame_of
from hutong.remoting.channels.channel import Channel
from hutong.rpc.call import REFERENCES_MAX, IncomingCall, Outcome
from hutong.rpc.descriptions.conversion import bad_arguments, result_from
from hutong.rpc.errors import DISPATCH_CODE, BadReply, Failure
from hutong.rpc.remote import wire
from hutong.rpc.serving.binding import DispatcherRotation
from hutong.wire.rocketmq.command import BINARY, Command, encode_ext

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller

A = TypeVar("A")
DRAINED: Final = "drained"
CONNECTION_CALLS: Final = "rpc.connection_calls"
"""Attribute of a channel."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds of calls under way, and of references. Raises ValueError for a bound below one."""

    calls_per_connection_max: int = 1_024
    calls_max: int = 16_384
    references_per_connection_max: int = REFERENCES_MAX

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")


class DispatcherFinder(Protocol):
    """The part of an `Rpc` that finds dispatchers."""

    def find(self, address: str) -> DispatcherRotation | None: ...


class ConnectionCalls:
    """The calls of one connection: `calls` are under way."""

    __slots__ = ("calls", "channel")

    def __init__(self, channel: Channel) -> None:
        self.calls = 0
        self.channel = channel


class IncomingCalls:
    """The processor of calls, on one loop, which is that of the services.

    `calls` counts those under way; when it is zero, nothing is held for any caller.
    """

    def __init__(
        self,
        services: DispatcherFinder,
        loop: AbstractEventLoop,
        clock: Clock,
        limits: CallLimits | None = None,
        *,
        caller_over: "Callable[[Channel], Caller]",
    ) -> None:
        """`caller_over` makes the caller of services at a channel's peer."""
        self.limits = limits or CallLimits()
        self.caller_over = caller_over
        self.calls = 0
        self.refused_total = 0
        self._find = services.find
        self._loop = loop
        self._now_ms = clock.monotonic_ms
        self._drained: WaitTable[None] | None = None  # once no more calls are taken
        self._heads = wire.Heads()
        self._decoders: dict[type, Callable[[Any], Any]] = {}  # by struct of arguments: as many as there are methods

    def receive(self, command: Command, channel: Channel) -> Command | None:
        """Begin a call, or say why not. For the remoting: the processor of CALL."""
        block = command.ext_block
        try:
            # A frame with a JSON header has no ext block: it is made, so that one cache of heads serves both kinds of
            # header.
            head = self._heads.read(encode_ext(command.ext()) if block is None else block)
        except (ProtocolError, ValueError) as error:
            return self._refusal(str(error))
        # After `drain` no call begins, so that those under way can end within the grace.
        if self._drained is not None:
            return self._refusal("the node stops", wire.FailureKind.NO_SERVICE)
        rotation = self._find(head.address)
        # A reference is for the connection that it was given to: elsewhere its address says nothing.
        if rotation is None or (rotation.owner is not None and rotation.owner is not channel.owner):
            return self._refusal(f"nobody is bound at {head.address!r}", wire.FailureKind.NO_SERVICE)
        # Counted for each connection as well, or one client could take all of `calls_max`.
        connection: ConnectionCalls | None = channel.attributes.get(CONNECTION_CALLS)
        if connection is None:
            connection = channel.attributes[CONNECTION_CALLS] = ConnectionCalls(channel)
        if connection.calls >= self.limits.calls_per_connection_max or self.calls >= self.limits.calls_max:
            return self._overload(connection)
        call = RemoteCall(
            head.address,
            head.action,
            head.headers,
            channel,
            channel.owner,
            None if head.timeout_ms is None else self._now_ms() + head.timeout_ms,
            command=command,
            connection=connection,
            calls=self,
        )
        connection.calls += 1
        self.calls += 1
        try:
            (rotation.only or rotation.next_dispatcher()).submit(call, call.finish)
        except LimitExceeded as error:
            # The call is counted already, so it ends as any other does.
            call.finish(Outcome(failure=Failure(DISPATCH_CODE, str(error))))
        return None

    async def drain(self, wheel: TimerWheel, grace_ms: int) -> None:
        """Take no more calls, and let those under way be answered; after the grace, no longer."""
        self._drained = WaitTable("drain_waiters_max", wheel, 1)
        if self.calls:
            with suppress(Expired):
                await self._drained.wait(DRAINED, deadline_ms=self._now_ms() + grace_ms)

    def decoder(self, kind: type[A]) -> Callable[[Any], A]:
        decode = self._decoders.get(kind)
        if decode is None:
            decode = self._decoders[kind] = msgspec.msgpack.Decoder(kind).decode
        return decode

    def decoded(self, call: "RemoteCall", value: Any) -> Any:
        """A result that was kept as JSON has it, in its own type. Raises ValueError."""
        rotation = self._find(call.address)
        method = None if rotation is None else rotation.dispatchers[0].description.methods.get(call.action)
        try:
            return value if method is None else result_from(value, method.wire_type, call.action)
        except BadReply as error:
            raise ValueError(str(error)) from None

    def finished(self, call: "RemoteCall", code: int, block: bytes, body: bytes, remark: bytes) -> None:
        """The call is over: from any thread."""
        if _get_running_loop() is self._loop:
            self._answer(call, code, block, body, remark)
        # A worker may finish after the node has stopped: then there is no connection to answer on.
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._answer, call, code, block, body, remark)

    def _answer(self, call: "RemoteCall", code: int, block: bytes, body: bytes, remark: bytes) -> None:
        connection: ConnectionCalls = call.connection
        command: Command = call.command
        self.calls -= 1
        connection.calls -= 1
        if not self.calls and self._drained is not None:
            self._drained.resume_all(DRAINED, None)
        if command.serialization == BINARY:
            # While other calls of the connection are under way, their answers may share a write with this one.
            connection.channel.answer(command.opaque, code, block, body, remark, at_once=not connection.calls)
        else:
            answer = Command(code, ext_block=block, body=body, remark=remark.decode() or None)
            connection.channel.peer.push(frame_of(answer, command))

    def _overload(self, connection: ConnectionCalls) -> Command:
        limits = self.limits
        if connection.calls >= limits.calls_per_connection_max:
            text = f"calls_per_connection_max is {limits.calls_per_connection_max}"
        else:
            text = f"calls_max is {limits.calls_max}"
        return self._refusal(f"{text}, and so many are under way", wire.FailureKind.OVERLOADED)

    def _refusal(self, text: str, kind: wire.FailureKind = wire.FailureKind.SERVICE) -> Command:
        self.refused_total += 1
        block, remark, _ = wire.encode_failure(Failure(DISPATCH_CODE, text), kind)
        return Command(wire.FAILURE, ext_block=block, remark=remark.decode())


class RemoteCall(IncomingCall):
    """A call that came over a connection. `peer` is the connection's channel."""

    command: Any = None
    connection: Any = None
    calls: Any = None

    @property
    def origin(self) -> str:
        return str(self.peer.peer.address)

    @property
    def references_max(self) -> int:
        return int(self.calls.limits.references_per_connection_max)

    def caller(self) -> "Caller":
        return self.calls.caller_over(self.peer)  # type: ignore[no-any-return]

    def arguments(self, kind: type[A]) -> A:
        decode: Callable[[Any], A] = self.calls.decoder(kind)
        try:
            return decode(self.command.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise bad_arguments(self.action, error) from None

    def raw_arguments(self) -> Any:
        return self.arguments(dict)  # a map by name

    def finish(self, outcome: Outcome) -> None:
        """Answer the call. In any thread."""
        failure = outcome.failure
        if failure is None:
            try:
                # An outcome that was remembered is JSON; msgpack has types of its own for bytes and times.
                value = self.calls.decoded(self, outcome.value) if outcome.is_encoded else outcome.value
                body = wire.encode_body(value)
                block = wire.checked(wire.encode_headers(outcome.headers)) if outcome.headers else b""
            except ValueError as error:
                failure = Failure(DISPATCH_CODE, f"the result of {self.action!r} cannot be sent: {error}")
            else:
                self.calls.finished(self, wire.SUCCESS, block, body, b"")
                return
        block, remark, body = wire.encode_failure(failure)
        self.calls.finished(self, wire.FAILURE, block, body, remark)
