"""Values of Spark's columns into Protobuf's binary form: a plan and a column's type become a tree of small functions.

Each takes a value, as Arrow hands it to Python, and appends its bytes. What can never fit is said when the tree is
made, before any task runs; a value that does not fit raises ValueError with the name of its field. A null is a field
that is absent.

Knows nothing of schema registries.
"""

import datetime
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hutong.pipelines.sink.encode.avro_fields import EPOCH, MICROSECOND, Write, in_field
from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructOf, ddl
from hutong.pipelines.source.rows.protobuf.plan import (
    ProtoEnum,
    ProtoField,
    ProtoMap,
    ProtoMessage,
    ProtoScalar,
    ProtoTimestamp,
    ProtoType,
    ProtoWrapper,
    kind_of_field,
    kind_of_proto,
)
from hutong.pipelines.source.rows.protobuf.reader import FORMS, wire_of
from hutong.pipelines.source.rows.protobuf.wire import LEN, append_sized, append_varint

Encode: TypeAlias = Callable[[Any], bytes]
"""One value without its field's number; of what has a length, without that."""

WHOLE = (kinds.TINYINT, kinds.SMALLINT, kinds.INT)
SIGNED32, SIGNED64 = ("int32", "sint32", "sfixed32"), ("int64", "sint64", "sfixed64")
RANGES = {
    **dict.fromkeys(("uint32", "fixed32"), range(2**32)),
    **dict.fromkeys(("uint64", "fixed64"), range(2**64)),
}
"""Of types that a column's numbers may be outside of."""
TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SIGNED32, WHOLE),
    **dict.fromkeys((*SIGNED64, *RANGES), (*WHOLE, kinds.BIGINT)),
    "float": (kinds.FLOAT,),
    "double": (kinds.FLOAT, kinds.DOUBLE),
    "bool": (kinds.BOOLEAN,),
    "string": (kinds.STRING,),
    "bytes": (kinds.BINARY,),
}
FLAGS = {"true": True, "false": False}
NO_NULL_ITEM = "it has a null, which Protobuf's lists and maps do not take"


def proto_fields(plan: ProtoMessage, kind: Kind) -> Write:
    """A function that appends the message of a struct. Raises ValueError."""
    if not isinstance(kind, StructOf):
        raise ValueError(f"a column of type {ddl(kind)} is given where {ddl(kind_of_proto(plan))} is expected")
    writers = _writers(plan, {field.name: field.kind for field in kind.fields})

    def write(values: Any, out: bytearray) -> None:
        members: dict[int, str] = {}
        for field, write_field in writers:
            value = values[field.name]
            try:
                if value is not None:
                    _note_member(members, field)
                    write_field(value, out)
                elif field.is_required:
                    raise ValueError("it is null, and it is required")
            except ValueError as error:
                raise in_field(field.name, error) from None

    return write


def _writers(plan: ProtoMessage, columns: Mapping[str, Kind]) -> list[tuple[ProtoField, Write]]:
    """The fields that the column has. Raises ValueError."""
    # A field that the schema lacks would be lost in silence.
    strange = columns.keys() - {field.name for field in plan.fields}
    if strange:
        raise ValueError(f"field {min(strange)}: the schema has no such field")
    writers: list[tuple[ProtoField, Write]] = []
    for field in plan.fields:
        if field.name in columns:
            try:
                writers.append((field, _field(field, columns[field.name])))
            except ValueError as error:
                raise in_field(field.name, error) from None
        elif field.is_required:
            raise ValueError(f"field {field.name}: the column lacks it, and it is required")
    return writers


def _note_member(members: dict[int, str], field: ProtoField) -> None:
    """Of a oneof one member may be given: readers would take the last."""
    if field.oneof is not None and members.setdefault(field.oneof, field.name) != field.name:
        raise ValueError(f"it is given as well as {members[field.oneof]}, and both are of one oneof")


def _field(field: ProtoField, kind: Kind) -> Write:
    match field.type, kind:
        case ProtoMap() as found, MapOf(value):
            return _map(field.number, found, value)
        case _, ArrayOf(element) if field.is_repeated:
            return _repeated(field, _encoding(field.type, element))
        case _ if field.is_repeated or isinstance(field.type, ProtoMap):
            expected = ddl(kind_of_field(field))
            raise ValueError(f"a column of type {ddl(kind)} is given where {expected} is expected")
    encode, wire = _encoding(field.type, kind), wire_of(field.type)

    def write(value: Any, out: bytearray) -> None:
        _append(field.number, wire, encode(value), out)

    return write


def _append(number: int, wire: int, content: bytes, out: bytearray) -> None:
    if wire == LEN:
        append_sized(number, content, out)
    else:
        append_varint(number << 3 | wire, out)
        out += content


def _repeated(field: ProtoField, encode: Encode) -> Write:
    wire = wire_of(field.type)

    def write(values: Any, out: bytearray) -> None:
        # Left out, it would move those behind it.
        if None in values:
            raise ValueError(NO_NULL_ITEM)
        if wire == LEN:
            for value in values:
                append_sized(field.number, encode(value), out)
        # Numbers packed, which every parser takes (protobuf.dev, "Packed Repeated Fields").
        elif values:
            append_sized(field.number, b"".join(map(encode, values)), out)

    return write


def _map(number: int, found: ProtoMap, kind: Kind) -> Write:
    encode_key, key_wire = _key(found.key.type), wire_of(found.key)
    encode_value, wire = _encoding(found.value, kind), wire_of(found.value)

    def write(entries: Any, out: bytearray) -> None:
        for key, value in entries:
            if value is None:
                raise ValueError(NO_NULL_ITEM)
            entry = bytearray()
            _append(1, key_wire, encode_key(key), entry)
            _append(2, wire, encode_value(value), entry)
            append_sized(number, bytes(entry), out)

    return write


def _key(type_: str) -> Encode:
    """Keys are text in a column, as in protobuf's JSON."""
    encode = _scalar(type_)
    if type_ == "string":
        return encode

    def encode_key(key: str) -> bytes:
        try:
            return encode(FLAGS[key] if type_ == "bool" else int(key))
        except (KeyError, ValueError, struct.error, OverflowError):
            raise ValueError(f"the key {key[:40]!r} is no {type_}") from None

    return encode_key


def _encoding(found: ProtoType, kind: Kind) -> Encode:
    match found, kind:
        case (ProtoScalar(type_), Scalar(column)) if column in TAKES[type_]:
            return _scalar(type_)
        case ProtoScalar(type_), DecimalOf(_, 0) if type_ in RANGES:
            return _scalar(type_)
        case ProtoWrapper(value), _:
            encode = _field(ProtoField("value", 1, value), kind)
            return _appended(encode)
        case ProtoEnum(symbols), Scalar(kinds.STRING):
            return _symbol({symbol: number for number, symbol in symbols})
        case ProtoTimestamp(), Scalar(kinds.TIMESTAMP):
            return _timestamp
        case ProtoMessage(), StructOf():
            return _appended(proto_fields(found, kind))
    raise ValueError(f"a column of type {ddl(kind)} is given where {ddl(kind_of_proto(found))} is expected")


def _appended(write: Write) -> Encode:
    def encode(value: Any) -> bytes:
        out = bytearray()
        write(value, out)
        return bytes(out)

    return encode


def _scalar(type_: str) -> Encode:
    if type_ in FORMS:
        pack = struct.Struct(FORMS[type_]).pack
        return _ranged(type_, lambda value: pack(int(value))) if type_ in RANGES else pack
    if type_ in RANGES:
        return _ranged(type_, _varint)
    return _OTHERS.get(type_, _varint)


def _ranged(type_: str, encode: Encode) -> Encode:
    def encode_within(value: Any) -> bytes:
        # A range looks for anything but an integer from its beginning on, one number after the other.
        number = int(value)
        if number not in RANGES[type_]:
            raise ValueError(f"{value} is no {type_}")
        return encode(number)

    return encode_within


def _varint(value: Any) -> bytes:
    out = bytearray()
    append_varint(int(value), out)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


_OTHERS: dict[str, Encode] = {
    "sint32": _zigzag,
    "sint64": _zigzag,
    "string": str.encode,
    "bytes": bytes,
}


def _symbol(numbers: dict[str, int]) -> Encode:
    def encode(value: str) -> bytes:
        if value not in numbers:
            raise ValueError(f"{value[:40]!r} is no symbol of the schema")
        return _varint(numbers[value])

    return encode


def _timestamp(value: datetime.datetime) -> bytes:
    seconds, microseconds = divmod((value - EPOCH) // MICROSECOND, 1_000_000)
    return b"\x08" + _varint(seconds) + b"\x10" + _varint(microseconds * 1_000)
