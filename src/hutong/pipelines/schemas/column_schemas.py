"""The Avro schema of a column's type, with the types that Spark's own `to_avro` has.

Every field is a union with null, with null for a default: so a column may be added later, and readers of either
version read both. Whether Spark takes a column for one without nulls depends on the query more than on the data, and
would make other schemas of the same columns. Knows nothing of Spark; it has our types.
"""

import json
import re
from typing import Any

from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructField, StructOf

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOP_NAME = "topLevelRecord"
"""Spark's name for it."""
TYPES: dict[str, Any] = {
    kinds.BOOLEAN: "boolean",
    kinds.TINYINT: "int",
    kinds.SMALLINT: "int",
    kinds.INT: "int",
    kinds.BIGINT: "long",
    kinds.FLOAT: "float",
    kinds.DOUBLE: "double",
    kinds.STRING: "string",
    kinds.BINARY: "bytes",
    kinds.DATE: {"type": "int", "logicalType": "date"},
    kinds.TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    kinds.TIMESTAMP_NTZ: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_of(kind: Kind) -> str:
    """The schema as text. Raises ValueError for names that Avro does not take."""
    return json.dumps(_schema(kind, TOP_NAME), separators=(",", ":"))


def _schema(kind: Kind, name: str) -> Any:
    match kind:
        case Scalar(scalar):
            return TYPES[scalar]
        case DecimalOf(precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case ArrayOf(element):
            return {"type": "array", "items": ["null", _schema(element, name)]}
        case MapOf(value):
            return {"type": "map", "values": ["null", _schema(value, name)]}
        case StructOf(fields):
            return {"type": "record", "name": name, "fields": [_field(field, name) for field in fields]}


def _field(field: StructField, record: str) -> dict[str, Any]:
    if not NAME.fullmatch(field.name):
        raise ValueError(f"the column {field.name!r} cannot be a field of Avro: take letters, digits and _")
    # The path of names: one record may stand in several places with different fields.
    schema = _schema(field.kind, f"{record}_{field.name}")
    return {"name": field.name, "type": ["null", schema], "default": None}
