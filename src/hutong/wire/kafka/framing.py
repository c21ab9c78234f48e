"""Splits a byte stream into frames: a 32-bit size, then that many bytes.

Strategy: what arrives whole is sliced out of the chunk it came in; only a frame that spans chunks is gathered, in a
buffer that grows with the bytes that really came, never from the size the peer claims.
"""

import struct

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

SIZE_BYTES = 4
_size_at = struct.Struct(">i").unpack_from


class FrameDecoder:
    """One direction of one connection. Raises ProtocolError for a size below zero or above `max_frame_bytes`.

    Frames are copies of what the caller gave, so it may reuse its buffer. `max_frame_bytes` may be changed at any time
    and holds for sizes read from then on. After an error the stream cannot be read on: close it.
    """

    __slots__ = ("_partial", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._partial = bytearray()  # the beginning of one frame with its size, or empty

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._partial)

    def receive_data(self, data: Buffer) -> list[Buffer]:
        """The frames that `data` completes, without their sizes, in order."""
        frames: list[Buffer] = []
        position = self._complete_partial(data, frames) if self._partial else 0
        available = len(data)
        while available - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            end = start + self._checked_size(data, position)
            if end > available:
                break
            frames.append(bytes(data[start:end]))
            position = end
        if position < available:
            self._partial += data[position:]
        return frames

    def _complete_partial(self, data: Buffer, frames: list[Buffer]) -> int:
        """Feeds the gathered frame from `data`; the position in `data` after what it took."""
        partial, position = self._partial, 0
        if len(partial) < SIZE_BYTES:
            position = SIZE_BYTES - len(partial)
            partial += data[:position]
            if len(partial) < SIZE_BYTES:
                return len(data)
        missing = SIZE_BYTES + self._checked_size(partial, 0) - len(partial)
        partial += data[position : position + missing]
        if len(data) - position < missing:
            return len(data)
        frames.append(memoryview(partial)[SIZE_BYTES:])
        self._partial = bytearray()
        return position + missing

    def _checked_size(self, data: Buffer, position: int) -> int:
        size: int = _size_at(data, position)[0]
        if not 0 <= size <= self.max_frame_bytes:
            raise ProtocolError(f"a frame of {size} bytes, where 0 to {self.max_frame_bytes} are taken")
        return size
