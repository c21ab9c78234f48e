"""Avro's binary form into rows: a schema becomes a tree of small functions, one for each type.

Each takes the bytes and a position and returns a value and the position after it. Nothing is trusted: lengths and
counts are compared with what is left before anything is made of them, and work and memory grow with the bytes alone,
however deep records are nested and however many items take no bytes. Records come back as tuples, maps as lists of
pairs, dates and timestamps as the numbers that Arrow keeps.

Knows nothing of schema registries.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from hutong.pipelines.source.rows.avro_schema import (
    Again,
    Enumeration,
    FixedBytes,
    Items,
    Plan,
    Primitive,
    RecordPlan,
    Union,
    is_left_out,
    kind_of,
)
from hutong.pipelines.source.rows.kinds import DecimalOf

INT_BITS, LONG_BITS = 32, 64
DECIMAL_BYTES_MAX = 32
"""38 digits take 16; some writers pad."""
EMPTY_ITEMS_SPARE = 64
"""Items that take no bytes could else be claimed without end: a value may have this many, and one for each byte."""
LEVELS_MAX = 100
"""The nesting of a record in itself beyond the unfolded schema."""

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]


@dataclass(slots=True)
class _Budget:
    """The remaining allowance of the value that is being read."""

    empty_items: int = 0
    levels: int = LEVELS_MAX


class _Scope(NamedTuple):
    """The place of a part of the plan: the enclosing records by name, each to be filled in once it is made."""

    around: Mapping[str, list[Read]]
    budget: _Budget


def avro_reader(plan: Plan) -> Callable[[bytes], Any]:
    """A function from bytes to their value. It raises ValueError that names the field."""
    budget = _Budget()
    read = _reader(plan, _Scope({}, budget))

    def read_whole(data: bytes) -> Any:
        # Items without bytes (null, empty records) would make counts free of charge: an array of 2^62 nulls takes ten
        # bytes.
        budget.empty_items, budget.levels = EMPTY_ITEMS_SPARE + len(data), LEVELS_MAX
        try:
            value, at = read(data, 0)
        except RecursionError:  # a wide schema takes more of Python's stack for each level
            raise ValueError("records are nested too deep") from None
        # The writer had another schema: the fields read so far are wrong, too.
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes are left after the last field")
        return value

    return read_whole


def _reader(plan: Plan, scope: _Scope) -> Read:
    match plan:
        case Primitive(name, _, factor):
            return _PRIMITIVES[name] if factor == 1 else _times(_PRIMITIVES[name], factor)
        case FixedBytes(size, kind):
            # A negative size marks Avro's `bytes`, with a length field.
            read = _read_bytes if size < 0 else _fixed(size)
            return _decimal(read, kind.scale) if isinstance(kind, DecimalOf) else read
        case Enumeration(symbols):
            return _enumeration(symbols)
        case Items(item, is_map):
            read_item = _reader(item, scope)
            # A map's entry has at least the length of its key.
            bytes_min = _bytes_min(item) + int(is_map)
            return _items(_pair(read_item) if is_map else read_item, bytes_min, scope.budget)
        case RecordPlan():
            return _record(plan, scope)
        case Again(full_name):
            return _again(full_name, scope)
        case Union():
            return _union(plan, scope)


def _bytes_min(plan: Plan) -> int:
    """The fewest bytes that a value takes."""
    match plan:
        case Primitive(name="null"):
            return 0
        # Floats have a fixed width; other numbers are varints of one byte or more.
        case Primitive(name="float"):
            return 4
        case Primitive(name="double"):
            return 8
        case FixedBytes(size) if size >= 0:
            return size
        case RecordPlan(fields=fields):
            return sum(map(_bytes_min, fields))
        case _:
            return 1


def _varint(data: bytes, at: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        # Not left to IndexError, which would name no field.
        if at >= len(data):
            raise ValueError("the bytes end in the middle of a number")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        # At most 5 bytes for an int, 10 for a long; more never ends.
        if shift >= bits:
            raise ValueError(f"a number has more than {bits} bits")
    # The last byte may hold bits that the type lacks.
    if number >> bits:
        raise ValueError(f"a number has more than {bits} bits")
    return (number >> 1) ^ -(number & 1), at


def _read_null(_data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    # Avro allows 0 and 1 alone.
    if at >= len(data) or data[at] > 1:
        raise ValueError("a boolean is neither 0 nor 1")
    return data[at] == 1, at + 1


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    return _varint(data, at, INT_BITS)


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    return _varint(data, at, LONG_BITS)


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    _need(data, at, 4)
    return struct.unpack_from("<f", data, at)[0], at + 4


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    _need(data, at, 8)
    return struct.unpack_from("<d", data, at)[0], at + 8


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(data, at, LONG_BITS)
    _need(data, at, size)
    return data[at : at + size], at + size


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    content, at = _read_bytes(data, at)
    try:
        return content.decode(), at
    except UnicodeDecodeError as error:
        raise ValueError(f"a string is not UTF-8 ({error.reason})") from None


def _need(data: bytes, at: int, size: int) -> None:
    # Lengths are signed, so a damaged one may be negative.
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"{size} bytes are claimed where {len(data) - at} are left")


_PRIMITIVES: dict[str, Read] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "string": _read_string,
}


def _times(read: Read, factor: int) -> Read:
    def read_number(data: bytes, at: int) -> tuple[int, int]:
        number, at = read(data, at)
        return number * factor, at

    return read_number


def _fixed(size: int) -> Read:
    def read_fixed(data: bytes, at: int) -> tuple[bytes, int]:
        _need(data, at, size)
        return data[at : at + size], at + size

    return read_fixed


def _decimal(read: Read, scale: int) -> Read:
    def read_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
        content, at = read(data, at)
        # Turning bytes to a decimal takes quadratic time.
        if len(content) > DECIMAL_BYTES_MAX:
            raise ValueError(f"a decimal takes {len(content)} bytes")
        # Two's complement, big-endian, times 10^-scale (Avro, Logical Types). The text form avoids the context's
        # rounding.
        return Decimal(f"{int.from_bytes(content, 'big', signed=True)}e-{scale}"), at

    return read_decimal


def _enumeration(symbols: tuple[str, ...]) -> Read:
    def read_symbol(data: bytes, at: int) -> tuple[str, int]:
        number, at = _varint(data, at, INT_BITS)
        # An enumeration is written as the place of its symbol in the schema.
        if not 0 <= number < len(symbols):
            raise ValueError(f"symbol {number} is asked for where there are {len(symbols)}")
        return symbols[number], at

    return read_symbol


def _pair(read: Read) -> Read:
    def read_pair(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_string(data, at)
        value, at = read(data, at)
        return (key, value), at

    return read_pair


def _items(read: Read, item_bytes_min: int, budget: _Budget) -> Read:
    def read_items(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, at = _varint(data, at, LONG_BITS)
            # A block without items ends an array or a map.
            if count == 0:
                return items, at
            # A negative count is followed by the block's size in bytes, for readers that skip it.
            if count < 0:
                count = -count
                _, at = _varint(data, at, LONG_BITS)
            # Checked before the loop, so that a forged count allocates nothing.
            room = (len(data) - at) // item_bytes_min if item_bytes_min else budget.empty_items
            if count > room:
                raise ValueError(f"{count} items are claimed where there is room for {max(room, 0)}")
            if not item_bytes_min:
                budget.empty_items -= count
            for _ in range(count):
                item, at = read(data, at)
                items.append(item)

    return read_items


def _record(plan: RecordPlan, scope: _Scope) -> Read:
    # A cell that is filled after the reader exists: the record's own fields may refer to it.
    itself: list[Read] = []
    inside = _Scope({**scope.around, plan.full_name: itself}, scope.budget)
    fields = [
        (name, _reader(one, inside), not is_left_out(one)) for name, one in zip(plan.names, plan.fields, strict=True)
    ]

    def read_record(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for name, read, is_kept in fields:
            try:
                value, at = read(data, at)
            except ValueError as error:
                text = str(error)
                # Nested records prepend their name: "field order.item.price: ...".
                path = text.startswith("field ")
                raise ValueError(f"field {name}.{text[6:]}" if path else f"field {name}: {text}") from None
            # A field beyond the recursion limit is read to find its end, then dropped.
            if is_kept:
                values.append(value)
        return tuple(values), at

    itself.append(read_record)
    return read_record


def _again(full_name: str, scope: _Scope) -> Read:
    itself, budget = scope.around[full_name], scope.budget

    def read_again(data: bytes, at: int) -> tuple[None, int]:
        # A linked list of a million nodes in one value would overflow the stack.
        if not budget.levels:
            raise ValueError(f"{full_name} is nested more than {LEVELS_MAX} levels deeper than it is unfolded")
        budget.levels -= 1
        _, at = itself[0](data, at)
        # Given back, since depth is limited and not the number of records.
        budget.levels += 1
        return None, at

    return read_again


def _union(union: Union, scope: _Scope) -> Read:
    branches = [_reader(branch, scope) for branch in union.branches]
    has_value = [kind_of(branch) is not None for branch in union.branches]
    # Null branches have no member, so members are numbered without them.
    places = [sum(has_value[:number]) for number in range(len(branches))]
    member_count = sum(has_value)

    def read_branch(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _varint(data, at, LONG_BITS)
        # A union is written as the place of its branch, then that branch's value.
        if not 0 <= number < len(branches):
            raise ValueError(f"branch {number} of a union is asked for where there are {len(branches)}")
        value, at = branches[number](data, at)
        # The null branch, or a branch beyond the recursion limit.
        if not has_value[number]:
            return None, at
        # One type and null, or two numbers: a plain column.
        if not union.is_struct:
            return value, at
        members: list[Any] = [None] * member_count
        members[places[number]] = value
        return tuple(members), at

    return read_branch
