"""Variable-length integers (KIP-482 lengths, record fields) and unknown tagged fields.

Seven bits a byte, least significant first, the high bit set on all but the last byte; signed ones are zig-zag coded.
Reading past the end raises IndexError, which the caller translates once at its outer function.
"""

from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

UVARINT_BYTES_MAX = 5
UVARLONG_BYTES_MAX = 10
TAGGED_FIELDS_MAX = 127
"""In one place: no message defines more than a handful, and so their count is one byte."""

ONE_BYTE = [bytes([number]) for number in range(128)]


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """The unsigned 32-bit number at `position` and the position after it."""
    number = data[position]
    if number < 128:
        return number, position + 1
    return finish_uvarint(data, position + 1, number)


def finish_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """As `read_uvarint` when the first byte is read already and says that more follow; `position` is after it."""
    number = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number > 0xFFFF_FFFF:
                break
            return number, position
    raise ProtocolError(f"a varint does not fit 32 bits in {UVARINT_BYTES_MAX} bytes")


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """The zig-zag coded signed 64-bit number at `position` and the position after it."""
    number = data[position]
    position += 1
    if number > 127:
        number &= 127
        for shift in range(7, 7 * UVARLONG_BYTES_MAX, 7):
            byte = data[position]
            position += 1
            number |= (byte & 127) << shift
            if byte < 128:
                break
        else:
            raise ProtocolError(f"a varint is longer than {UVARLONG_BYTES_MAX} bytes")
        if number > 0xFFFF_FFFF_FFFF_FFFF:
            raise ProtocolError("a varint does not fit 64 bits")
    return (number >> 1) ^ -(number & 1), position


def uvarint(number: int) -> bytes:
    """A number from 0 as bytes."""
    if number < 128:
        return ONE_BYTE[number]
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def varlong(number: int) -> bytes:
    """A signed 64-bit number, zig-zag coded."""
    return uvarint((number << 1) ^ (number >> 63))


SHORT_VARLONGS = [varlong(number) for number in range(512)]
"""Of the lengths that keys, headers and short values have."""


def sized(data: Buffer) -> bytes:
    """The length of a field of a record, which precedes it."""
    size = len(data)
    return SHORT_VARLONGS[size] if size < 512 else varlong(size)


def skip_tagged_fields(data: Buffer, position: int, count: int) -> int:
    """The position after `count` tagged fields. Raises ProtocolError for more than TAGGED_FIELDS_MAX."""
    if count > TAGGED_FIELDS_MAX:
        raise ProtocolError(f"more than {TAGGED_FIELDS_MAX} tagged fields")
    for _ in range(count):
        _, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        position += length
    return position
