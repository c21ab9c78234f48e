"""A reader of DER (X.690) as far as certificates need it: consecutive items, one level at a time.

Strategy: every length is checked before an item is copied.

Knows nothing of the meaning of items.
"""

from collections.abc import Iterator
from typing import Final

from hutong.foundation.errors import ProtocolError

SEQUENCE: Final = 0x30


def sequence_in(data: bytes) -> bytes:
    """Return the contents of the first item, which must be a sequence. Raises ProtocolError."""
    tag, value = next(items_in(data), (0, b""))
    if tag != SEQUENCE:
        raise ProtocolError("not a certificate")
    return value


def items_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and contents of consecutive items. Raises ProtocolError."""
    at = 0
    while at < len(data):
        if len(data) < at + 2:
            raise ProtocolError("an item that is cut off")
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:  # the long form (X.690, 8.1.3.5); DER forbids the indefinite one, a count of 0
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) < at + count:
                raise ProtocolError("an item whose length is cut off")
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        if length > len(data) - at:
            raise ProtocolError("an item that is longer than what is there")
        yield tag, data[at : at + length]
        at += length
