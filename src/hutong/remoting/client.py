"""A remoting client: one connection for each address, made when it is first needed and made again when it was lost.

    client = RemotingClient(loop, clock=clock, wheel=wheel)
    answer = await client.invoke("127.0.0.1:9876", Command(105, fields={"topic": "orders"}), 3_000)
    answer = client.invoke_sync(address, command)             # from any other thread
    client.invoke_then(address, command, 3_000, then)         # then(answer or error), on the loop
    await client.oneway(address, command)
    channel = await client.connect(address)                   # for channel.invoke, channel.begin, as often as one likes

Strategy: all callers that need an address while it is being dialled wait for that one connection, each no
longer than its own timeout, which covers connecting and answering. After a failed attempt everybody fails at once
until the back-off has passed. Nothing is ever sent twice.

Everything but `invoke_sync` is on the loop's thread. See `endpoint` for what clients and servers share; `hooks`,
`events` and processors work here as they do at a server.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import Connector
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.front.addresses import connect_error, split_address
from hutong.reactor.front.piped import MakePipeline
from hutong.remoting.channels.channel import INVOKE_MS, Channel
from hutong.remoting.dialling.machine import BackOff
from hutong.remoting.endpoint import Endpoint
from hutong.remoting.errors import RemotingConnectFailed, RemotingError, RemotingTimeout, TooManyRequests
from hutong.remoting.limits import CLIENT_LIMITS, RemotingLimits
from hutong.remoting.piped import handler_of
from hutong.wire.rocketmq.command import Command


class RemotingClient(Endpoint):
    """`tls` for all of its connections. `chance` gives numbers from 0 to 1, which shorten the back-off."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: RemotingLimits = CLIENT_LIMITS,
        tls: ssl.SSLContext | None = None,
        chance: Callable[[], float] | None = None,
        pipeline: MakePipeline | None = None,
    ) -> None:
        """`pipeline` makes the handlers of each connection, whose last one passes commands on."""
        super().__init__(loop, clock=clock, wheel=wheel, limits=limits)
        handler, framing = handler_of(self, pipeline)
        self._connector = Connector(loop, handler, framing, clock=clock, wheel=wheel, limits=limits.reactor)
        self._tls = tls
        self._chance = chance or Random().random
        self._by_address: dict[str, Channel] = {}
        self._back_offs: dict[str, BackOff] = {}
        self._waiting: WaitTable[Channel] = WaitTable("invocations_max", wheel, limits.invocations_max)
        self._dialling: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def reactor_figures(self) -> ReactorFigures:
        """Of its connections."""
        return self._connector.figures

    @property
    def awaited(self) -> int:
        """The number of answers and of connections that are awaited."""
        return super().awaited + len(self._waiting)

    async def connect(self, address: str, timeout_ms: int | None = None) -> Channel:
        """The channel to `address` (HOST:PORT): the open one, or a new one.

        Raises RemotingConnectFailed, RemotingTimeout after `timeout_ms` (`connect_ms_max` by default), TooManyRequests.
        """
        channel = self._by_address.get(address)
        if channel is not None and channel.is_open:
            return channel
        # All callers of an address share one attempt; each waits no longer than its own timeout.
        if address not in self._dialling:
            self._dial(address)
        timeout_ms = self.limits.connect_ms_max if timeout_ms is None else timeout_ms
        try:
            return await self._waiting.wait(address, deadline_ms=self.clock.monotonic_ms() + timeout_ms)
        except LimitExceeded as error:
            raise TooManyRequests(error.limit, error.maximum) from None
        except Expired:
            raise RemotingTimeout(f"no connection to {address} within {timeout_ms} ms") from None

    def invoke(self, address: str, command: Command, timeout_ms: int = INVOKE_MS) -> Awaitable[Command]:
        """Ask, and await the answer, `timeout_ms` at most with what it takes to connect.

        Raises any RemotingError, and ValueError for what does not fit the format or is no address. An answer with
        another code than 0 is an answer.
        """
        channel = self._by_address.get(address)
        if channel is not None and channel.is_open:
            return channel.invoke(command, timeout_ms)
        return self._connect_and_invoke(address, command, timeout_ms)

    def invoke_sync(self, address: str, command: Command, timeout_ms: int = INVOKE_MS) -> Command:
        """The same for another thread than the loop's, which it blocks. Raises RuntimeError on the loop's own."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        # It would wait for an answer that only this loop can read.
        if running is self.loop:
            raise RuntimeError("invoke_sync would block the loop that has to bring the answer: await invoke instead")
        invocation = self._connect_and_invoke(address, command, timeout_ms)
        return asyncio.run_coroutine_threadsafe(invocation, self.loop).result()

    def invoke_then(self, address: str, command: Command, timeout_ms: int, then: Continuation[Command]) -> None:
        """Ask, and have `then` called with the answer or with the error, in a loop iteration of its own."""
        channel = self._by_address.get(address)
        if channel is not None and channel.is_open:
            channel.invoke_then(command, timeout_ms, then)
            return
        self._start(self._report(address, command, timeout_ms, then))

    async def oneway(self, address: str, command: Command, timeout_ms: int | None = None) -> None:
        """Ask for no answer. Returns when it is on its way; `timeout_ms` is for connecting. Raises RemotingError."""
        (await self.connect(address, timeout_ms)).oneway(command)

    async def close(self, grace_ms: int | None = None) -> None:
        """Send what is ready and close every connection. What is awaited fails, now and from now on."""
        self._waiting.close(RemotingConnectFailed("the client is closed"))
        await self._connector.close(grace_ms)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def connection_closed(self, peer: Peer) -> None:
        channel = self._channels[peer.id]
        # A newer connection to the address may have taken its place.
        if self._by_address.get(channel.address) is channel:
            del self._by_address[channel.address]
        super().connection_closed(peer)

    def _dial(self, address: str) -> None:
        host, port = split_address(address)
        pause_ms = self._back_off(address).pause_ms(self.clock.monotonic_ms())
        # Failing at once keeps callers from queueing for a server that is down.
        if pause_ms:
            raise RemotingConnectFailed(f"{address} could not be reached; it is tried again in {pause_ms} ms")
        self._dialling.add(address)
        self._start(self._reach(address, host, port))

    async def _reach(self, address: str, host: str, port: int) -> None:
        limits = self.limits
        try:
            peer = await self._connector.connect(host, port, tls=self._tls, timeout_ms=limits.connect_ms_max)
            # The program's own error, which the loop's exception handler has, kept the connection from opening.
            if peer.id not in self._channels:
                raise OwnerGone("its pipeline could not be made")
        except (OSError, HutongError) as reason:
            self._back_off(address).failed(self.clock.monotonic_ms(), self._chance())
            # Its remedy where there is one; TLS that fails keeps its own words.
            named = connect_error(reason, address).strerror if isinstance(reason, OSError) else reason
            error = RemotingConnectFailed(f"no connection to {address}: {named or reason}")
            error.__cause__ = reason
            # Before the waits end: their continuations may dial again.
            self._dialling.discard(address)
            self._waiting.fail_all(address, error)
            return
        self._back_off(address).succeeded()
        channel = self._channels[peer.id]
        channel.address = address
        self._by_address[address] = channel
        self._dialling.discard(address)
        self._waiting.resume_all(address, channel)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _back_off(self, address: str) -> BackOff:
        back_off = self._back_offs.get(address)
        if back_off is None:
            # The oldest goes: a client that sees ever new addresses must not grow without bound.
            if len(self._back_offs) >= self.limits.addresses_max:
                del self._back_offs[next(iter(self._back_offs))]
            back_off = self._back_offs[address] = BackOff(self.limits.back_off_ms, self.limits.back_off_ms_max)
        return back_off

    async def _connect_and_invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        begun_ms = self.clock.monotonic_ms()
        channel = await self.connect(address, min(timeout_ms, self.limits.connect_ms_max))
        # One timeout for both: connecting uses up part of the invocation's time.
        left_ms = timeout_ms - (self.clock.monotonic_ms() - begun_ms)
        return await channel.invoke(command, max(1, left_ms))

    async def _report(self, address: str, command: Command, timeout_ms: int, then: Continuation[Command]) -> None:
        outcome: Command | HutongError
        try:
            outcome = await self._connect_and_invoke(address, command, timeout_ms)
        except RemotingError as error:
            outcome = error
        self.loop.call_soon(then, outcome)
