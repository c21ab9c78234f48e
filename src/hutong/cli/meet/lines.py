"""One line of the exercise as bytes: u32 length of what follows, u32 serial, text in UTF-8; numbers are big-endian.

Strategy: the careful way, a line at a time; `runs` has the quick one and comes here for whatever it does not expect.
Knows no text and no serial: any line that is well formed is a line.
"""

import struct
from typing import Final, NamedTuple

from hutong.foundation.errors import ProtocolError

LINE_BYTES_MAX: Final = 1024  # of what the length counts: serial and text
SERIAL_BYTES: Final = 4
HEAD: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")


class Line(NamedTuple):
    serial: int
    text: str


def encode_line(serial: int, text: str) -> bytes:
    """Raises ValueError where no frame can hold it: a serial of more than 32 bits, a text above LINE_BYTES_MAX."""
    said = text.encode()
    if not 0 <= serial < 1 << 32:
        raise ValueError(f"serial {serial} does not fit in 32 bits")
    if SERIAL_BYTES + len(said) > LINE_BYTES_MAX:
        raise ValueError(f"a text of {len(said)} bytes; {LINE_BYTES_MAX - SERIAL_BYTES} are allowed")
    return HEAD.pack(SERIAL_BYTES + len(said), serial) + said


def line_end(data: bytes, at: int) -> int | None:
    """Where the line that begins at `at` ends, which may lie beyond `data`; None if its length is not there yet.

    Raises ProtocolError as soon as the length is seen to lie.
    """
    if len(data) - at < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data, at)
    if not SERIAL_BYTES <= length <= LINE_BYTES_MAX:
        raise ProtocolError(f"a line of {length} bytes; {SERIAL_BYTES} to {LINE_BYTES_MAX} are allowed")
    return at + _LENGTH.size + int(length)


def decode_line(data: bytes, at: int, end: int) -> Line:
    """The line between `at` and `end`. Raises ProtocolError where its text is not UTF-8."""
    _, serial = HEAD.unpack_from(data, at)
    try:
        return Line(serial, data[at + HEAD.size : end].decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"serial {serial}: the text is not UTF-8 ({error.reason})") from None
