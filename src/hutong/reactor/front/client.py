"""A connection in a few lines: `async with connect(address) as connection`, then `send` and `receive`.

Strategy: a `Connector` beneath. Frames, or the values of a pipeline, wait in an inbox of a bounded length; at the bound
the connection is not read, so that the other side feels it. `send` waits while the other side does not read.

Knows nothing of frames.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self, overload

from hutong.foundation.errors import Expired, OwnerGone, ProtocolError
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import CONNECT_MS_MAX, Connector
from hutong.reactor.frames.framing import Framing
from hutong.reactor.frames.lines import LineFraming
from hutong.reactor.front.addresses import connect_error, split_address
from hutong.reactor.front.defaults import FRONT_LIMITS, LoopTime, check_options, checked_framing, checked_ms
from hutong.reactor.front.inbox import FrameInbox, Inbox, ValueInbox
from hutong.reactor.front.piped import MakePipeline, PipelineConnections, checked_make
from hutong.reactor.limits import ReactorLimits
from hutong.reactor.pipeline.machine import ConnectionPipeline
from hutong.wire.buffer import Buffer


class FrontConnection(ABC):
    """One connection of a client, open inside an `async with` block."""

    def __init__(self, address: str, tls: ssl.SSLContext | None, limits: ReactorLimits, timeout_ms: int) -> None:
        """Raises ValueError for what is no address."""
        self.address = address
        self._host, self._port = split_address(address)
        check_options(tls, limits, ReactorLimits)
        self._tls = tls
        self._limits = limits
        self._timeout_ms = timeout_ms
        self._time: LoopTime | None = None
        self._inbox: Inbox | None = None
        self._connector: Connector | None = None

    async def __aenter__(self) -> Self:
        if self._time is not None:
            raise RuntimeError("a connection is used in one `async with` block; make another one")
        time = self._time = LoopTime(asyncio.get_running_loop())
        self._inbox, self._connector = self._make(time)
        try:
            await self._connector.connect(self._host, self._port, tls=self._tls, timeout_ms=self._timeout_ms)
            self._check_made()
        # An attempt that was cancelled or took too long still has its timers, too.
        except BaseException as error:
            await self.close(0)
            self._check_made()
            # TLS that fails is one, too, and keeps its own words.
            if isinstance(error, OSError):
                raise connect_error(error, self.address) from error
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def peer(self) -> Peer:
        """The other side. Raises OwnerGone before the block."""
        peer = self._entered().peer
        assert peer is not None, "an inbox that was entered has its peer"
        return peer

    async def close(self, grace: float | None = None) -> None:
        """Send what is ready for `grace` seconds at most, and close. Frames that came may still be received."""
        try:
            if self._connector is not None:
                await self._connector.close(None if grace is None else checked_ms(grace, "grace"))
        finally:
            if self._time is not None:
                self._time.close()

    @abstractmethod
    def _make(self, time: LoopTime) -> tuple[Inbox, Connector]:
        """The inbox, and the connector that fills it."""

    def _check_made(self) -> None:
        """Raise the error of the program that kept the connection from being made, if there is one."""
        return

    async def _wait_for_room(self, inbox: Inbox) -> None:
        """Return at once, or when the other side has read enough. Raises OwnerGone."""
        if self.peer.unsent_bytes() <= self._limits.unsent_bytes_max:
            return
        # The write of this iteration comes first: only after it is known whether the kernel took everything.
        await asyncio.sleep(0)
        # Another task may fill the buffer again before this one runs.
        while inbox.is_paused:
            await inbox.wait_for_change()
            self._check_open(inbox)

    async def _receive(self, seconds: float | None) -> Any:
        inbox = self._entered()
        deadline_ms = None if seconds is None else inbox.deadline_ms(seconds)
        try:
            # Frames that came before the end are still received: the end is looked at when none is left.
            while not inbox:
                self._check_open(inbox)
                await inbox.wait_for_change(deadline_ms)
        except Expired:
            raise Expired(f"no frame from {self.address} within {seconds} s") from None
        return inbox.take()

    def _entered(self) -> Inbox:
        # Also after a failed attempt, which leaves an inbox without a peer.
        if self._inbox is None or self._inbox.peer is None:
            raise OwnerGone(f"the connection to {self.address} is not open: use `async with`")
        return self._inbox

    def _check_open(self, inbox: Inbox) -> None:
        if inbox.has_ended:
            failure = self._failure()
            # The other side's fault, found here: nobody else would report it.
            raise OwnerGone(f"the connection to {self.address} has ended" + (f": {failure}" if failure else ""))

    def _failure(self) -> ProtocolError | None:
        """The fault in what came that ended the connection, if there was one."""
        return self.peer.framing.failure


class ReactorConnection(FrontConnection):
    """The connection of `connect`, open inside an `async with` block. `async for frame in connection` ends with it."""

    def __init__(
        self,
        address: str,
        framing: Callable[[int], Framing],
        tls: ssl.SSLContext | None,
        limits: ReactorLimits,
        timeout_ms: int,
    ) -> None:
        super().__init__(address, tls, limits, timeout_ms)
        self._framing = checked_framing(framing)

    async def send(self, *buffers: Buffer) -> None:
        """Send bytes as they are; wait while more is unsent than `unsent_bytes_max`. Raises OwnerGone at the end."""
        inbox = self._entered()
        self._check_open(inbox)
        # `push` would fail in the middle of the loop, far from the program that gave the text.
        for buffer in buffers:
            if not isinstance(buffer, bytes | bytearray | memoryview):
                hint = f": encode {buffer[:40]!r}" if isinstance(buffer, str) else ""
                raise TypeError(f"bytes are sent, not {type(buffer).__name__}{hint}")
        self.peer.push(list(buffers))
        await self._wait_for_room(inbox)

    def receive(self, timeout: float | None = None) -> Awaitable[bytes]:
        """The next frame, within `timeout` seconds. Raises OwnerGone at the end of the connection, and Expired."""
        return self._receive_frame(timeout)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                frame = await self.receive()
            # The end of the stream ends the iteration, as with asyncio's StreamReader.
            except OwnerGone:
                return
            yield frame

    def _make(self, time: LoopTime) -> tuple[Inbox, Connector]:
        inbox = FrameInbox(time)
        return inbox, Connector(
            time.loop, inbox, self._framing, clock=time.clock, wheel=time.wheel, limits=self._limits
        )

    async def _receive_frame(self, seconds: float | None) -> bytes:
        return bytes(await self._receive(seconds))


class PipelineClient(FrontConnection):
    """The connection of `connect(pipeline=...)`: `send` gives to the last handler, which passes on to `receive`.

    Open inside an `async with` block; `async for value in connection` ends with it.
    """

    def __init__(
        self,
        address: str,
        make: MakePipeline,
        tls: ssl.SSLContext | None,
        limits: ReactorLimits,
        timeout_ms: int,
    ) -> None:
        super().__init__(address, tls, limits, timeout_ms)
        self._make_pipeline = checked_make(make)
        self._connections: PipelineConnections | None = None

    @property
    def pipeline(self) -> ConnectionPipeline:
        """The handlers: `add`, `remove`, `replace`, `fire_event`. Raises OwnerGone before the block."""
        inbox = self._entered()
        assert isinstance(inbox, ValueInbox)
        return inbox.pipeline

    async def send(self, *values: Any) -> None:
        """Send by all handlers, the last first; wait while the other side does not read. Raises OwnerGone at the end.

        Raises as well what a handler raises for a value that it does not take.
        """
        inbox, pipeline = self._entered(), self.pipeline
        self._check_open(inbox)
        for value in values:
            pipeline.send(value)
        await self._wait_for_room(inbox)

    def receive(self, timeout: float | None = None) -> Awaitable[Any]:
        """The next value of the last handler, within `timeout` seconds. Raises OwnerGone at the end, and Expired."""
        return self._receive(timeout)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                value = await self.receive()
            # The end of the stream ends the iteration, as with asyncio's StreamReader.
            except OwnerGone:
                return
            yield value

    def _make(self, time: LoopTime) -> tuple[Inbox, Connector]:
        inbox = ValueInbox(time)
        connections = self._connections = PipelineConnections(self._make_pipeline, time, lambda: inbox)
        return inbox, Connector(
            time.loop, connections, connections.framing, clock=time.clock, wheel=time.wheel, limits=self._limits
        )

    def _failure(self) -> ProtocolError | None:
        return self.pipeline.failure

    def _check_made(self) -> None:
        # Its own error says more than "closed at once", which is what follows from it.
        if self._connections is not None and self._connections.fault is not None:
            raise self._connections.fault


@overload
def connect(
    address: str,
    *,
    framing: Callable[[int], Framing] = ...,
    tls: ssl.SSLContext | None = ...,
    limits: ReactorLimits = ...,
    timeout: float = ...,
) -> ReactorConnection: ...


@overload
def connect(
    address: str,
    *,
    pipeline: MakePipeline,
    tls: ssl.SSLContext | None = ...,
    limits: ReactorLimits = ...,
    timeout: float = ...,
) -> PipelineClient: ...


def connect(
    address: str,
    *,
    framing: Callable[[int], Framing] | None = None,
    pipeline: MakePipeline | None = None,
    tls: ssl.SSLContext | None = None,
    limits: ReactorLimits = FRONT_LIMITS,
    timeout: float = CONNECT_MS_MAX / 1000,
) -> ReactorConnection | PipelineClient:
    """A connection to HOST:PORT, open inside `async with`; `timeout` seconds for connecting and TLS.

    `framing` cuts frames, lines by default. In place of it, `pipeline` makes the list of handlers of the connection,
    whose values are sent and received. Entering the block raises OSError where nothing listens or TLS fails, and
    Expired.
    """
    timeout_ms = checked_ms(timeout)
    if pipeline is None:
        return ReactorConnection(address, framing or LineFraming, tls, limits, timeout_ms)
    # Framing is one of the handlers there: the other one would silently do nothing.
    if framing is not None:
        raise TypeError("a connection has a framing or a pipeline: give one of them")
    return PipelineClient(address, pipeline, tls, limits, timeout_ms)
