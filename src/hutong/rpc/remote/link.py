"""Command frames over connections, as calls need them: either side asks, either side answers, in any order.

Strategy: what is asked is parked under the opaque of its frame and of its connection; the answer, the deadline and the
end of the connection end it, whichever is first. A frame is one buffer, and what a turn of the loop says leaves as one.

Knows the binary header of RocketMQ's frames, and nothing of what they mean.
"""

import asyncio
import itertools
import ssl
import struct
from collections.abc import Callable
from typing import Final, Protocol

from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, OwnerGone, ProtocolError
from hutong.foundation.numbered_lot import Line, NumberedLot, Wait
from hutong.foundation.timers import TimerWheel
from hutong.reactor.acceptor import Acceptor
from hutong.reactor.connector import Connector
from hutong.reactor.framing import length_prefixed
from hutong.reactor.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.wire.buffer import Buffer

FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # as RocketMQ's
CALLS_AWAITED_MAX: Final = 1_000_000
UNSUPPORTED: Final = 3
OPAQUE_MAX: Final = 0x7FFFFFFF
IS_ANSWER: Final = 1
IS_ONEWAY: Final = 2
_PYTHON: Final = 3  # among RocketMQ's languages
_VERSION: Final = 1
_BINARY: Final = 1 << 24
_FIXED_BYTES: Final = 21
_SHORT: Final = struct.Struct(">IIhBhiiii")  # lengths and all of a header without a remark
_LONG: Final = struct.Struct(">IIhBhiii")
_INT: Final = struct.Struct(">i")
_read_header: Final = struct.Struct(">IhBhiii").unpack_from


class Command:
    """One frame. `ext_block` are its ext fields, not decoded."""

    __slots__ = ("body", "code", "ext_block", "flag", "opaque", "remark")

    def __init__(self, code: int, opaque: int, flag: int, remark: str | None, ext_block: bytes, body: Buffer) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.ext_block = ext_block
        self.body = body


def encode(code: int, opaque: int, flag: int, ext_block: bytes, body: bytes, remark: bytes = b"") -> bytes:
    """A frame, its length included."""
    ext_bytes = len(ext_block)
    if not remark:
        header_bytes = _FIXED_BYTES + ext_bytes
        return (
            _SHORT.pack(
                4 + header_bytes + len(body),
                _BINARY | header_bytes,
                code,
                _PYTHON,
                _VERSION,
                opaque,
                flag,
                0,
                ext_bytes,
            )
            + ext_block
            + body
        )
    header_bytes = _FIXED_BYTES + len(remark) + ext_bytes
    first = _LONG.pack(
        4 + header_bytes + len(body), _BINARY | header_bytes, code, _PYTHON, _VERSION, opaque, flag, len(remark)
    )
    return b"".join((first, remark, _INT.pack(ext_bytes), ext_block, body))


def decode(frame: Buffer) -> Command:
    """What was framed. Raises ProtocolError."""
    try:
        lengths, code, _, _, opaque, flag, remark_bytes = _read_header(frame)
        at = _FIXED_BYTES + remark_bytes
        (ext_bytes,) = _INT.unpack_from(frame, at)
        body_at = at + 4 + ext_bytes
        if lengths != _BINARY | body_at - 4 or remark_bytes < 0 or ext_bytes < 0 or body_at > len(frame):
            raise ProtocolError("the lengths of a frame's header contradict each other")
        remark = bytes(frame[_FIXED_BYTES:at]).decode() if remark_bytes else None
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a frame that cannot be read: {error}") from None
    return Command(code, opaque, flag, remark, bytes(frame[at + 4 : body_at]), frame[body_at:])


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
    """One connection. `calls` are those of the other side under way."""

    __slots__ = ("_line", "_lot", "_opaques", "calls", "owner", "peer", "push", "waiting")

    def __init__(self, peer: Peer, lot: NumberedLot[Command]) -> None:
        self.calls = 0
        self.owner = peer.owner
        self.peer = peer
        self.waiting: dict[int, Asked] = {}
        self._lot = lot
        self._line: Line[Command] = lot.line(1)
        self._opaques = itertools.count(1)

    def begin(self, code: int, ext_block: bytes, body: bytes, timeout_ms: int, asked: Asked) -> None:
        """Ask. Whatever comes of it ends `asked`. Raises LimitExceeded where too many answers are awaited."""
        line = self._line
        if line.timeout_ms != timeout_ms:
            line = self._line = self._lot.line(timeout_ms)
        asked.opaque = opaque = next(self._opaques) & OPAQUE_MAX
        asked.waiting = self.waiting
        line.park(asked)
        self.waiting[opaque] = asked
        self.peer.push([encode(code, opaque, 0, ext_block, body)])

    def answer(self, opaque: int, code: int, ext_block: bytes, body: bytes, remark: bytes = b"") -> None:
        """Nothing happens once the connection has ended."""
        self.peer.push([encode(code, opaque, IS_ANSWER, ext_block, body, remark)])

    def received(self, answer: Command) -> None:
        """What was asked is answered. Dropped if it is not awaited (any more)."""
        asked = self.waiting.pop(answer.opaque, None)
        if asked is not None:
            asked.resume(answer)

    def end(self) -> None:
        """The connection has ended."""
        for asked in list(self.waiting.values()):
            asked.fail(OwnerGone("the connection has ended"))


class Receiver(Protocol):
    """Takes what the other side asks."""

    def receive(self, command: Command, channel: Channel) -> None: ...


class Links:
    """Connections made and accepted, on one loop. `receiver` takes what is asked over any of them."""

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
        self.connector = Connector(loop, self, framing, clock=clock, wheel=wheel, limits=limits)
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
        self._channels[peer] = Channel(peer, self.lot)

    def request_received(self, frame: Buffer, peer: Peer) -> None:
        command = decode(frame)
        channel = self._channels[peer]
        if command.flag & IS_ANSWER:
            channel.received(command)
        elif self._receiver is not None:
            self._receiver.receive(command, channel)
        else:
            channel.answer(command.opaque, UNSUPPORTED, b"", b"", b"no services are offered here")

    def connection_closed(self, peer: Peer) -> None:
        self._channels.pop(peer).end()


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    if not loop.is_closed():  # else nobody is left to be told
        loop.call_soon_threadsafe(work)
