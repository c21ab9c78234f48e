"""Values of Spark's columns into Avro's binary form: a schema and a column's type become a tree of small functions.

Each takes a value, as Arrow hands it to Python, and appends its bytes. What can never fit is said when the tree is
made, before any task runs; a value that does not fit raises ValueError with the name of its field.

Knows nothing of schema registries.
"""

import datetime
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.avro_schema import (
    Enumeration,
    FixedBytes,
    Items,
    Plan,
    Primitive,
    RecordPlan,
    Union,
    kind_of,
)
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructOf, ddl

Write: TypeAlias = Callable[[Any, bytearray], None]

WHOLE = (kinds.TINYINT, kinds.SMALLINT, kinds.INT)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DAY = datetime.date(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
TAKES = {
    "boolean": (kinds.BOOLEAN,),
    "int": WHOLE,
    "long": (*WHOLE, kinds.BIGINT),
    "float": (kinds.FLOAT,),
    "double": (kinds.FLOAT, kinds.DOUBLE),
    "string": (kinds.STRING,),
}
"""The column types that are written as a type of Avro; dates and timestamps as their own logical types."""
NO_NULL = "it is null, which the schema does not take"
TIMES = (kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ)


def avro_fields(plan: Plan, kind: Kind) -> Write:
    """A function that appends a value of the column type in the form of the plan. Raises ValueError."""
    if isinstance(plan, Union):
        return _union(plan, kind)
    write_value = _without_null(plan, kind)

    def write(value: Any, out: bytearray) -> None:
        # Spark's columns may be null whatever the schema says.
        if value is None:
            raise ValueError(NO_NULL)
        write_value(value, out)

    return write


def _without_null(plan: Plan, kind: Kind) -> Write:
    match plan, kind:
        case Items(item, False), ArrayOf(element):
            return _items(avro_fields(item, element))
        case Items(item, True), MapOf(value):
            return _items(_entry(avro_fields(item, value)))
        case RecordPlan(), StructOf():
            return _record(plan, kind)
        case _:
            return _scalar(plan, kind)


def _scalar(plan: Plan, kind: Kind) -> Write:
    match plan, kind:
        case Primitive(_, Scalar(logical), factor), Scalar(column) if logical in TIMES or column in TIMES:
            if logical != column:
                raise _unfit(plan, kind)
            return _date if column == kinds.DATE else _time(factor)
        case Primitive(name), Scalar(column) if column in TAKES.get(name, ()):
            return _PRIMITIVES[name]
        case FixedBytes(size, Scalar()), Scalar(kinds.BINARY):
            return _bytes(size)
        case FixedBytes(size, DecimalOf(precision, scale)), DecimalOf(given, given_scale):
            if scale != given_scale or precision < given:
                raise _unfit(plan, kind)
            return _decimal(size)
        case Enumeration(symbols), Scalar(kinds.STRING):
            return _symbol({symbol: place for place, symbol in enumerate(symbols)})
        case _:
            raise _unfit(plan, kind)


def _unfit(plan: Plan, kind: Kind) -> ValueError:
    expected = kind_of(plan)
    return ValueError(
        f"a column of type {ddl(kind)} is given where {ddl(expected) if expected else 'null'} is expected"
    )


def append_varint(number: int, out: bytearray) -> None:
    """Zigzag, seven bits in each byte (Avro 1.12, Binary encoding)."""
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _long(value: Any, out: bytearray) -> None:
    append_varint(value, out)


def _boolean(value: Any, out: bytearray) -> None:
    out.append(value)


def _float(value: Any, out: bytearray) -> None:
    out += struct.pack("<f", value)


def _double(value: Any, out: bytearray) -> None:
    out += struct.pack("<d", value)


def _string(value: Any, out: bytearray) -> None:
    content = value.encode()
    append_varint(len(content), out)
    out += content


_PRIMITIVES: dict[str, Write] = {
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _string,
}


def _date(value: Any, out: bytearray) -> None:
    append_varint((value - EPOCH_DAY).days, out)


def _time(factor: int) -> Write:
    def write(value: Any, out: bytearray) -> None:
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        append_varint((zoned - EPOCH) // MICROSECOND // factor, out)

    return write


def _bytes(size: int) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if size < 0:
            append_varint(len(value), out)
        # Readers take exactly so many bytes.
        elif len(value) != size:
            raise ValueError(f"it has {len(value)} bytes where the schema has {size}")
        out += value

    return write


def _decimal(size: int) -> Write:
    as_bytes = _bytes(size)

    def write(value: Decimal, out: bytearray) -> None:
        # Not by arithmetic, which rounds to the 28 digits of Python's context.
        sign, digits, _ = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        width = size if size >= 0 else number.bit_length() // 8 + 1
        try:
            as_bytes(number.to_bytes(width, "big", signed=True), out)
        except OverflowError:
            raise ValueError(f"{value} does not fit {size} bytes") from None

    return write


def _symbol(places: dict[str, int]) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if value not in places:
            raise ValueError(f"{value[:40]!r} is no symbol of the schema")
        append_varint(places[value], out)

    return write


def _items(write_item: Write) -> Write:
    def write(items: Any, out: bytearray) -> None:
        # One block of all, unless there is none; then the end.
        if items:
            append_varint(len(items), out)
            for item in items:
                write_item(item, out)
        out.append(0)

    return write


def _entry(write_value: Write) -> Write:
    def write(entry: Any, out: bytearray) -> None:
        key, value = entry
        _string(key, out)
        write_value(value, out)

    return write


def _record(plan: RecordPlan, kind: StructOf) -> Write:
    columns = {field.name: field.kind for field in kind.fields}
    strange = [name for name in columns if name not in plan.names]
    if strange:
        raise ValueError(f"field {strange[0]}: the schema has no such field")
    rules = plan.rules or (None,) * len(plan.names)
    fields: list[tuple[str, Write]] = []
    for name, one, rule in zip(plan.names, plan.fields, rules, strict=True):
        try:
            if name in columns:
                fields.append((name, avro_fields(one, columns[name])))
            elif (
                rule is not None
                and rule.has_default
                and rule.default is None
                and isinstance(one, Union)
                and _nulls(one)
            ):
                fields.append((name, _null_of(one)))
            else:
                raise ValueError("the column lacks it, and its default is not null")
        except ValueError as error:
            raise in_field(name, error) from None

    def write(values: Any, out: bytearray) -> None:
        for name, write_field in fields:
            try:
                write_field(values.get(name), out)
            except ValueError as error:
                raise in_field(name, error) from None

    return write


def _union(union: Union, kind: Kind) -> Write:
    """Null, or the branch that takes the column; of several such the last, which is the wider of two numbers."""
    nulls = _nulls(union)
    taking: list[tuple[int, Write]] = []
    reasons: list[str] = []
    for place, branch in enumerate(union.branches):
        try:
            taking.append((place, _without_null(branch, kind)))
        except ValueError as error:
            reasons.append(str(error))
    if not taking:
        raise ValueError(reasons[-1])
    place, write_branch = taking[-1]

    def write(value: Any, out: bytearray) -> None:
        if value is not None:
            append_varint(place, out)
            write_branch(value, out)
        elif nulls:
            append_varint(nulls[0], out)
        else:
            raise ValueError(NO_NULL)

    return write


def _nulls(union: Union) -> list[int]:
    return [place for place, branch in enumerate(union.branches) if kind_of(branch) is None]


def _null_of(union: Union) -> Write:
    place = _nulls(union)[0]

    def write(_value: Any, out: bytearray) -> None:
        append_varint(place, out)

    return write


def in_field(name: str, error: ValueError) -> ValueError:
    """The same error with the name of the field around its place."""
    text = str(error)
    return ValueError(f"field {name}.{text[6:]}" if text.startswith("field ") else f"field {name}: {text}")
