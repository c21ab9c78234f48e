"""Command frames over connections, as calls need them: either side asks, either side answers, in any order.

Strategy: what is asked is parked under the opaque of its frame and of its connection; the answer, the deadline and the
end of the connection end it, whichever is first. A frame is one buffer, and what a turn of the loop says leaves as one;
but who says nothing else in this turn is not made to wait for its end.

Knows nothing of what commands mean.
"""

import asyncio
import itertools
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone
from hutong.foundation.numbered_lot import Line, NumberedLot, Wait
from hutong.foundation.timers import TimerWheel
from hutong.reactor.acceptor import Acceptor
from hutong.reactor.connector import Connector
from hutong.reactor.framing import length_prefixed
from hutong.reactor.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer
from hutong.wire.rocketmq.command import (
    BINARY,
    FRAME_BYTES_MAX,
    IS_RESPONSE,
    Command,
    decode,
    encode,
    encode_binary,
    encode_ext,
)

CALLS_AWAITED_MAX: Final = 1_000_000
UNSUPPORTED: Final = 3  # what RocketMQ's remoting answers to a code that nobody processes
OPAQUE_MAX: Final = 0x7FFFFFFF
FRAMES_TOGETHER: Final = 24
"""Sent at once when so many are ready, before the end of the turn.

Chosen by running it: with 64 calls unanswered two processes do 110k a second; all that a turn has to say in one write
makes them wait for each other and does 60k, and 8 frames a write 91k.
"""


class Asked(Wait[Command]):
    """An answer that is awaited. Known to its connection by its opaque, until it ends however it ends."""

    __slots__ = ("opaque", "waiting")

    opaque: int
    waiting: "dict[int, Asked]"

    def end(self, outcome: Command | HutongError) -> None:
        self.waiting.pop(self.opaque, None)
        self.answered(outcome)

    def abandon(self) -> bool:
        self.waiting.pop(self.opaque, None)
        return super().abandon()

    def answered(self, outcome: Command | HutongError) -> None:
        """The answer, or why there is none. Called once."""
        raise NotImplementedError


class Channel:
    """One connection. `calls` are those of the other side under way, `is_stuffed` is whether it reads too slowly."""

    __slots__ = (
        "_asks_alone",
        "_cut",
        "_form",
        "_line",
        "_lot",
        "_opaques",
        "_said",
        "_timeout_ms",
        "calls",
        "is_stuffed",
        "owner",
        "peer",
        "refused_while_stuffed",
        "waiting",
    )

    def __init__(self, peer: Peer, lot: NumberedLot[Command], cut: Callable[[Callable[[Peer], bool]], int]) -> None:
        self._cut = cut
        self.calls = 0
        self.is_stuffed = False
        self.refused_while_stuffed = 0
        self.owner = peer.owner
        self.peer = peer
        self.waiting: dict[int, Asked] = {}
        self._lot = lot
        self._timeout_ms = 1  # of the last call: it is mostly that of the next
        self._line: Line[Command] = lot.line(1)
        self._opaques = itertools.count(1)
        self._asks_alone = False  # the call before was awaited alone
        self._said = 0  # frames since the last parcel
        self._form = BINARY  # of headers, as the other side writes them
        peer.sending_changed = self._sending_changed

    def begin(self, code: int, ext_block: bytes, body: bytes, timeout_ms: int, asked: Asked) -> None:
        """Ask. Whatever comes of it ends `asked`. Raises LimitExceeded where too many answers are awaited."""
        if timeout_ms != self._timeout_ms:
            self._line, self._timeout_ms = self._lot.line(timeout_ms), timeout_ms
        waiting = asked.waiting = self.waiting
        opaque = next(self._opaques) & OPAQUE_MAX
        while opaque in waiting:  # since two thousand million calls ago
            opaque = next(self._opaques) & OPAQUE_MAX
        asked.opaque = opaque
        self._line.park(asked)
        frame = encode_binary(code, opaque, 0, ext_block, body)
        if waiting:
            self._asks_alone = False
            self._say([frame])
        elif self._asks_alone:  # one call at a time: nothing will come that could go together with it
            self.peer.send([frame])
        else:
            self._asks_alone = True
            self._say([frame])
        waiting[opaque] = asked

    def answer(
        self, opaque: int, code: int, ext_block: bytes, body: bytes, remark: bytes = b"", *, at_once: bool = False
    ) -> None:
        """With what else is said in this turn, or at once. Nothing happens once the connection has ended."""
        frames: list[Buffer]
        if self._form == BINARY:
            frames = [encode_binary(code, opaque, IS_RESPONSE, ext_block, body, remark)]
        else:
            text = remark.decode() or None
            frames = encode(Command(code, opaque, IS_RESPONSE, ext_block, body, text, serialization=self._form))
        if at_once:
            self.peer.send(frames)
        else:
            self._say(frames)

    def received(self, answer: Command) -> None:
        """What was asked is answered. Dropped if it is not awaited (any more)."""
        asked = self.waiting.pop(answer.opaque, None)
        if asked is not None and asked._generation.waiting.pop(asked._number, None) is not None:  # `resume`, in short
            asked.answered(answer)

    def asked(self, command: Command) -> None:
        """The other side asks."""
        if command.serialization != self._form:
            self._form = command.serialization
        if command.ext_block is None and command.fields:
            command.ext_block = encode_ext(command.fields)

    def cut(self) -> None:
        """End the connection at once: there is no use in waiting for what was said to be read."""
        self._cut(lambda peer: peer is self.peer)

    def end(self) -> None:
        """The connection has ended."""
        for asked in list(self.waiting.values()):
            asked.fail(OwnerGone("the connection has ended"))

    def _say(self, frames: list[Buffer]) -> None:
        """Together with what else is said in this turn, in parcels: the other side works while this one goes on."""
        self._said += 1
        if self._said >= FRAMES_TOGETHER:
            self._said = 0
            self.peer.send(frames)
        else:
            self.peer.push(frames)

    def _sending_changed(self, is_paused: bool) -> None:
        self.is_stuffed = is_paused
        self.refused_while_stuffed = 0


class Receiver(Protocol):
    """Takes what the other side asks."""

    def receive(self, command: Command, channel: Channel) -> None: ...


class Links:
    """Connections made and accepted, on one loop. `receiver` takes what is asked over any of them.

    Whoever has accepted a connection does not read while its answers are not read. Whoever has made it reads in any
    case: if neither did, two that have more to say than the kernel keeps would wait for each other for ever. What is
    asked of a side that reads in any case is refused while its answers are not read, and too often means the end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wheel: TimerWheel,
        receiver: Receiver | None,
        limits: ReactorLimits | None = None,
    ) -> None:
        limits = limits or ReactorLimits(frame_bytes_max=FRAME_BYTES_MAX)
        framing = length_prefixed()
        self.lot: NumberedLot[Command] = NumberedLot(
            "calls_awaited_max", wheel, clock, CALLS_AWAITED_MAX, lambda work: _soon(loop, work)
        )
        self.connector = Connector(loop, _Making(self), framing, clock=clock, wheel=wheel, limits=limits)
        self.acceptor = Acceptor(loop, self, framing, clock=clock, wheel=wheel, limits=limits)
        self._receiver = receiver
        self._channels: dict[Peer, Channel] = {}

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Channel:
        """Raises OSError, Expired, LimitExceeded, OwnerGone."""
        return self._channels[await self.connector.connect(host, port, tls=tls)]

    async def close(self) -> None:
        """End every connection, once what is ready was sent, and fail what is awaited, now and from now on."""
        await self.acceptor.drain()
        await self.connector.close(0)
        self.lot.close(OwnerGone("the connection is closed"))

    # For the reactor.

    def connection_opened(self, peer: Peer) -> None:
        self._channels[peer] = Channel(peer, self.lot, self.acceptor.cut)

    def connection_made(self, peer: Peer) -> None:
        self._channels[peer] = Channel(peer, self.lot, self.connector.cut)

    def request_received(self, frame: Buffer, peer: Peer) -> None:
        command = decode(frame)
        channel = self._channels[peer]
        if command.flag & IS_RESPONSE:
            channel.received(command)
            return
        channel.asked(command)
        if self._receiver is not None:
            self._receiver.receive(command, channel)
        else:
            channel.answer(command.opaque, UNSUPPORTED, b"", b"", b"no services are offered here")

    def connection_closed(self, peer: Peer) -> None:
        self._channels.pop(peer).end()


class _Making:
    """The handler of connections that this side has made."""

    def __init__(self, links: Links) -> None:
        self.connection_closed = links.connection_closed
        self.request_received = links.request_received
        self._links = links

    def connection_opened(self, peer: Peer) -> None:
        peer.is_duplex = True
        self._links.connection_made(peer)


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    if not loop.is_closed():  # else nobody is left to be told
        loop.call_soon_threadsafe(work)
