"""Protobuf's binary form into rows: a plan becomes a tree of small functions, one for each field.

By protobuf's rules: of a field that comes twice the last counts, two parts of a message are one, a member of a oneof
ends the others, numbers may be packed or not, unknown fields are skipped. Work and memory grow with the bytes alone.
Messages come back as tuples, maps as lists of pairs, timestamps as microseconds.

Knows nothing of schema registries.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from hutong.pipelines.source.rows.protobuf.plan import (
    KINDS,
    UINT64,
    ProtoEnum,
    ProtoField,
    ProtoMap,
    ProtoMessage,
    ProtoScalar,
    ProtoTimestamp,
    ProtoType,
    ProtoWrapper,
)
from hutong.pipelines.source.rows.protobuf.wire import FIXED, I32, I64, LEN, VARINT, fields_of, unzigzag, varints

SECONDS = range(-62_135_596_800, 253_402_300_800)
"""The years 1 to 9999, which google.protobuf.Timestamp may have."""
NANOS = range(10**9)

Read: TypeAlias = Callable[[int | bytes], Any]
WIRES = {
    "double": I64,
    "fixed64": I64,
    "sfixed64": I64,
    "float": I32,
    "fixed32": I32,
    "sfixed32": I32,
    "string": LEN,
    "bytes": LEN,
}
"""The wire types of scalars; that of others is a varint."""
FORMS = {"double": "<d", "fixed64": "<Q", "sfixed64": "<q", "float": "<f", "fixed32": "<I", "sfixed32": "<i"}
ABSENT = object()
CELLS_SPARE = 10_000
"""Of the message itself: a plan has that many fields at most."""
CELLS_OF_BYTE_MAX = 64
"""Absent fields take no bytes, but have a place in the row: an empty message of two bytes may have a thousand."""


@dataclass(slots=True)
class _Cells:
    """The places that the row of the present value may have yet."""

    left: int = 0


@dataclass(frozen=True, slots=True)
class _FieldReader:
    """`place` is that in the row. `read` takes one value, `zero` is given where it is absent."""

    place: int
    plan: ProtoField
    wire: int
    read: Read
    zero: Any


def protobuf_reader(plan: ProtoMessage) -> Callable[[bytes], tuple[Any, ...]]:
    """A function from bytes to their row. It raises ValueError that names the field."""
    cells = _Cells()
    read = _message(plan, cells)

    def read_whole(data: bytes) -> tuple[Any, ...]:
        cells.left = CELLS_SPARE + CELLS_OF_BYTE_MAX * len(data)
        return read(data)

    return read_whole


def wire_of(found: ProtoType) -> int:
    """The wire type of one value."""
    match found:
        case ProtoScalar(type_):
            return WIRES.get(type_, VARINT)
        case ProtoEnum():
            return VARINT
        case _:
            return LEN


def _message(plan: ProtoMessage, cells: _Cells) -> Callable[[bytes], tuple[Any, ...]]:
    ordered = [
        _FieldReader(place, field, wire_of(field.type), _reader(field.type, cells), _zero(field))
        for place, field in enumerate(plan.fields)
    ]
    readers = {reader.plan.number: reader for reader in ordered}

    def read_message(data: bytes) -> tuple[Any, ...]:
        cells.left -= len(ordered)
        if cells.left < 0:
            raise ValueError(f"it has more than {CELLS_OF_BYTE_MAX} fields for each byte")
        values: list[Any] = [ABSENT] * len(ordered)
        chosen: dict[int, int] = {}
        for number, wire, raw in fields_of(data):
            reader = readers.get(number)
            if reader is None:
                continue
            # Of a oneof the last that comes counts.
            if reader.plan.oneof is not None:
                before = chosen.setdefault(reader.plan.oneof, reader.place)
                if before != reader.place:
                    values[before], chosen[reader.plan.oneof] = ABSENT, reader.place
            _take(values, reader, wire, raw)
        return tuple([_finished(values[reader.place], reader) for reader in ordered])

    return read_message


def _take(values: list[Any], reader: _FieldReader, wire: int, raw: int | bytes) -> None:
    """Note what came; messages wait for their other parts."""
    place, before = reader.place, values[reader.place]
    try:
        if reader.plan.is_repeated or isinstance(reader.plan.type, ProtoMap):
            found = before if before is not ABSENT else []
            found.extend(_several(reader, wire, raw))
            values[place] = found
        # Another version has the field's number with another type.
        elif wire != reader.wire:
            raise ValueError(f"it has the wire type {wire} where {reader.wire} is expected")
        elif isinstance(reader.plan.type, ProtoMessage | ProtoTimestamp | ProtoWrapper):
            # Two parts of a message, one after the other, are that message (protobuf.dev, "Last One Wins").
            if before is ABSENT:
                values[place] = [raw]
            else:
                before.append(raw)
        else:
            values[place] = reader.read(raw)
    except ValueError as error:
        raise _in_field(reader.plan.name, error) from None


def _finished(value: Any, reader: _FieldReader) -> Any:
    if value is ABSENT:
        if reader.plan.is_required:
            raise ValueError(f"field {reader.plan.name}: it is required, and is not there")
        return reader.zero
    try:
        if isinstance(reader.plan.type, ProtoMap):
            # Of a key that comes twice the last counts.
            return list(dict(value).items())
        is_parts = isinstance(reader.plan.type, ProtoMessage | ProtoTimestamp | ProtoWrapper)
        return reader.read(b"".join(value)) if is_parts and not reader.plan.is_repeated else value
    except ValueError as error:
        raise _in_field(reader.plan.name, error) from None


def _several(reader: _FieldReader, wire: int, raw: int | bytes) -> Sequence[Any]:
    """The values of a repeated field: one, or numbers that are packed."""
    if wire == reader.wire:
        return [reader.read(raw)]
    if wire != LEN or not isinstance(raw, bytes):
        raise ValueError(f"it has the wire type {wire} where {reader.wire} is expected")
    if reader.wire == VARINT:
        return [reader.read(number) for number in varints(raw)]
    size = FIXED[reader.wire]
    if len(raw) % size:
        raise ValueError(f"{len(raw)} bytes are packed numbers of {size} bytes")
    return [reader.read(raw[at : at + size]) for at in range(0, len(raw), size)]


def _reader(found: ProtoType, cells: _Cells) -> Read:
    match found:
        case ProtoScalar(type_):
            return _scalar(type_)
        case ProtoEnum(symbols):
            return _enum(dict(symbols))
        case ProtoTimestamp():
            return _timestamp(cells)
        case ProtoWrapper(value):
            read_one = _message(ProtoMessage("", (ProtoField("value", 1, value, has_presence=False),)), cells)
            return _content(lambda raw: read_one(raw)[0])
        case ProtoMap(key, value):
            return _entry(key, value, cells)
        case ProtoMessage():
            return _content(_message(found, cells))


def _content(read: Callable[[bytes], Any]) -> Read:
    def read_content(raw: int | bytes) -> Any:
        assert isinstance(raw, bytes), "the wire type was looked at"
        return read(raw)

    return read_content


def _entry(key: ProtoScalar, value: ProtoType, cells: _Cells) -> Read:
    of_key, of_value = (
        ProtoField("key", 1, key, has_presence=False),
        ProtoField("value", 2, value, has_presence=False),
    )
    read = _message(ProtoMessage("", (of_key, of_value)), cells)
    read_value = _reader(value, cells)

    def read_entry(raw: bytes) -> tuple[str, Any]:
        found, content = read(raw)
        # A message is there in every entry: an absent one is empty, as protobuf's parsers have it.
        return _key_text(found), read_value(b"") if content is None else content

    return _content(read_entry)


def _key_text(key: Any) -> str:
    """Keys as protobuf's JSON has them."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _scalar(type_: str) -> Read:
    if type_ in FORMS:
        unpack = struct.Struct(FORMS[type_]).unpack
        return _unsigned64(unpack) if type_ == "fixed64" else lambda raw: unpack(raw)[0]  # type: ignore[arg-type]
    return _OTHERS[type_]


def _unsigned64(unpack: Callable[[Any], tuple[Any, ...]]) -> Read:
    return lambda raw: Decimal(unpack(raw)[0])


def _int32(raw: int | bytes) -> int:
    # The lower half counts, as in protobuf's parsers: a negative number takes ten bytes.
    return _signed(int(raw) & 0xFFFFFFFF, 32)


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _string(raw: int | bytes) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"a string is not UTF-8 ({error.reason})") from None


_OTHERS: dict[str, Read] = {
    "int32": _int32,
    "int64": lambda raw: _signed(int(raw), 64),
    "uint32": lambda raw: int(raw) & 0xFFFFFFFF,
    "uint64": lambda raw: Decimal(int(raw)),
    "sint32": lambda raw: unzigzag(int(raw) & 0xFFFFFFFF),
    "sint64": lambda raw: unzigzag(int(raw)),
    "bool": lambda raw: raw != 0,
    "string": _string,
    "bytes": lambda raw: raw,
}


def _enum(symbols: dict[int, str]) -> Read:
    def read_symbol(raw: int | bytes) -> str:
        number = _int32(raw)
        # A number without a symbol is as good a value: a later version has one for it.
        return symbols.get(number, str(number))

    return read_symbol


_TIMESTAMP_FIELDS = (
    ProtoField("seconds", 1, ProtoScalar("int64"), has_presence=False),
    ProtoField("nanos", 2, ProtoScalar("int32"), has_presence=False),
)


def _timestamp(cells: _Cells) -> Read:
    read_parts = _message(ProtoMessage("", _TIMESTAMP_FIELDS), cells)

    def read_timestamp(raw: bytes) -> int:
        seconds, nanos = read_parts(raw)
        if seconds not in SECONDS or nanos not in NANOS:
            raise ValueError(f"a timestamp has {seconds} seconds and {nanos} nanoseconds")
        return int(seconds) * 1_000_000 + int(nanos) // 1_000

    return _content(read_timestamp)


def _zero(field: ProtoField) -> Any:
    """The value of an absent field: null where its file makes a difference, else its type's zero."""
    if field.is_repeated or isinstance(field.type, ProtoMap):
        return []
    if field.has_presence:
        return None
    match field.type:
        case ProtoEnum(symbols):
            return dict(symbols).get(0, "0")
        case ProtoScalar(type_):
            return _ZEROS.get(type_, Decimal(0) if KINDS[type_] == UINT64 else 0)
        case _:
            return None


_ZEROS = {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}


def _in_field(name: str, error: ValueError) -> ValueError:
    text = str(error)
    return ValueError(f"field {name}.{text[6:]}" if text.startswith("field ") else f"field {name}: {text}")
