"""The JSON schema of a column's type.

Every member may be null or missing, and there are no others: so a column may be added later, and readers of either
version read both (a schema that is open to any member allows no new one). Knows nothing of Spark; it has our types.
"""

import json
from typing import Any

from hutong.pipelines.schemas.column_schemas import TOP_NAME
from hutong.pipelines.source.rows import kinds
from hutong.pipelines.source.rows.kinds import ArrayOf, DecimalOf, Kind, MapOf, Scalar, StructOf

DRAFT = "http://json-schema.org/draft-07/schema#"
NULL = {"type": "null"}
TYPES: dict[str, dict[str, str]] = {
    kinds.BOOLEAN: {"type": "boolean"},
    kinds.TINYINT: {"type": "integer"},
    kinds.SMALLINT: {"type": "integer"},
    kinds.INT: {"type": "integer"},
    kinds.BIGINT: {"type": "integer"},
    kinds.FLOAT: {"type": "number"},
    kinds.DOUBLE: {"type": "number"},
    kinds.STRING: {"type": "string"},
    kinds.BINARY: {"type": "string", "contentEncoding": "base64"},
    kinds.DATE: {"type": "string", "format": "date"},
    kinds.TIMESTAMP: {"type": "string", "format": "date-time"},
    kinds.TIMESTAMP_NTZ: {"type": "string"},
}


def json_schema_of(kind: Kind) -> str:
    """The schema as text."""
    return json.dumps({"$schema": DRAFT, "title": TOP_NAME, **_schema(kind)}, separators=(",", ":"))


def _schema(kind: Kind) -> dict[str, Any]:
    match kind:
        case Scalar(name):
            return TYPES[name]
        case DecimalOf():
            return {"type": "number"}
        case ArrayOf(element):
            return {"type": "array", "items": _or_null(element)}
        case MapOf(value):
            return {"type": "object", "additionalProperties": _or_null(value)}
        case StructOf(fields):
            members = {field.name: _or_null(field.kind) for field in fields}
            return {"type": "object", "properties": members, "additionalProperties": False}


def _or_null(kind: Kind) -> dict[str, Any]:
    return {"oneOf": [NULL, _schema(kind)]}
