"""The common part of server and client: a handler of the reactor that separates answers from requests.

Strategy: `request_received` runs for every frame, and is short for what is common: an answer ends its wait, a request
without hooks goes to its inline processor and a frame comes back. Everything else takes the longer way behind it.

How it is used: `register(code, process)`, then `RemotingServer.listen` or `RemotingClient.invoke`. Both sides have
processors and both can ask: a processor is given the channel the request came by, and asks back with
`channel.invoke(command)`, `channel.oneway(command)` or `channel.begin(...)`.

Knows no sockets: an acceptor or a connector brings frames.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Pending
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import CloseReason
from hutong.remoting.channels.answers import SYSTEM_BUSY, SYSTEM_ERROR, Answer, frame_of, refusal
from hutong.remoting.channels.channel import Channel, RequestAdmission
from hutong.remoting.channels.events import ChannelEventKind, ChannelEvents, Listener
from hutong.remoting.channels.hooks import Hook
from hutong.remoting.errors import AbortProcess
from hutong.remoting.limits import RemotingLimits
from hutong.remoting.work.driver import Executor
from hutong.remoting.work.processors import Process, ProcessorTable, Registration
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import IS_ONEWAY, IS_RESPONSE, Command, decode

_EVENT_OF: Final = {
    CloseReason.IDLE: ChannelEventKind.IDLE,
    CloseReason.PROTOCOL_ERROR: ChannelEventKind.EXCEPTION,
    CloseReason.FAULT: ChannelEventKind.EXCEPTION,
}


class RemotingFigures:
    """Totals since the start, as plain integers; the reactor has its own."""

    __slots__ = ("overloads_total", "unasked_total")

    def __init__(self) -> None:
        self.overloads_total = 0  # requests that found no room
        self.unasked_total = 0  # answers that nobody awaited (any more)


class Endpoint:
    """One side, on one loop. The wheel must be driven."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Clock, wheel: TimerWheel, limits: RemotingLimits
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.wheel = wheel
        self.limits = limits
        self.figures = RemotingFigures()
        self.events = ChannelEvents(loop, limits.events_max)
        self._channels: dict[int, Channel] = {}
        self._table = ProcessorTable()
        self._by_code = self._table.by_code
        self.hooks: list[Hook] = []

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All open channels."""
        return tuple(self._channels.values())

    def channel(self, number: int) -> Channel | None:
        """The open channel whose peer has this number."""
        return self._channels.get(number)

    @property
    def awaited(self) -> int:
        """The number of answers awaited, over all channels."""
        return sum([channel.awaited for channel in self._channels.values()])

    def register(
        self,
        code: int | None,
        process: Process,
        executor: Executor | None = None,
        *,
        rejects: Callable[[], bool] | None = None,
    ) -> None:
        """Have `process` do requests with this code, or (None) with those that no other does. See `processors`."""
        registration = Registration(process, executor, rejects)
        if code is None:
            self._table.default = registration
        else:
            self._table.register(code, registration)

    def add_hook(self, hook: Hook) -> None:
        """See `hooks`."""
        self.hooks.append(hook)

    def add_listener(self, listener: Listener) -> None:
        """Report channel events to `listener`, from now on."""
        self.events.listeners.append(listener)

    # For the reactor.

    def connection_opened(self, peer: Peer) -> None:
        channel = self._channels[peer.id] = Channel(peer, self._address_of(peer), self)
        self.events.report(ChannelEventKind.CONNECT, channel)
        self.events.report(ChannelEventKind.ACTIVE, channel)

    def request_received(self, frame: Buffer | Command, peer: Peer) -> Response:
        # The codec of a pipeline has decoded it. By its class: `isinstance` of a msgspec type, or a further method for
        # such commands, costs every request 3 to 10 % of its time here.
        command = frame if frame.__class__ is Command else decode(frame)  # type: ignore[arg-type]
        channel = self._channels[peer.id]
        flag = command.flag
        if flag & IS_RESPONSE:
            wait = channel.take(command.opaque)
            # The invocation has timed out, or the peer made the number up: counted, and ignored.
            if wait is None:
                self.figures.unasked_total += 1  # too late, or never asked
            else:
                wait.end(command)
            return None
        # Set only while a bound is near, so a healthy channel pays one test.
        if channel.is_slowed:
            admission = channel.admission()
            if admission is RequestAdmission.HOLD:
                return HELD
            if admission is RequestAdmission.REFUSE:
                return self._overloaded(command, channel, "too many requests are unanswered")
        registration = self._by_code.get(command.code) or self._table.default
        # `is_plain`: no executor and no `rejects`. The rest of this method is the common case alone.
        if not registration.is_plain or self.hooks:
            return self._process_carefully(registration, command, channel)
        try:
            answer = registration.process(command, channel)
        # The reactor closes the connection for it.
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001  # the supervisor of processors: the request is answered for
            answer = self._failed(command, error)
        if answer.__class__ is list and not flag & IS_ONEWAY:
            return answer  # a whole frame
        return self._finished(command, channel, answer)

    def connection_closed(self, peer: Peer) -> None:
        channel = self._channels.pop(peer.id)
        # Waits end before listeners hear of it: they may dial again at once.
        channel.ended()
        if peer.close_reason in _EVENT_OF:
            self.events.report(_EVENT_OF[peer.close_reason], channel)
        self.events.report(ChannelEventKind.CLOSE, channel)

    # For channels.

    def post(self, work: Callable[[], None]) -> None:
        """In another iteration of the loop."""
        self.loop.call_soon(work)

    def hooks_before(self, channel: Channel, request: Command) -> None:
        for hook in self.hooks:
            hook.before(channel.address, request)

    def hooks_after(self, channel: Channel, request: Command, answer: Command) -> None:
        for hook in self.hooks:
            hook.after(channel.address, request, answer)

    # Steps of the above.

    def _address_of(self, peer: Peer) -> str:
        return f"{peer.address}:{peer.port}"

    def _process_carefully(self, registration: Registration, command: Command, channel: Channel) -> Response:
        try:
            self.hooks_before(channel, command)
        # RocketMQ's AbortProcessException: a hook answers instead of the processor.
        except AbortProcess as error:
            return self._finished(command, channel, refusal(error.code, str(error)))
        if registration.rejects is not None and registration.rejects():
            text = "[REJECTREQUEST]system busy, start flow control for a while"
            return self._finished(command, channel, refusal(SYSTEM_BUSY, text))
        if registration.executor is not None:
            return self._execute(registration, registration.executor, command, channel)
        answer: Answer | Awaitable[Answer]
        try:
            answer = registration.process(command, channel)
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001  # the supervisor of processors: the request is answered for
            answer = self._failed(command, error)
        return self._finished(command, channel, answer)

    def _execute(self, registration: Registration, executor: Executor, command: Command, channel: Channel) -> Response:
        # Before the submit: an executor may answer within it.
        channel.owe()
        is_taken = executor.submit(
            lambda: registration.process(command, channel), lambda result: self._settled(command, channel, result)
        )
        if is_taken:
            return None
        channel.settle()
        return self._overloaded(command, channel, f"{executor.name} has no room")

    def _overloaded(self, command: Command, channel: Channel, why: str) -> Response:
        self.figures.overloads_total += 1
        text = f"[OVERLOAD]system busy, start flow control for a while: {why}"
        return self._finished(command, channel, refusal(SYSTEM_BUSY, text))

    def _settled(self, command: Command, channel: Channel, result: object) -> None:
        """Send the answer of a request that an executor took or a processor answers later; on the loop's thread."""
        channel.settle()
        # On an executor it cannot reach the reactor as an exception.
        if isinstance(result, ProtocolError):
            channel.close()
            return
        if isinstance(result, BaseException):
            result = self._failed(command, result)
        response = self._finished(command, channel, result)
        if isinstance(response, list):
            channel.peer.push(response)

    def _finished(self, command: Command, channel: Channel, answer: object) -> Response:
        """The frame of an answer that is given now, or None."""
        if isinstance(answer, Pending):
            channel.owe()
            answer.then(lambda ready: self._settled(command, channel, ready))
            return None
        if answer is None:
            return None
        if isinstance(answer, Command):
            if command.is_oneway:
                return None
            self.hooks_after(channel, command, answer)
            try:
                return frame_of(answer, command)
            # Its body is text, or too large, for example: that is this request's fault, not the connection's.
            except Exception as error:  # noqa: BLE001  # the supervisor of processors: the request is answered for
                return frame_of(self._failed(command, error), command)
        if isinstance(answer, list):
            return None if command.is_oneway else answer
        # A coroutine function without an executor: closed, or Python warns that it was never awaited.
        if inspect.iscoroutine(answer):
            answer.close()
        wrong = TypeError(
            f"a processor returned {type(answer).__name__}, not a Command, a list of buffers, a Pending or None"
        )
        return self._finished(command, channel, self._failed(command, wrong))

    def _failed(self, command: Command, error: BaseException) -> Command:
        self.loop.call_exception_handler(
            {"message": f"the processor of code {command.code} failed", "exception": error}
        )
        return refusal(SYSTEM_ERROR, f"{type(error).__name__}: {error}")
