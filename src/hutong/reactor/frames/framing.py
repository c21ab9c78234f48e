"""Framing: where one request ends and the next begins, the only thing the reactor must know of a protocol.

Strategy: `Framing` is the whole contract; `DirectFraming` adds an optional path by which the rest of a large frame is
read from the socket straight into its own buffer. `LengthPrefixedFraming` serves both, and is what Kafka speaks.

Knows nothing of sockets, time or what a frame means.
"""

import struct
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Protocol, cast, runtime_checkable

from hutong.foundation.errors import ProtocolError
from hutong.reactor.frames.frame_memory import KEPT_BYTES_MAX, FrameMemory
from hutong.wire.buffer import Buffer

PREFIX_BYTES = 4
length_at = struct.Struct(">i").unpack_from
DIRECT_FROM_BYTES = 16 * 1024  # a frame of fewer bytes is simply kept until the rest comes
FIRST_BUFFER_BYTES = 64 * 1024
TRUSTED_BUFFER_BYTES = 2 * 1024 * 1024  # the largest allocation at once, for every peer
MAPPED_GROWTH = 8  # times; of a map only the pages that were written to are memory
MAPPED_READ_BYTES = 64 * 1024
"""Of one read into a map. libuv reads a socket up to 32 times in one loop iteration while reads are full, so that one
connection brings 2 MiB in an iteration (measured: 1 ms, most of it for fresh pages), not all that the kernel holds."""


class Framing(Protocol):
    """Cuts one connection's byte stream into frames.

    `frame_bytes_max` may be set at any time and holds from the next frame on. `bytes_held` counts the bytes of a frame
    that is begun but not complete. `failure` is set once the bytes break the format: what follows is not read any more.
    """

    frame_bytes_max: int
    bytes_held: int
    failure: ProtocolError | None

    def receive_data(self, data: Buffer) -> list[Buffer]:
        """The frames completed by `data`, in order. `data` is only lent: what must outlive the call is copied."""
        ...


@runtime_checkable
class DirectFraming(Framing, Protocol):
    """A framing that can name the place where the next bytes belong."""

    def wanted(self) -> memoryview | None:
        """Return the place for the next bytes of a large frame, or None: then they come by `receive_data`.

        The memory may move at the next call, when no view of it may be held any more.
        """
        ...

    def received(self, count: int) -> list[Buffer]:
        """`count` bytes were put at the beginning of what was `wanted`."""
        ...

    def bytes_missing(self, data: Buffer) -> int | None:
        """Count the bytes of `data`, and behind it, that end the frame which is begun; None if it does not say."""
        ...


_direct: dict[type[Framing], bool] = {}  # by kind: asking a protocol class takes long, and every connection asks


def direct_of(framing: Framing) -> DirectFraming | None:
    """The framing, if it can do that."""
    kind = type(framing)
    if kind not in _direct:
        _direct[kind] = isinstance(framing, DirectFraming)
    return cast(DirectFraming, framing) if _direct[kind] else None


class LengthPrefixedFraming:
    """Frames preceded by their length, a signed 32-bit big-endian integer that does not count itself.

    A small frame is handed out as `bytes`, copied once. A frame of DIRECT_FROM_BYTES or more that does not arrive whole
    is handed out as a view of its own buffer. That comes from `memory`, where one is free, or grows as bytes really
    come: twofold up to TRUSTED_BUFFER_BYTES, beyond that as a map of MAPPED_GROWTH times the size, whose pages become
    memory when they are written to, MAPPED_READ_BYTES at a time. So what a peer makes us hold is what it sent, and
    little more (no allocation from a length field: CVE-2022-34917), and it is copied once or twice.
    """

    __slots__ = ("_large", "_largest_bytes", "_length", "_memory", "_start", "bytes_held", "failure", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int, memory: FrameMemory | None = None) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.failure: ProtocolError | None = None
        self.bytes_held = 0
        self._memory = memory
        self._start = b""  # the first bytes of an unfinished frame, prefix and all, unless it is large
        # Of an unfinished large frame: `bytes_held` of `_length` bytes are there.
        self._large: bytearray | mmap | None = None
        self._length = 0
        self._largest_bytes = FIRST_BUFFER_BYTES

    def receive_data(self, data: Buffer) -> list[Buffer]:
        frames: list[Buffer] = []
        at = 0
        if self.failure is not None:
            return frames
        if self.bytes_held:
            if self._large is not None:
                at = self._fill(data, frames)
            else:
                data = self._start + data
                self.bytes_held = 0
        view = memoryview(data)
        end = len(view)
        frame_bytes_max = self.frame_bytes_max
        while end - at >= PREFIX_BYTES:
            (length,) = length_at(view, at)
            if not 0 <= length <= frame_bytes_max:
                self._fail(length)
                return frames
            start = at + PREFIX_BYTES
            stop = start + length
            if stop > end:
                if length >= DIRECT_FROM_BYTES and start < end:  # none of it yet: the prefix is held like a small one
                    self._begin_large(length, view[start:])
                    return frames
                break
            frames.append(view[start:stop].tobytes())
            at = stop
        if at < end:
            self._start = view[at:].tobytes()
            self.bytes_held = end - at
        return frames

    def wanted(self) -> memoryview | None:
        if self._large is None:
            return None
        if self.bytes_held == len(self._large):
            self._grow(self.bytes_held + 1)
        end = self._length if isinstance(self._large, bytearray) else self.bytes_held + MAPPED_READ_BYTES
        return memoryview(self._large)[self.bytes_held : min(end, self._length)]

    def received(self, count: int) -> list[Buffer]:
        large, length = self._large, self._length
        assert large is not None, "nothing was wanted"
        self.bytes_held += count
        if self.bytes_held < length:
            return []
        self._large = None
        self.bytes_held = 0
        self._largest_bytes = min(TRUSTED_BUFFER_BYTES, max(self._largest_bytes, length))
        if self._memory is not None and isinstance(large, bytearray):
            self._memory.keep_buffer(large)
        return [memoryview(large)[:length]]

    def bytes_missing(self, data: Buffer) -> int | None:
        if self._large is not None:
            return self._length - self.bytes_held
        prefix = (self._start + data[:PREFIX_BYTES])[:PREFIX_BYTES]
        if len(prefix) < PREFIX_BYTES:
            return None
        (length,) = length_at(prefix)
        return PREFIX_BYTES + length - self.bytes_held if 0 <= length <= self.frame_bytes_max else None

    def _begin_large(self, length: int, first: memoryview) -> None:
        held = len(first)
        large = self._memory.take_buffer(length) if self._memory is not None else None
        if large is None:
            large = bytearray(min(length, max(self._largest_bytes, held)))
        large[:held] = first
        self._large, self._length, self.bytes_held = large, length, held

    def _fill(self, data: Buffer, frames: list[Buffer]) -> int:
        """Continue the large frame with data that came the ordinary way; returns how much of it was taken."""
        large, held = self._large, self.bytes_held
        assert large is not None
        count = min(len(data), self._length - held)
        if held + count > len(large):
            self._grow(held + count)
        large[held : held + count] = data[:count]
        frames.extend(self.received(count))
        return count

    def _grow(self, needed: int) -> None:
        """Make room for `needed` bytes and some more. No view of the buffer may be held."""
        large = self._large
        assert large is not None
        size = len(large)
        if isinstance(large, bytearray) and needed <= TRUSTED_BUFFER_BYTES:
            large.extend(bytes(min(self._length, TRUSTED_BUFFER_BYTES, max(needed, 2 * size)) - size))
            return
        size = min(self._length, MAPPED_GROWTH * needed)
        if isinstance(large, mmap):
            try:
                large.resize(size)  # mremap moves pages without a copy; a copy of 16 MiB holds the loop for 20 ms
            except SystemError:  # a system without mremap
                pass
            else:
                return
        # Private, because the pages of a shared map do not grow with it.
        mapped = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        mapped[: self.bytes_held] = memoryview(large)[: self.bytes_held]
        self._large = mapped

    def _fail(self, length: int) -> None:
        self.failure = ProtocolError(f"a frame of {length} bytes; 0 to {self.frame_bytes_max} are allowed")
        self._start = b""


def length_prefixed() -> Callable[[int], LengthPrefixedFraming]:
    """A maker of framings, one for each connection of an acceptor, which share memory for large frames."""
    memory = FrameMemory(KEPT_BYTES_MAX)
    return lambda frame_bytes_max: LengthPrefixedFraming(frame_bytes_max, memory)
