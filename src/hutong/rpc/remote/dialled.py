"""Calls over a connection that is opened at the first call, and again at a call after it was lost.

Strategy: without a connection all calls wait for it together, each no longer than its own timeout. Nothing is sent
twice: a call that was sent before its connection ended has failed; retries are an option of the call (`delivery`). On
an open connection a call costs the same as on any channel.

Knows nothing of sockets: a function to connect arrives by constructor.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import ParkedWait, WaitTable
from hutong.remoting.channels.channel import Channel
from hutong.rpc.calling.transport import Abandon, Ended, OutgoingCall
from hutong.rpc.errors import CallFailed, NotConnected
from hutong.rpc.remote.outgoing import AwaitedAnswer, Preparations, begin_on_channel

CALLS_WAITING_MAX: Final = 65_536
"""Calls that wait for the connection at a time."""
_CONNECTED: Final = "connected"  # what they wait for


class DialledTransport:
    """Carries calls over the connection that `dial` makes. On one loop."""

    def __init__(
        self, dial: Callable[[], Awaitable[Channel]], loop: asyncio.AbstractEventLoop, clock: Clock, wheel: TimerWheel
    ) -> None:
        """`dial` raises OSError or a HutongError if it cannot connect."""
        self.waiting: WaitTable[Channel] = WaitTable("calls_waiting_max", wheel, CALLS_WAITING_MAX)
        self._dial = dial
        self._loop = loop
        self._now_ms = clock.monotonic_ms
        self._preparations = Preparations()
        self._channel: Channel | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._closed: HutongError | None = None

    @property
    def channel(self) -> Channel | None:
        """The connection, while there is one."""
        channel = self._channel
        return None if channel is None or channel.owner.has_ended else channel

    def begin_call(self, call: OutgoingCall, timeout_ms: int, done: Ended) -> Abandon:
        """See Transport. Raises ValueError for arguments or headers that cannot be sent."""
        prepared, block, body = self._preparations.ready(call, timeout_ms)
        answer = AwaitedAnswer(prepared, done)
        channel = self._channel
        if channel is None or channel.owner.has_ended:
            held = _Held(answer, block, body, self._now_ms() + timeout_ms, self._now_ms)
            held.parked = self._park(held)
            return held.abandon
        begin_on_channel(channel, answer, block, body, timeout_ms)
        return answer.abandon

    async def connect(self) -> Channel:
        """The connection, made if there is none. Raises CallFailed, LimitExceeded."""
        if self._closed is not None:
            raise self._closed
        channel = self.channel
        if channel is None:
            self._ensure_dialling()
            channel = await self.waiting.wait(_CONNECTED)
        return channel

    async def close(self) -> None:
        """Fail what waits for the connection, now and from now on. The connection itself is its maker's to close."""
        self._closed = self._closed or CallFailed("the client is closed")
        self._channel = None
        dialling = self._dialling
        if dialling is not None:
            dialling.cancel()
            # Awaited, so that no connection is opened after the end of `close`.
            await asyncio.wait((dialling,))
        self.waiting.close(self._closed)

    def _park(self, held: "_Held") -> ParkedWait[Channel] | None:
        """Hold a call until there is a connection. None where it fails already: soon, and not in here."""
        error: HutongError | None = self._closed
        if error is None:
            self._ensure_dialling()
            try:
                return self.waiting.park(_CONNECTED, held.proceed, deadline_ms=held.deadline_ms)
            except LimitExceeded as full:
                error = full
        self._loop.call_soon(held.proceed, error)
        return None

    def _ensure_dialling(self) -> None:
        if self._dialling is None:
            self._dialling = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            self._channel = await self._dial()
        except (OSError, HutongError) as error:
            self.waiting.fail_all(_CONNECTED, NotConnected(f"there is no connection: {error}"))
        else:
            self.waiting.resume_all(_CONNECTED, self._channel)
        finally:
            self._dialling = None


class _Held:
    """A call that waits for a connection. Abandoning it abandons its current wait."""

    __slots__ = ("_answer", "_block", "_body", "_is_abandoned", "_is_sent", "_now_ms", "deadline_ms", "parked")

    def __init__(
        self, answer: AwaitedAnswer, block: bytes, body: bytes, deadline_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self.deadline_ms = deadline_ms
        self.parked: ParkedWait[Channel] | None = None
        self._answer = answer
        self._block = block
        self._body = body
        self._now_ms = now_ms
        self._is_sent = False
        self._is_abandoned = False

    def proceed(self, outcome: Channel | HutongError) -> None:
        """There is a connection, or there will be none."""
        if self._is_abandoned:
            return
        if isinstance(outcome, HutongError):
            self._answer.end(outcome)
            return
        self._is_sent = True
        # The wait for the connection counts; the deadline may pass in this very loop iteration.
        left_ms = max(1, self.deadline_ms - self._now_ms())
        begin_on_channel(outcome, self._answer, self._block, self._body, left_ms)

    def abandon(self) -> None:
        self._is_abandoned = True
        if self._is_sent:
            self._answer.abandon()
        elif self.parked is not None:
            self.parked.abandon()
