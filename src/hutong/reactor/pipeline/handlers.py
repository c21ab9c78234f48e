"""Handlers that most pipelines begin with: framing by length or line, a codec of JSON, idle connections, a sniff.

Strategy: a `FrameCutter` keeps bytes until they make a frame. It stops cutting when it is removed, and passes the rest
on as it is, so that a connection may change its protocol between two bytes of one read.

Knows nothing of sockets and clocks.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hutong.foundation.errors import ProtocolError
from hutong.reactor.pipeline.ends import ConnectionEnded, ConnectionOpened
from hutong.reactor.pipeline.machine import PipelineHandler, PipelineLink

FRAME_BYTES_MAX: Final = 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
TLS_HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection: the record type of a handshake (RFC 8446, section 5.1)."""


class FrameCutter(PipelineHandler):
    """The base of framings: `cut` finds the next frame in `held`, from `at` on."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        if frame_bytes_max < 1:
            raise ValueError("frame_bytes_max must be at least 1")
        self.frame_bytes_max = frame_bytes_max
        self.held = bytearray()
        self.at = 0  # the frames before it were passed on
        self._is_cutting = False
        self._is_broken = False

    @property
    def bytes_held(self) -> int:  # type: ignore[override]
        return len(self.held) - self.at

    def cut(self) -> bytes | None:
        """Return the next frame, with `at` behind it, or None for "more bytes". Raises ProtocolError."""
        raise NotImplementedError

    def frame(self, value: Any) -> bytes:
        """The bytes of a frame to be sent. Raises TypeError for anything else: `bytes(5)` would be five zeros."""
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        hint = "encode it, or put a codec such as JsonCodec() behind"
        raise TypeError(f"{type(self).__name__} sends bytes, not a {type(value).__name__}: {hint}")

    def inbound(self, value: Any, link: PipelineLink) -> None:
        # What follows a broken frame has no meaning, also where a handler took the failure.
        if self._is_broken:
            return
        # A codec before its framing; a list of numbers would be taken for bytes.
        if not isinstance(value, bytes | bytearray | memoryview):
            hint = "it comes before the codec in the list"
            raise TypeError(f"{type(self).__name__} cuts bytes, not a {type(value).__name__}: {hint}")
        # Copied once: what comes from the socket is only lent.
        self.held += value
        self.resume(link)

    def resume(self, link: PipelineLink) -> None:
        # A handler behind may send, which resumes nothing here; but it may remove this one, whose loop ends then.
        if self._is_cutting or self._is_broken:
            return
        self._is_cutting = True
        try:
            while not link.is_removed and link.may_continue and (frame := self.cut()) is not None:
                link.pipeline.frames_total += 1
                link.pass_inbound(frame)
        except ProtocolError:
            self._is_broken = True
            self.held.clear()
            self.at = 0
            raise
        finally:
            self._is_cutting = False
            # Once for each read: deleting behind each frame would make many small frames quadratic.
            del self.held[: self.at]
            self.at = 0
        if link.is_removed:
            self.removed(link)

    def removed(self, link: PipelineLink) -> None:
        # The frame under way is handled first; the loop above comes back to the rest.
        if self._is_cutting or not self.held:
            return
        # What was not cut is for the handler that comes next, as raw bytes.
        rest = bytes(self.held)
        self.held.clear()
        link.pass_inbound(rest)


class LineFrames(FrameCutter):
    r"""Lines: inbound cut at `\n`, without it and a `\r` before it; outbound ended with `\n`."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max)
        self._searched = 0  # bytes behind `at` that have no newline: a line that comes byte by byte stays linear

    def cut(self) -> bytes | None:
        # From where the last search ended: a long line that comes byte by byte costs its length, not its square.
        end = self.held.find(b"\n", self.at + self._searched)
        length = (len(self.held) if end < 0 else end) - self.at
        if length > self.frame_bytes_max:
            raise ProtocolError(f"a line of more than {self.frame_bytes_max} bytes")
        if end < 0:
            self._searched = length
            return None
        line = bytes(self.held[self.at : end])
        self.at = end + 1
        self._searched = 0
        return line.removesuffix(b"\r")

    def outbound(self, value: Any, link: PipelineLink) -> None:
        line = self.frame(value)
        # The peer would take it for two, and answer both: who chooses a part of a line could add lines of its own.
        if b"\n" in line:
            raise ValueError(f"a line has no newline within it, unlike {line[:40]!r}: send each line by itself")
        link.pass_outbound(line + b"\n")


class LengthFrames(FrameCutter):
    """Frames behind their length, 4 bytes big-endian that do not count themselves, both ways."""

    def cut(self) -> bytes | None:
        # The length itself may be cut.
        if self.bytes_held < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self.held, self.at)
        # Before its bytes come: nothing is kept for a frame that will be refused.
        if length > self.frame_bytes_max:
            raise ProtocolError(f"a frame of {length} bytes; {self.frame_bytes_max} are allowed")
        start = self.at + _LENGTH.size
        if len(self.held) < start + length:
            return None
        self.at = start + length
        return bytes(self.held[start : self.at])

    def outbound(self, value: Any, link: PipelineLink) -> None:
        frame = self.frame(value)
        link.pass_outbound(_LENGTH.pack(len(frame)) + frame)


class JsonCodec(PipelineHandler):
    """Values of JSON on the program's side, their bytes on the other. `type` checks what comes (a msgspec type)."""

    def __init__(self, type: Any = Any) -> None:
        self._decoder = msgspec.json.Decoder(type)
        self._encoder = msgspec.json.Encoder()

    def inbound(self, value: Any, link: PipelineLink) -> None:
        try:
            decoded = self._decoder.decode(value)
        # Bytes that are no UTF-8 and a deep nesting are the peer's fault as well, and have errors of their own.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"no valid JSON: {error}") from None
        link.pass_inbound(decoded)

    def outbound(self, value: Any, link: PipelineLink) -> None:
        link.pass_outbound(self._encoder.encode(value))


@dataclass(frozen=True, slots=True)
class IdleEvent:
    """Nothing came from the peer for this many seconds."""

    seconds: float


class IdleHandler(PipelineHandler):
    """Fires an `IdleEvent` for the handlers behind it when nothing came for `seconds`, and again after each."""

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError("seconds must be more than 0")
        self._seconds = seconds
        self._heard_at_ms = 0

    def event(self, event: object, link: PipelineLink) -> None:
        if isinstance(event, ConnectionOpened):
            self._heard_at_ms = link.pipeline.now_ms
            link.deadline_ms = self._heard_at_ms + int(self._seconds * 1000)
        elif isinstance(event, ConnectionEnded):
            link.deadline_ms = None
        link.pass_event(event)

    def inbound(self, value: Any, link: PipelineLink) -> None:
        # The deadline that is set stays: `timer` looks at this, so a read moves no timer.
        self._heard_at_ms = link.pipeline.now_ms
        # A handler that was added to an open connection begins here.
        if link.deadline_ms is None:
            link.deadline_ms = self._heard_at_ms + int(self._seconds * 1000)
        link.pass_inbound(value)

    def timer(self, link: PipelineLink) -> None:
        due_at_ms = self._heard_at_ms + int(self._seconds * 1000)
        now_ms = link.pipeline.now_ms
        if now_ms < due_at_ms:
            link.deadline_ms = due_at_ms
            return
        # From now on again: a program may send a ping at the first event and close at the second.
        self._heard_at_ms = now_ms
        link.deadline_ms = now_ms + int(self._seconds * 1000)
        link.pass_event(IdleEvent(self._seconds))


class SniffHandler(PipelineHandler):
    """Chooses by the first bytes: `choose(first)` returns the handlers that take its place, or None for more bytes.

    It raises ProtocolError for bytes of no protocol that it serves. `is_tls` knows TLS.
    """

    def __init__(self, choose: Callable[[bytes], Sequence[PipelineHandler] | None], bytes_max: int = 64) -> None:
        if not callable(choose):
            raise TypeError(f"a SniffHandler has a function of the first bytes, which returns handlers, not {choose!r}")
        self._choose = choose
        self._bytes_max = bytes_max
        self._first = b""
        self._is_broken = False

    @property
    def bytes_held(self) -> int:  # type: ignore[override]
        # A peer that sends half of what makes it known has the deadline of a frame.
        return len(self._first)

    def inbound(self, value: Any, link: PipelineLink) -> None:
        # The protocol stays unknown, also where a handler took the failure.
        if self._is_broken:
            return
        # At most `bytes_max` and one read: every read is looked at, or refused.
        self._first += value
        try:
            chosen = self._chosen()
        except ProtocolError:
            self._is_broken, self._first = True, b""
            raise
        if chosen is None:
            return
        # In reverse, each directly behind this link: the first of them ends up next to it.
        for handler in reversed(chosen):
            link.pipeline.add(handler, after=link.name)
        # Removed before the bytes pass: a chosen handler may look at the names.
        link.remove()

    def removed(self, link: PipelineLink) -> None:
        # For the handler that comes next, also where another one removed this.
        first, self._first = self._first, b""
        if first:
            link.pass_inbound(first)

    def _chosen(self) -> Sequence[PipelineHandler] | None:
        chosen = self._choose(self._first)
        # `is_tls` alone is an answer of another kind.
        if chosen is not None and not isinstance(chosen, Sequence):
            hint = "return a list of handlers, or None for more bytes"
            raise TypeError(f"the function of a SniffHandler returned {chosen!r}: {hint}")
        # Else a peer that never makes itself known would be kept, and its bytes with it.
        if chosen is None and len(self._first) >= self._bytes_max:
            raise ProtocolError(f"no known protocol in the first {len(self._first)} bytes")
        return chosen


def is_tls(first: bytes) -> bool:
    """True for the first bytes of a TLS client."""
    return first[:1] == bytes([TLS_HANDSHAKE])
