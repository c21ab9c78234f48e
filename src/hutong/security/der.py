"""DER (X.690) as far as certificates need it: items in a row, one level at a time.

Strategy: no item is copied before it is known to be there, and every length is checked.

Knows nothing of what items mean.
"""

from collections.abc import Iterator
from typing import Final

from hutong.foundation.errors import ProtocolError

SEQUENCE: Final = 0x30


def sequence_in(data: bytes) -> bytes:
    """What the first item holds, which must be a sequence. Raises ProtocolError."""
    tag, value = next(items_in(data), (0, b""))
    if tag != SEQUENCE:
        raise ProtocolError("not a certificate")
    return value


def items_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and contents of each item in a row. Raises ProtocolError."""
    at = 0
    while at < len(data):
        if len(data) < at + 2:
            raise ProtocolError("an item that is cut off")
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) < at + count:
                raise ProtocolError("an item whose length is cut off")
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        if length > len(data) - at:
            raise ProtocolError("an item that is longer than what is there")
        yield tag, data[at : at + length]
        at += length
