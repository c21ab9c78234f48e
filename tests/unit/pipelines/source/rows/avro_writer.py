"""Avro's binary form, written from plans: the reverse of the reader, and hypothesis strategies for what it writes."""

import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from hutong.pipelines.source.rows.avro_schema import (
    Again,
    Enumeration,
    FixedBytes,
    Items,
    Plan,
    Primitive,
    RecordPlan,
    Union,
    kind_of,
)
from hutong.pipelines.source.rows.kinds import DecimalOf


def write(plan: Plan, value: Any) -> bytes:  # noqa: PLR0912 - one for each type
    """The value, as `avro_reader` returns it, in bytes."""
    match plan:
        case Primitive(name="null"):
            return b""
        case Primitive(name="boolean"):
            return bytes([value])
        case Primitive(name="float"):
            return struct.pack("<f", value)
        case Primitive(name="double"):
            return struct.pack("<d", value)
        case Primitive(name="string"):
            return _string(value)
        case Primitive(factor=factor):
            return number(value // factor)
        case FixedBytes(size, kind):
            if isinstance(kind, DecimalOf):
                sign, digits, _ = value.as_tuple()
                unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
                value = unscaled.to_bytes(size if size >= 0 else 17, "big", signed=True)
            return bytes(value) if size >= 0 else number(len(value)) + bytes(value)
        case Enumeration(symbols):
            return number(symbols.index(value))
        case Items(item, is_map):
            pairs = [_string(key) + write(item, one) for key, one in value] if is_map else []
            items = b"".join(pairs if is_map else [write(item, one) for one in value])
            return (number(len(value)) + items if value else b"") + number(0)
        case RecordPlan(fields=fields):
            return b"".join(write(one, part) for one, part in zip(fields, value, strict=True))
        case Union():
            return _branch(plan, value)
        case Again():
            raise AssertionError("a reader returns nothing of it")


def number(value: int) -> bytes:
    rest, content = (value << 1) ^ (value >> 63), b""
    while rest > 0x7F:
        content += bytes([(rest & 0x7F) | 0x80])
        rest >>= 7
    return content + bytes([rest])


def _string(text: str) -> bytes:
    return number(len(text.encode())) + text.encode()


def _branch(union: Union, value: Any) -> bytes:
    some = [index for index, branch in enumerate(union.branches) if kind_of(branch) is not None]
    if value is None:
        return number(next(index for index in range(len(union.branches)) if index not in some))
    if not union.is_struct:
        return number(some[-1]) + write(union.branches[some[-1]], value)
    place = next(place for place, member in enumerate(value) if member is not None)
    return number(some[place]) + write(union.branches[some[place]], value[place])


def values(plan: Plan) -> st.SearchStrategy[Any]:  # noqa: PLR0912 - one for each type
    """The values that a reader by the plan may return."""
    match plan:
        case Primitive(name="null"):
            return st.none()
        case Primitive(name="boolean"):
            return st.booleans()
        case Primitive(name="int", factor=factor):
            return st.integers(-(2**31), 2**31 - 1).map(lambda one: one * factor)
        case Primitive(name="long", factor=factor):
            return st.integers(-(2**40), 2**40).map(lambda one: one * factor)
        case Primitive(name="float"):
            return st.floats(width=32, allow_nan=False)
        case Primitive(name="double"):
            return st.floats(allow_nan=False)
        case Primitive():
            return st.text(max_size=5)
        case FixedBytes(kind=DecimalOf(precision, scale)):
            return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda one: Decimal(f"{one}e-{scale}"))
        case FixedBytes(size):
            return st.binary(min_size=max(size, 0), max_size=size if size >= 0 else 5)
        case Enumeration(symbols):
            return st.sampled_from(symbols)
        case Items(item, is_map):
            inner = values(item)
            return st.lists(st.tuples(st.text(max_size=3), inner) if is_map else inner, max_size=3)
        case RecordPlan(fields=fields):
            return st.tuples(*map(values, fields))
        case Union():
            return _members(plan)
        case Again():
            return st.nothing()


def _members(union: Union) -> st.SearchStrategy[Any]:
    some = [branch for branch in union.branches if kind_of(branch) is not None]
    nothing = [st.none()] if len(some) < len(union.branches) else []
    if not union.is_struct:
        return st.one_of(*nothing, values(some[-1]))
    return st.one_of(*nothing, *(_member(branch, place, len(some)) for place, branch in enumerate(some)))


def _member(branch: Plan, place: int, count: int) -> st.SearchStrategy[Any]:
    return values(branch).map(lambda one: tuple(one if at == place else None for at in range(count)))
