"""JSON into rows of a schema: each document is parsed and checked against the types in one go, by msgspec.

Strict where Spark's `from_json` gives a silent null: a value of another type, a number out of range, a missing required
field is an error that names the field. Fields that the schema does not name are skipped. Objects come back as
dictionaries, which Arrow takes as rows of a struct.
"""

import datetime
import decimal
import re
from collections.abc import Callable
from typing import Annotated, Any, Required, TypedDict

import msgspec

from hutong.pipelines.source.rows.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    ArrayOf,
    DecimalOf,
    Field,
    Kind,
    MapOf,
    Scalar,
    StructOf,
)

BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
OTHERS: dict[str, type] = {
    BOOLEAN: bool,
    FLOAT: float,
    DOUBLE: float,
    STRING: str,
    BINARY: bytes,  # base64 in JSON, as Spark has it
    DATE: datetime.date,
    TIMESTAMP: datetime.datetime,
    TIMESTAMP_NTZ: datetime.datetime,
}
AT_FIELD = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<field>.+)`$")


def json_reader(kind: Kind) -> Callable[[bytes], Any]:
    """A function from a document to its value; None for `null`. It raises ValueError that names the field."""
    decoder = msgspec.json.Decoder(_optional(_annotation(kind)))

    def read(document: bytes) -> Any:
        try:
            return decoder.decode(document)
        except msgspec.ValidationError as error:
            raise ValueError(_told(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no JSON: {error}") from None

    return read


def _told(message: str) -> str:
    """msgspec's message with the field first, and without the null that every type here may be."""
    message = message.replace(" | null`", "`").replace("$[...]", "$.[...]")
    found = AT_FIELD.match(message)
    return f"field {found['field']}: {found['what']}" if found else message


def _annotation(kind: Kind) -> Any:
    match kind:
        case Scalar(name) if name in BITS:
            limit = 1 << (BITS[name] - 1)
            return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
        case Scalar(name):
            return OTHERS[name]
        case DecimalOf():
            return decimal.Decimal
        case ArrayOf(element):
            return list[_optional(_annotation(element))]  # type: ignore[misc]
        case MapOf(value):
            return dict[str, _optional(_annotation(value))]  # type: ignore[misc]
        case StructOf(fields):
            # A TypedDict made by hand: names of fields are any text, and the class is as nameless as the struct.
            return TypedDict("Row", {field.name: _field(field) for field in fields}, total=False)  # type: ignore[operator]


def _field(field: Field) -> Any:
    annotation = _annotation(field.kind)
    return Required[annotation] if field.required else _optional(annotation)


def _optional(annotation: Any) -> Any:
    return annotation | None
