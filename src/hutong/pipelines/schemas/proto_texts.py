"""The Protobuf file of a column's type.

Scalars are `optional`, so that null and zero differ, and numbered in the order of the columns: a column may be added
at the end later. Knows nothing of Spark; it has our types.
"""

import re

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, Kind, MapOf, Scalar, StructField, StructOf, ddl

TOP_NAME = "TopLevelRecord"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
TIMESTAMP = "google.protobuf.Timestamp"
IMPORT = 'import "google/protobuf/timestamp.proto";\n'
TYPES = {
    kinds.BOOLEAN: "bool",
    kinds.TINYINT: "int32",
    kinds.SMALLINT: "int32",
    kinds.INT: "int32",
    kinds.BIGINT: "int64",
    kinds.FLOAT: "float",
    kinds.DOUBLE: "double",
    kinds.STRING: "string",
    kinds.BINARY: "bytes",
    kinds.TIMESTAMP: TIMESTAMP,
}


def proto_of(kind: Kind) -> str:
    """The file as text. Raises ValueError for a type that has no counterpart."""
    if not isinstance(kind, StructOf):
        raise ValueError(f"it is of type {ddl(kind)}, and a message is a struct")
    message = "\n".join(_message(TOP_NAME, kind, ""))
    return f'syntax = "proto3";\n{IMPORT if TIMESTAMP in message else ""}{message}\n'


def _message(name: str, kind: StructOf, indent: str) -> list[str]:
    if not kind.fields:
        raise ValueError("a struct has no fields")
    lines = [f"{indent}message {name} {{"]
    inside = f"{indent}  "
    for number, field in enumerate(kind.fields, 1):
        if not NAME.fullmatch(field.name):
            raise ValueError(f"the column {field.name!r} cannot be a field of Protobuf: take letters, digits and _")
        lines += _field(field, number, inside)
    return [*lines, f"{indent}}}"]


def _field(field: StructField, number: int, indent: str) -> list[str]:
    """The line of a field, after the message that it is of, if it has one of its own."""
    # Messages have presence in any case; the word does no harm there.
    inner, prefix = field.kind, "optional "
    if isinstance(inner, ArrayOf):
        inner, prefix = inner.element, "repeated "
    lines: list[str] = []
    if isinstance(inner, MapOf) and prefix == "optional ":
        value, more = _type(field.name, inner.value, indent)
        return [*more, f"{indent}map<string, {value}> {field.name} = {number};"]
    type_, lines = _type(field.name, inner, indent)
    return [*lines, f"{indent}{prefix}{type_} {field.name} = {number};"]


def _type(name: str, kind: Kind, indent: str) -> tuple[str, list[str]]:
    """The type's name, and the message that it needs."""
    match kind:
        case Scalar(scalar) if scalar in TYPES:
            return TYPES[scalar], []
        case StructOf():
            own = f"{name[:1].upper()}{name[1:]}Record"
            return own, _message(own, kind, indent)
        case ArrayOf() | MapOf():
            raise ValueError(f"field {name}: Protobuf has no {ddl(kind)} in a list or a map: wrap it in a struct")
        case _:
            raise ValueError(f"field {name}: Protobuf has no {ddl(kind)}: cast it, to string say")
