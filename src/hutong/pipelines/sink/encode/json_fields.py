"""Values of Spark's columns into JSON: a type of JSON Schema and a column's type become a tree of small functions.

Each takes a value, as Arrow hands it to Python, and returns what msgspec encodes. What can never fit is said when the
tree is made, before any task runs; a value that does not fit raises ValueError with the name of its field. Members that
are null are left out, unless they are required.

Knows nothing of schema registries.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeAlias

import msgspec

from hutong.pipelines.schemas.json_types import JsonItems, JsonMember, JsonObject, JsonScalar, JsonType, kind_of_json
from hutong.pipelines.sink.encode.avro_fields import NO_NULL, Write, in_field
from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructOf, ddl

Convert: TypeAlias = Callable[[Any], Any]

WHOLE = (kinds.TINYINT, kinds.SMALLINT, kinds.INT, kinds.BIGINT)
TAKES: dict[str, tuple[str, ...]] = {
    kinds.BIGINT: WHOLE,
    kinds.DOUBLE: (*WHOLE, kinds.FLOAT, kinds.DOUBLE),
    kinds.STRING: (kinds.STRING, kinds.TIMESTAMP_NTZ),
}
"""The column types that are written as a type; others are written as their own alone."""


def json_fields(found: JsonType, kind: Kind) -> Write:
    """A function that appends a value of the column type as JSON. Raises ValueError."""
    convert = _converting(found, kind)
    encode_into = msgspec.json.Encoder(decimal_format="number").encode_into

    def write(value: Any, out: bytearray) -> None:
        encode_into(convert(value), out, len(out))

    return write


def _converting(found: JsonType, kind: Kind) -> Convert:
    match found, kind:
        case JsonItems(item, False, is_nullable), ArrayOf(element):
            return _array(_nullable(_converting(item, element), is_nullable))
        case JsonItems(item, True, is_nullable), MapOf(value):
            return _map(_nullable(_converting(item, value), is_nullable))
        case JsonObject(members), StructOf():
            return _object(members, kind)
        # msgspec writes it as a number with all its digits.
        case JsonScalar(kinds.DOUBLE), DecimalOf():
            return _same
        case JsonScalar(name), Scalar(column) if column in TAKES.get(name, (name,)):
            return _finite if column in (kinds.FLOAT, kinds.DOUBLE) else _same
        case _:
            expected = ddl(kind_of_json(found))
            raise ValueError(f"a column of type {ddl(kind)} is given where {expected} is expected")


def _same(value: Any) -> Any:
    return value


def _finite(value: float) -> float:
    # msgspec would write null.
    if not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return value


def _nullable(convert: Convert, is_nullable: bool) -> Convert:
    def convert_or_null(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if not is_nullable:
            raise ValueError(NO_NULL)
        return None

    return convert_or_null


def _array(convert: Convert) -> Convert:
    return lambda items: [convert(item) for item in items]


def _map(convert: Convert) -> Convert:
    # Arrow hands maps to Python as lists of pairs.
    return lambda entries: {key: convert(value) for key, value in entries}


def _object(members: tuple[JsonMember, ...], kind: StructOf) -> Convert:
    columns = {field.name: field.kind for field in kind.fields}
    # Also where the schema is open: a misspelt column would be written next to the member that it means.
    strange = columns.keys() - {member.name for member in members}
    if strange:
        raise ValueError(f"field {min(strange)}: the schema has no such field")
    fields: list[tuple[str, Convert, bool]] = []
    for member in members:
        if member.name in columns:
            try:
                convert = _nullable(_converting(member.type, columns[member.name]), member.is_nullable)
            except ValueError as error:
                raise in_field(member.name, error) from None
            fields.append((member.name, convert, member.is_required))
        elif member.is_required:
            raise ValueError(f"field {member.name}: the column lacks it, and it is required")

    def convert_object(values: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, convert, is_required in fields:
            value = values[name]
            if value is None and not is_required:
                continue
            try:
                found[name] = convert(value)
            except ValueError as error:
                raise in_field(name, error) from None
        return found

    return convert_object
