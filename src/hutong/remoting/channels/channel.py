"""A channel: one connection, over which either side asks and either side answers, in any order.

Strategy: what this side asks is parked in a numbered wait table of the channel's own, under a number of 31 bits that is
the frame's opaque. So an invocation costs its frame and one dictionary entry, the end of the connection is the end of
its waits, and a peer can only answer what it was asked. Frames are pushed; those of one loop iteration leave in one
write.

Bounds, since a peer may not read: at most `invocations_max` answers are awaited; beyond `unsent_bytes_max` nothing more
is asked; beyond `unsent_answer_bytes_max` of answers, or `unanswered_max` answers owed, the peer's requests are held
unread until it reads or is answered, or until it has been idle for too long and goes. Where answers of such a peer are
awaited, requests above `unanswered_max` are refused instead, since what is held holds up the answers behind it. Below
these bounds everything is taken even from a peer that does not read, so that two sides which both ask and are slow to
read do not wait for each other for ever.

A protocol on top has its own subclass of `NumberedWait` and uses `begin`. All methods are for the loop's thread only.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.numbered import NumberedWait, NumberedWaitTable, ShortNumbers, WaitQueue
from hutong.foundation.waiting.pending import Continuation, settle_future
from hutong.reactor.connections.handler import Peer
from hutong.remoting.channels.hooks import Hook
from hutong.remoting.errors import AbortProcess, RemotingSendFailed, RemotingTimeout, TooManyRequests
from hutong.remoting.limits import RemotingLimits
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import IS_ONEWAY, IS_RESPONSE, Command, encode, encode_binary

INVOKE_MS: Final = 3_000
FRAMES_TOGETHER: Final = 24
"""Frames per write: questions, and answers by `answer`, are sent at this number, before the loop iteration ends.

Measured with 64 calls unanswered between two processes: 110k a second. One write for each loop iteration makes them
wait for each other and does 60k; 8 frames a write do 91k.
"""
LARGE_BYTES: Final = 4 * 1024  # of a frame: larger ones check the unsent bytes first, which costs a system call


class RequestAdmission(Enum):
    """Of a request, by the bounds of its channel."""

    BEGIN = 0
    HOLD = 1  # it and what follows are not taken yet
    REFUSE = 2  # answered SYSTEM_BUSY: to hold it would hold the answers behind it, which are awaited


class ChannelEndpoint(Protocol):
    """The services of an endpoint that its channels use."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    wheel: TimerWheel
    limits: RemotingLimits
    hooks: list[Hook]

    def post(self, work: Callable[[], None]) -> None:
        """Do the work in a later iteration of the loop."""

    def hooks_before(self, channel: "Channel", request: Command) -> None:
        """Show the request to every hook. Raises AbortProcess where one refuses it."""

    def hooks_after(self, channel: "Channel", request: Command, answer: Command) -> None:
        """Show the request and its answer to every hook."""


class Channel:
    """Made by an endpoint for each of its connections. `attributes` are free for its users.

    `owner` ends with the connection, and with it what is parked under it. `unanswered` counts the requests of the peer
    that will be answered later.
    """

    __slots__ = (
        "_answering_is_held",
        "_asks_alone",
        "_endpoint",
        "_frames_pushed",
        "_hooks",
        "_is_congested",
        "_push",
        "_queue",
        "_queue_ms",
        "_send",
        "_unsent_oneway",
        "_waits",
        "address",
        "attributes",
        "is_slowed",
        "owner",
        "peer",
        "serialization",
        "take",
        "unanswered",
    )

    def __init__(self, peer: Peer, address: str, endpoint: ChannelEndpoint) -> None:
        self.peer = peer
        self.owner = peer.owner
        self.address = address
        self.attributes: dict[str, Any] = {}
        self.unanswered = 0
        self.serialization: int | None = None  # of what this side asks by a command; None: as the command says
        self.is_slowed = False  # whether a bound is near: `admission` has to be asked before a request is begun
        self._endpoint = endpoint
        self._hooks = endpoint.hooks
        self._is_congested = False
        self._answering_is_held = False
        self._unsent_oneway = 0
        numbers = ShortNumbers()
        self._waits: NumberedWaitTable[Command] = NumberedWaitTable(
            "invocations_max",
            endpoint.wheel,
            endpoint.clock,
            endpoint.limits.invocations_max,
            endpoint.post,
            numbers,
        )
        self.take: Callable[[int], NumberedWait[Command] | None] = numbers.take  # by opaque
        self._queue_ms = INVOKE_MS
        self._queue: WaitQueue[Command] = self._waits.queue(INVOKE_MS)
        self._push = peer.push
        self._send = peer.send
        self._frames_pushed = 0  # frames pushed since the last write
        self._asks_alone = False  # the last answer asked for was the only one awaited
        peer.is_duplex = True
        peer.sending_changed = self._sending_changed

    def __repr__(self) -> str:
        return f"<channel {self.peer.id} to {self.address}>"

    @property
    def is_open(self) -> bool:
        return not self.owner.has_ended

    @property
    def awaited(self) -> int:
        """The number of answers awaited from the peer."""
        return len(self._waits)

    # Asking.

    def begin(self, code: int, ext_block: bytes, body: Buffer, timeout_ms: int, wait: NumberedWait[Command]) -> int:
        """Ask by the fast path: park `wait`, send a binary frame; returns its opaque.

        `wait.end` is called once, with the answer, with Expired `timeout_ms` later (by at most an eighth and 40 ms), or
        with RemotingSendFailed at the end of the connection, which may be before this returns. `wait.abandon()` forgets
        it. Raises TooManyRequests. Hooks do not see it.
        """
        if timeout_ms != self._queue_ms:  # callers mostly keep one timeout: the look-up of its queue is kept, too
            self._queue_ms, self._queue = timeout_ms, self._waits.queue(timeout_ms)
        try:
            self._queue.park(wait)
        except LimitExceeded as error:
            raise TooManyRequests(error.limit, error.maximum) from None
        opaque = wait._number  # unique among the awaited answers of this channel, so a peer cannot answer others
        frame = encode_binary(code, opaque, 0, ext_block, body)
        if self.is_slowed or len(frame) > LARGE_BYTES:
            self._check_room(len(frame), wait)
        self._send_question([frame], wait)
        return opaque

    def invoke(self, command: Command, timeout_ms: int = INVOKE_MS) -> "asyncio.Future[Command]":
        """Ask, and await the answer. The command is given its opaque.

        The future raises RemotingTimeout or RemotingSendFailed; cancelling it forgets the answer. Raises at once:
        TooManyRequests, AbortProcess (of a hook), ValueError for a command that does not fit the format.
        """
        answered = _Answered(self._endpoint.loop.create_future(), self, command)
        self._ask(command, timeout_ms, answered)
        return answered.future

    def invoke_then(self, command: Command, timeout_ms: int, then: Continuation[Command]) -> None:
        """As `invoke`, but `then` is called with the answer or with the error, in a later loop iteration."""
        self._ask(command, timeout_ms, _Callback(then, self, command))

    def oneway(self, command: Command) -> None:
        """Ask for no answer. Raises TooManyRequests, AbortProcess, ValueError; a connection that ended drops it."""
        self._endpoint.hooks_before(self, command)
        command.flag |= IS_ONEWAY
        frame = encode(command, serialization=self.serialization)
        if self._is_congested or sum(map(len, frame)) > LARGE_BYTES:
            self._check_oneway(sum(map(len, frame)))
        self._push(frame)

    # Answering.

    def answer(
        self,
        opaque: int,
        code: int,
        ext_block: bytes = b"",
        body: Buffer = b"",
        remark: bytes = b"",
        *,
        at_once: bool = False,
    ) -> None:
        """Answer by the fast path; nothing happens once the peer has gone.

        `at_once`: no further frame will follow soon.

        For a processor that returned None and keeps its requests within bounds by itself. Hooks do not see it, and it
        is binary for every request.
        """
        frame = encode_binary(code, opaque, IS_RESPONSE, ext_block, body, remark)
        if at_once:
            self._send([frame])
        else:
            self._push_together([frame])

    def owe(self) -> None:
        """For the endpoint, or a processor that answers by itself: one more request is answered later."""
        self.unanswered += 1
        if self.unanswered >= self._endpoint.limits.unanswered_max:
            self.is_slowed = True

    def settle(self, count: int = 1) -> None:
        """For the endpoint, or a processor that answers by itself: so many requests have their answers, or none."""
        self.unanswered -= count
        if self.is_slowed:
            self._resume_below_bounds()

    def admission(self) -> RequestAdmission:
        """For the endpoint, where `is_slowed`: decide to begin, hold or refuse the peer's request."""
        limits = self._endpoint.limits
        # A peer that does not read its answers may not ask for more of them: memory is bounded by not reading it.
        if self._is_congested and self.peer.unsent_bytes() >= limits.unsent_answer_bytes_max:
            self._answering_is_held = True
        elif self.unanswered < limits.unanswered_max:
            return RequestAdmission.BEGIN
        elif self.awaited:
            # Holding this request would hold the answers behind it, and this side waits for those: a deadlock when the
            # peer does the same. So it is answered SYSTEM_BUSY.
            return RequestAdmission.REFUSE
        else:
            self._answering_is_held = True
        return RequestAdmission.HOLD

    def close(self) -> None:
        """End the connection once what is ready was sent."""
        self.peer.close()

    def ended(self) -> None:
        """For the endpoint: fail all awaited answers, since the connection is gone."""
        self._waits.close(RemotingSendFailed(f"the connection to {self.address} ended before the answer came"))

    # Steps of the above.

    def _send_question(self, frame: list[Buffer], wait: NumberedWait[Command]) -> None:
        if len(wait._generation.waiting) > 1:
            self._asks_alone = False
            self._push_together(frame)
        elif self._asks_alone:
            # The caller asks one at a time, so no second frame will come to share the write: waiting for the end of
            # the loop iteration would only add latency.
            self._send(frame)
        else:
            self._asks_alone = True
            self._push_together(frame)

    def _push_together(self, frame: list[Buffer]) -> None:
        """Push the frame, and write at every FRAMES_TOGETHER: the peer works while this side collects more."""
        self._frames_pushed += 1
        if self._frames_pushed >= FRAMES_TOGETHER:
            self._frames_pushed = 0
            self._send(frame)
        else:
            self._push(frame)

    def _ask(self, command: Command, timeout_ms: int, wait: "_Asked") -> None:
        if self._hooks:
            self._endpoint.hooks_before(self, command)
        if timeout_ms != self._queue_ms:
            self._queue_ms, self._queue = timeout_ms, self._waits.queue(timeout_ms)
        try:
            self._queue.park(wait)
        except LimitExceeded as error:
            raise TooManyRequests(error.limit, error.maximum) from None
        command.opaque = wait._number
        try:
            frame = encode(command, serialization=self.serialization)
        # The command does not fit the format, or has values of other types: nothing was sent, so nothing is awaited.
        except Exception:
            wait.abandon()
            raise
        if self.is_slowed or len(frame) > 1 or len(frame[0]) > LARGE_BYTES:
            self._check_room(sum(map(len, frame)), wait)
        self._send_question(frame, wait)

    def _check_room(self, size: int, wait: NumberedWait[Command]) -> None:
        """A single frame may have any size, but not after too many bytes that the peer does not read."""
        unsent_bytes, unsent_bytes_max = self.peer.unsent_bytes(), self._endpoint.limits.unsent_bytes_max
        if unsent_bytes and unsent_bytes + size > unsent_bytes_max:
            wait.abandon()  # parked before its number was known, which the frame needs
            raise TooManyRequests("unsent_bytes_max", unsent_bytes_max)
        if self._answering_is_held:  # else the answer would stay unread behind the request that is held
            self._answering_is_held = False
            self.peer.release()

    def _check_oneway(self, size: int) -> None:
        limits, unsent_bytes = self._endpoint.limits, self.peer.unsent_bytes()
        if unsent_bytes and unsent_bytes + size > limits.unsent_bytes_max:
            raise TooManyRequests("unsent_bytes_max", limits.unsent_bytes_max)
        if self._is_congested:  # small frames count too: a peer that never reads must not collect them without bound
            if self._unsent_oneway >= limits.unsent_oneway_max:
                raise TooManyRequests("unsent_oneway_max", limits.unsent_oneway_max)
            self._unsent_oneway += 1

    def _sending_changed(self, is_paused: bool) -> None:
        self._is_congested = is_paused
        if is_paused:
            self.is_slowed = True
        else:
            self._unsent_oneway = 0
            self._resume_below_bounds()

    def _resume_below_bounds(self) -> None:
        """Let the peer ask again once it reads and is owed less than half of the bound (half against flapping)."""
        if self._is_congested or 2 * self.unanswered > self._endpoint.limits.unanswered_max:
            return
        self.is_slowed = False
        if self._answering_is_held:
            self._answering_is_held = False
            self.peer.release()


class _Asked(NumberedWait[Command]):
    """An invocation by the general way: hooks see its answer."""

    __slots__ = ("_channel", "_command")

    def __init__(self, channel: Channel, command: Command) -> None:
        self._channel = channel
        self._command = command

    def end(self, outcome: Command | HutongError) -> None:
        channel = self._channel
        if outcome.__class__ is Command:
            if not channel._hooks:
                self.complete(outcome)
                return
            try:
                channel._endpoint.hooks_after(channel, self._command, outcome)
            except AbortProcess as error:
                outcome = error
        elif isinstance(outcome, Expired):
            outcome = RemotingTimeout(f"no answer of {channel.address} in time to code {self._command.code}")
        self.complete(outcome)

    def complete(self, outcome: Command | HutongError) -> None:
        raise NotImplementedError


class _Answered(_Asked):
    __slots__ = ("future",)

    def __init__(self, future: "asyncio.Future[Command]", channel: Channel, command: Command) -> None:
        super().__init__(channel, command)
        self.future = future

    @property
    def is_abandoned(self) -> bool:
        return self.future.cancelled()

    def complete(self, outcome: Command | HutongError) -> None:
        settle_future(self.future, outcome)


class _Callback(_Asked):
    __slots__ = ("_then",)

    def __init__(self, then: Continuation[Command], channel: Channel, command: Command) -> None:
        super().__init__(channel, command)
        self._then = then

    def complete(self, outcome: Command | HutongError) -> None:
        self._channel._endpoint.loop.call_soon(self._then, outcome)
