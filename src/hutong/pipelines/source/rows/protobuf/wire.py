"""Protobuf's wire format (protobuf.dev, "Encoding"): the fields of a message one after the other.

Nothing is trusted: lengths are compared with what is left before anything is made of them. Knows nothing of schemas.
"""

from collections.abc import Iterator
from typing import TypeAlias

VARINT, I64, LEN, GROUP_BEGIN, GROUP_END, I32 = range(6)
FIXED = {I32: 4, I64: 8}
NUMBER_MAX = 2**29 - 1
GROUPS_MAX = 100
"""Groups in groups; proto2's old form of messages, whose end is a field of its own."""
MASK = 2**64 - 1

Raw: TypeAlias = tuple[int, int, int | bytes]
"""A field's number, its wire type, and its number or bytes."""


def fields_of(data: bytes) -> Iterator[Raw]:
    """The fields in order, without groups. Raises ValueError."""
    at = 0
    groups: list[int] = []
    while at < len(data):
        # The lower three bits are the wire type, the others the field's number.
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number <= NUMBER_MAX:
            raise ValueError(f"a field has the number {number}")
        if kind in (GROUP_BEGIN, GROUP_END):
            _note_group(groups, number, kind)
            continue
        value, at = _value(data, at, kind)
        # A field in a group is of a message that no plan has.
        if not groups:
            yield number, kind, value
    if groups:
        raise ValueError("the bytes end in the middle of a group")


def _note_group(groups: list[int], number: int, kind: int) -> None:
    """Note that a group begins, or ends. A list, since recursion would let the bytes decide on Python's stack."""
    if kind == GROUP_BEGIN:
        groups.append(number)
        if len(groups) > GROUPS_MAX:
            raise ValueError(f"groups are nested deeper than {GROUPS_MAX} levels")
    elif not groups or groups.pop() != number:
        raise ValueError(f"group {number} ends where it has not begun")


def _value(data: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
    if kind == VARINT:
        return varint(data, at)
    if kind == LEN:
        return _sized(data, at)
    if kind not in FIXED:
        raise ValueError(f"a field has the wire type {kind}, which there is not")
    return _fixed(data, at, FIXED[kind])


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits, and the position after it. Raises ValueError."""
    number = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("the bytes end in the middle of a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            # The tenth byte has one bit that counts; parsers drop the others.
            return number & MASK, at
        shift += 7
        # 64 bits take ten bytes; more never end.
        if shift >= 70:
            raise ValueError("a number has more than 10 bytes")


def varints(data: bytes) -> list[int]:
    """Numbers that follow each other to the end, as packed fields have them. Raises ValueError."""
    found, at = [], 0
    while at < len(data):
        number, at = varint(data, at)
        found.append(number)
    return found


def unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def append_varint(number: int, out: bytearray) -> None:
    """Append a number; a negative one as the 64 bits of two's complement, as protobuf has it."""
    number &= MASK
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def append_sized(number: int, content: bytes, out: bytearray) -> None:
    """Append a field of bytes, text or a message."""
    append_varint(number << 3 | LEN, out)
    append_varint(len(content), out)
    out += content


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = varint(data, at)
    # Before anything is made of it: a length may claim anything.
    if size > len(data) - at:
        raise ValueError(f"{size} bytes are claimed where {len(data) - at} are left")
    return data[at : at + size], at + size


def _fixed(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise ValueError("the bytes end in the middle of a number")
    return data[at : at + size], at + size
