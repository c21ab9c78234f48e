"""A connection in a few lines: `async with connect(address) as connection`, then `send` and `receive`.

Strategy: a `Connector` beneath. Frames wait in an inbox of a bounded length; at the bound the connection is not read,
so that the other side feels it. `send` waits while the other side does not read.

Knows nothing of frames.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Self

from hutong.foundation.errors import Expired, OwnerGone
from hutong.reactor.connections.channel import HELD, Response
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connector import CONNECT_MS_MAX, Connector
from hutong.reactor.frames.framing import Framing
from hutong.reactor.frames.lines import LineFraming
from hutong.reactor.front.addresses import connect_error, split_address
from hutong.reactor.front.defaults import FRONT_LIMITS, LoopTime
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

INBOX_FRAMES_MAX: Final = 256
INBOX_BYTES_MAX: Final = 1024 * 1024
"""Frames received and not taken; what comes beyond either is left to the connection, which then stops reading."""


class Inbox:
    """The handler of one connection that its program reads."""

    def __init__(self) -> None:
        self.frames: deque[Buffer] = deque()
        self.peer: Peer | None = None
        self.is_paused = False
        self.has_ended = False
        self._bytes = 0
        self._is_full = False
        self._changed: asyncio.Future[None] | None = None

    def connection_opened(self, peer: Peer) -> None:
        self.peer = peer
        # Frames are taken while the other side does not read: the inbox is bounded, and two such sides cannot deadlock.
        peer.is_duplex = True
        peer.sending_changed = self._sending_changed

    def request_received(self, frame: Buffer, peer: Peer) -> Response:
        if len(self.frames) >= INBOX_FRAMES_MAX or self._bytes >= INBOX_BYTES_MAX:
            self._is_full = True
            return HELD
        self.frames.append(frame)
        self._bytes += len(frame)
        self._report_change()
        return None

    def connection_closed(self, peer: Peer) -> None:
        # Callers of `receive` and `send` wait for a change, and the end is the last one.
        self.has_ended = True
        self._report_change()

    def take_frame(self) -> Buffer:
        frame = self.frames.popleft()
        # By bytes as well: 256 frames of the largest size would be 256 MiB.
        self._bytes -= len(frame)
        has_room = 2 * len(self.frames) <= INBOX_FRAMES_MAX and 2 * self._bytes <= INBOX_BYTES_MAX
        # Half against flapping: else each frame taken would start and stop the reading.
        if self._is_full and has_room and self.peer is not None:
            self._is_full = False
            self.peer.release()
        return frame

    async def wait_for_change(self) -> None:
        """Return at the next frame, at the end, and when the other side reads again."""
        if self._changed is None:
            # Made by the first that waits, so that a frame nobody waits for costs nothing.
            self._changed = asyncio.get_running_loop().create_future()
        # Shielded, since all callers wait for the same future, and one of them may be cancelled.
        await asyncio.shield(self._changed)

    def _sending_changed(self, is_paused: bool) -> None:
        self.is_paused = is_paused
        self._report_change()

    def _report_change(self) -> None:
        # Replaced first: those that wake up may wait again.
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)


class ReactorConnection:
    """The connection of `connect`, open inside an `async with` block. `async for frame in connection` ends with it."""

    def __init__(
        self,
        address: str,
        framing: Callable[[int], Framing],
        tls: ssl.SSLContext | None,
        limits: ReactorLimits,
        timeout_ms: int,
    ) -> None:
        self.address = address
        self._host, self._port = split_address(address)
        self._framing = framing
        self._tls = tls
        self._limits = limits
        self._timeout_ms = timeout_ms
        self._time: LoopTime | None = None
        self._inbox = Inbox()
        self._connector: Connector | None = None

    async def __aenter__(self) -> Self:
        if self._time is not None:
            raise RuntimeError("a connection is used in one `async with` block; make another one")
        time = self._time = LoopTime(asyncio.get_running_loop())
        self._connector = Connector(
            time.loop, self._inbox, self._framing, clock=time.clock, wheel=time.wheel, limits=self._limits
        )
        try:
            await self._connector.connect(self._host, self._port, tls=self._tls, timeout_ms=self._timeout_ms)
        # TLS that fails is one, too, and keeps its own words.
        except OSError as error:
            await self.close(0)
            raise connect_error(error, self.address) from error
        # An attempt that was cancelled or took too long still has its timers.
        except BaseException:
            await self.close(0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def peer(self) -> Peer:
        """The other side. Raises OwnerGone before the block."""
        if self._inbox.peer is None:
            raise OwnerGone(f"the connection to {self.address} is not open: use `async with`")
        return self._inbox.peer

    async def send(self, *buffers: Buffer) -> None:
        """Send bytes as they are; wait while more is unsent than `unsent_bytes_max`. Raises OwnerGone at the end."""
        peer, inbox = self.peer, self._inbox
        self._check_open()
        peer.push(list(buffers))
        if peer.unsent_bytes() <= self._limits.unsent_bytes_max:
            return
        # The write of this iteration comes first: only after it is known whether the kernel took everything.
        await asyncio.sleep(0)
        # Another task may fill the buffer again before this one runs.
        while inbox.is_paused:
            await inbox.wait_for_change()
            self._check_open()

    def receive(self, timeout: float | None = None) -> Awaitable[bytes]:
        """The next frame, within `timeout` seconds. Raises OwnerGone at the end of the connection, and Expired."""
        return self._receive(timeout)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                frame = await self.receive()
            # The end of the stream ends the iteration, as with asyncio's StreamReader.
            except OwnerGone:
                return
            yield frame

    async def close(self, grace: float | None = None) -> None:
        """Send what is ready for `grace` seconds at most, and close. Frames that came may still be received."""
        try:
            if self._connector is not None:
                await self._connector.close(None if grace is None else int(grace * 1000))
        finally:
            if self._time is not None:
                self._time.close()

    async def _receive(self, seconds: float | None) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                # Frames that came before the end are still received: the end is looked at when none is left.
                while not self._inbox.frames:
                    self._check_open()
                    await self._inbox.wait_for_change()
        except TimeoutError:
            raise Expired(f"no frame from {self.address} within {seconds} s") from None
        return bytes(self._inbox.take_frame())

    def _check_open(self) -> None:
        if self._inbox.has_ended or self._inbox.peer is None:
            raise OwnerGone(f"the connection to {self.address} has ended")


def connect(
    address: str,
    *,
    framing: Callable[[int], Framing] = LineFraming,
    tls: ssl.SSLContext | None = None,
    limits: ReactorLimits = FRONT_LIMITS,
    timeout: float = CONNECT_MS_MAX / 1000,
) -> ReactorConnection:
    """A connection to HOST:PORT, open inside `async with`; `timeout` seconds for connecting and TLS.

    Entering the block raises OSError where nothing listens or TLS fails, and Expired.
    """
    return ReactorConnection(address, framing, tls, limits, int(timeout * 1000))
