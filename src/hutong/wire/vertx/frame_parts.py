"""The parts of frames between nodes: texts and numbers, to bytes and back.

    text = i32 length in bytes, UTF-8; every number is big-endian

Strategy: a length is compared with what is left of the frame before anything is made of it. ProtocolError is the only
error of reading.

Knows no frames.
"""

import struct
from typing import Final

from hutong.foundation.errors import ProtocolError

INT_BYTES: Final = 4
_INT: Final = struct.Struct(">i")
pack_int: Final = _INT.pack
unpack_int_from: Final = _INT.unpack_from


def text_bytes(text: str, bytes_max: int, what: str) -> bytes:
    """The text with its length. Raises ValueError where UTF-8 cannot express it, or where it is too long."""
    data = text.encode()
    if len(data) > bytes_max:
        raise ValueError(f"{what} of {len(data)} bytes; {bytes_max} are allowed between nodes")
    return pack_int(len(data)) + data


def text_at(view: memoryview, at: int, bytes_max: int, what: str) -> tuple[str, int]:
    """The text at this position, and the position behind it. Raises ProtocolError."""
    size, at = int_at(view, at, what)
    if not 0 <= size <= min(bytes_max, len(view) - at):
        raise ProtocolError(f"a {what} of {size} bytes with {len(view) - at} left; {bytes_max} are allowed")
    try:
        return str(view[at : at + size], "utf-8"), at + size
    except UnicodeDecodeError as error:
        raise ProtocolError(f"a {what} that is not UTF-8: {error}") from None


def int_at(view: memoryview, at: int, what: str) -> tuple[int, int]:
    """The number at this position, and the position behind it. Raises ProtocolError."""
    if len(view) - at < INT_BYTES:
        raise ProtocolError(f"the frame ends in the {what}")
    return unpack_int_from(view, at)[0], at + INT_BYTES


def byte_at(view: memoryview, at: int) -> tuple[int, int]:
    """The byte at this position, and the position behind it. Raises ProtocolError."""
    if at >= len(view):
        raise ProtocolError("the frame ends before the kind of the message")
    return view[at], at + 1
