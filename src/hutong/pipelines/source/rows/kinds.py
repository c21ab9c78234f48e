"""The types that a decoded key or value may have, and their names in Spark SQL.

A small tree, because schemas are checked where neither Spark nor Arrow is loaded. Every field may be null in a column;
for a `required` one a decoder refuses records without it. Knows nothing of formats.
"""

from dataclasses import dataclass
from typing import TypeAlias

TYPE_DEPTH_MAX = 32
"""The nesting of types; both schema languages are read by recursion."""
DECIMAL_PRECISION_MAX = 38

BOOLEAN, TINYINT, SMALLINT, INT, BIGINT = "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT"
FLOAT, DOUBLE, STRING, BINARY = "FLOAT", "DOUBLE", "STRING", "BINARY"
DATE, TIMESTAMP, TIMESTAMP_NTZ = "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"
SCALARS = (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One of the names above."""

    name: str


@dataclass(frozen=True, slots=True)
class DecimalOf:
    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ArrayOf:
    element: "Kind"


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys are strings: neither JSON nor Avro knows others."""

    value: "Kind"


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    kind: "Kind"
    required: bool = False


@dataclass(frozen=True, slots=True)
class StructOf:
    fields: tuple[StructField, ...]


Kind: TypeAlias = Scalar | DecimalOf | ArrayOf | MapOf | StructOf


def ddl(kind: Kind) -> str:
    """The type in Spark SQL's words."""
    match kind:
        case Scalar(name):
            return name
        case DecimalOf(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayOf(element):
            return f"ARRAY<{ddl(element)}>"
        case MapOf(value):
            return f"MAP<STRING, {ddl(value)}>"
        case StructOf(fields):
            return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {ddl(field.kind)}' for field in fields)}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
