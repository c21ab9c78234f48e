"""Calls that go out over a connection: from whichever side opened it.

Strategy: what is the same for every call of one call site (its ext fields, the decoder of its result) is kept at the
site, so that a call costs its arguments, one frame and one parked wait. The wait is the remoting's own, so the channel
that gets the answer ends it, and so do the deadline and the end of the connection.

Knows nothing of how a connection is made, nor of what is done when it is lost.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, ProtocolError
from hutong.foundation.waiting.numbered import NumberedWait
from hutong.remoting.channels.answers import NOT_SUPPORTED, SYSTEM_BUSY
from hutong.remoting.channels.channel import Channel
from hutong.rpc.call import Outcome
from hutong.rpc.calling.elsewhere import begin_elsewhere
from hutong.rpc.calling.transport import Abandon, CallSite, Ended, OutgoingCall
from hutong.rpc.errors import BadReply, CallFailed, CallTimeout, ConnectionLost, NoService, NotConnected, Overloaded
from hutong.rpc.remote import wire
from hutong.wire.rocketmq.command import Command

REMOTING_ERRORS: Final[dict[int, type[CallFailed]]] = {SYSTEM_BUSY: Overloaded, NOT_SUPPORTED: NoService}
"""Answers of the remoting itself, by its codes."""
BY_NAME_MAX: Final = 1_024
"""Combinations of address, action, headers and result type that are kept of calls by name."""


class Prepared:
    """The shared parts of all calls of one site; `block` is for the timeout of the last one."""

    __slots__ = ("block", "decode", "site", "timeout_ms")

    def __init__(self, site: CallSite) -> None:
        self.block = b""
        self.decode: Callable[[Any], Any] = msgspec.msgpack.Decoder(site.result_type).decode
        self.site = site
        self.timeout_ms = -1

    def set_timeout(self, timeout_ms: int) -> None:
        """Raises ValueError for headers that are too long."""
        self.block = wire.encode_call(self.site.address, self.site.action, timeout_ms, self.site.headers)
        self.timeout_ms = timeout_ms

    def read(self, answer: Command | HutongError) -> Outcome | HutongError:
        """Convert an answer to the outcome of the call."""
        if isinstance(answer, HutongError):
            return self._failed(answer)
        try:
            if answer.code == wire.SUCCESS:
                headers = wire.decode_headers(answer.ext_block) if answer.ext_block else ()
                return Outcome(self.decode(answer.body), None, headers)
            return self._refused(answer)
        except (msgspec.MsgspecError, ProtocolError, RecursionError, UnicodeDecodeError) as error:
            return BadReply(f"the answer of {self} is not what its signature promises: {error}")
        except Exception as error:  # noqa: BLE001  # a supervisor: `__post_init__` of other people's types
            return BadReply(f"the answer of {self} cannot be converted: {type(error).__name__}: {error}")

    def __str__(self) -> str:
        return f"{self.site.address!r}.{self.site.action}"

    def _failed(self, error: HutongError) -> HutongError:
        if isinstance(error, CallFailed):
            return error
        if isinstance(error, Expired):
            return CallTimeout(f"no answer of {self} came in time")
        if isinstance(error, LimitExceeded):
            return Overloaded(f"{self} was not called: {error}")
        return ConnectionLost(f"no answer of {self} will come: {error}")

    def _refused(self, answer: Command) -> Outcome | HutongError:
        # A code of the remoting itself: the call reached no service.
        if answer.code != wire.FAILURE:
            kind = REMOTING_ERRORS.get(answer.code, CallFailed)
            return kind(f"{self} was not called: {answer.remark or f'code {answer.code}'}")
        whose, failure = wire.decode_failure(answer.ext_block or b"", answer.remark, answer.body)
        return Outcome(None, failure) if whose is wire.FailureKind.SERVICE else _NODES_OWN[whose](failure.message)


_NODES_OWN: Final[dict[wire.FailureKind, type[CallFailed]]] = {
    wire.FailureKind.NO_SERVICE: NoService,
    wire.FailureKind.OVERLOADED: Overloaded,
}


class AwaitedAnswer(NumberedWait[Command]):
    """An awaited answer. `done` gets the outcome of the call, on the connection's loop."""

    __slots__ = ("_done", "_prepared")

    def __init__(self, prepared: Prepared, done: Ended) -> None:
        self._prepared = prepared
        self._done = done

    def end(self, outcome: Command | HutongError) -> None:
        self._done(self._prepared.read(outcome))


class Preparations:
    """Prepared forms of calls. Those of calls by name are cached as well, up to a bound."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[Any, Prepared] = {}

    def ready(self, call: OutgoingCall, timeout_ms: int) -> tuple[Prepared, bytes, bytes]:
        """Return the prepared form of the call's site, the ext fields and the body.

        Raises ValueError for unencodable values.
        """
        prepared: Prepared | None = call.site.cache
        if prepared is None:
            prepared = call.site.cache = self._prepare(call.site)
        # The calls of a site mostly have one timeout, so its block is encoded once.
        if prepared.timeout_ms != timeout_ms:
            prepared.set_timeout(timeout_ms)
        block = prepared.block
        if call.headers:
            block = wire.checked(block + wire.encode_headers(call.headers))
        return prepared, block, wire.encode_body(call.arguments)

    def _prepare(self, site: CallSite) -> Prepared:
        if site.method is not None:
            return Prepared(site)
        key = (site.address, site.action, site.headers, site.result_type)
        try:
            prepared = self._by_name.get(key)
        except TypeError:  # a result type that is not hashable
            return Prepared(site)
        if prepared is None:
            prepared = Prepared(site)
            if len(self._by_name) >= BY_NAME_MAX:
                # A program that makes addresses up would fill it without end; those in use are back with their next
                # call.
                self._by_name.clear()
            self._by_name[key] = prepared
        return prepared


class ChannelTransport:
    """Carries calls over one channel, for as long as it lasts. From any thread: services call back from theirs."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = channel
        self._loop = loop
        self._preparations = Preparations()

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        """See Transport. Raises ValueError for arguments or headers that cannot be sent."""
        running = asyncio._get_running_loop()
        if running is None or running is self._loop:
            return self._begin_here(call, timeout_ms, done)
        return begin_elsewhere(self._loop, running, partial(self._begin_here, call, timeout_ms), done)

    def _begin_here(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        prepared, block, body = self._preparations.ready(call, timeout_ms)
        answer = AwaitedAnswer(prepared, done)
        begin_on_channel(self._channel, answer, block, body, timeout_ms)
        return answer.abandon


def begin_on_channel(channel: Channel, answer: AwaitedAnswer, block: bytes, body: bytes, timeout_ms: int) -> None:
    """Send a call. If it cannot be sent, the answer fails soon."""
    error: CallFailed
    if channel.owner.has_ended:
        error = NotConnected("the connection has ended")
    else:
        try:
            channel.begin(wire.CALL, block, body, timeout_ms, answer)
        except LimitExceeded as full:
            error = Overloaded(str(full))
        else:
            return
    # Soon and not here: the caller gets the function to abandon the call only on return.
    asyncio.get_running_loop().call_soon(answer.end, error)
