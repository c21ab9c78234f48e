"""Columns as JSON of a schema, checked by a validator that we did not write."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft7Validator

from hutong.foundation.errors import UsageError
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.schemas.json_schemas import json_schema_of
from hutong.pipelines.schemas.json_types import parse_json_schema
from hutong.pipelines.schemas.registry import RemoteRegistry
from hutong.pipelines.schemas.settings import RegistrySettings
from hutong.pipelines.sink.encode.json_fields import json_fields
from hutong.pipelines.sink.registered import framed, framed_columns
from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.json_rows import json_reader

AT = datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=UTC)


def written(schema: Any, columns: str, value: Any) -> bytes:
    out = bytearray(b"head")
    json_fields(parse_json_schema(json.dumps(schema)), parse_ddl(columns))(value, out)
    assert out[:4] == b"head"
    return bytes(out[4:])


def members(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


WHOLE = {
    "a": 2**63 - 1,
    "b": 0.5,
    "c": "é",
    "d": b"\xff",
    "e": date(2020, 2, 29),
    "f": AT,
    "g": True,
    "h": ["x", None],
    "i": [("k", 7)],
    "j": {"x": None},
    "k": Decimal("1.50"),
    "l": datetime(2020, 2, 29),  # of a column without a zone
}
COLUMNS = (
    "a BIGINT, b FLOAT, c STRING, d BINARY, e DATE, f TIMESTAMP, g BOOLEAN, h ARRAY<STRING>, i MAP<STRING, INT>, "
    "j STRUCT<x: STRING>, k DECIMAL(4,2), l TIMESTAMP_NTZ"
)


def test_columns_by_the_schema_of_their_type() -> None:
    schema = json.loads(json_schema_of(parse_ddl(COLUMNS)))
    data = written(schema, COLUMNS, WHOLE)
    found = json.loads(data)
    Draft7Validator(schema).validate(found)
    assert (found["d"], found["e"], found["f"]) == ("/w==", "2020-02-29", "2020-02-29T12:00:00.000001Z")
    assert (found["h"], found["i"], found["j"]) == (["x", None], {"k": 7}, {})
    assert b'"k":1.50' in data
    assert json_reader(parse_ddl(COLUMNS))(data) == WHOLE | {"i": {"k": 7}, "j": {}}
    nothing = dict.fromkeys(WHOLE)
    assert written(schema, COLUMNS, nothing) == b"{}"


def test_by_a_given_schema() -> None:
    schema = members(x={"type": "number"}, y={"type": ["string", "null"]}, z={"type": "string"}) | {
        "required": ["x", "y"]
    }
    assert json.loads(written(schema, "x INT, y STRING", {"x": 1, "y": None})) == {"x": 1, "y": None}
    assert written({"type": "string"}, "STRING", "a") == b'"a"'


@pytest.mark.parametrize(
    ("schema", "columns", "reason"),
    [
        (members(x={"type": "integer"}), "x STRING", "field x: a column of type STRING is given where BIGINT"),
        (members(x={"type": "string", "format": "date"}), "x STRING", "field x: a column of type STRING"),
        (members(x={"type": "integer"}), "x INT, y INT", "field y: the schema has no such field"),
        (members(x={"type": "integer"}) | {"required": ["x"]}, "y INT", "field y: the schema has no such field"),
        (members(x={"type": "integer"}, y={"type": "string"}) | {"required": ["x"]}, "y STRING", "field x: the column"),
        (members(x=members(y={"type": "string"})), "x STRUCT<y: INT>", "field x.y: a column of type INT"),
        ({"type": "array", "items": {"type": "string"}}, "x INT", "is given where ARRAY<STRING> is expected"),
    ],
)
def test_columns_that_never_fit(schema: Any, columns: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        written(schema, columns, {})
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "columns", "value", "reason"),
    [
        (members(x={"type": "integer"}) | {"required": ["x"]}, "x INT", {"x": None}, "field x: it is null"),
        (members(x={"type": "array", "items": {"type": "string"}}), "x ARRAY<STRING>", {"x": [None]}, "field x: it is"),
        (members(x={"type": "number"}), "x DOUBLE", {"x": float("nan")}, "field x: nan is no number of JSON"),
    ],
)
def test_values_that_do_not_fit(schema: Any, columns: str, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        written(schema, columns, value)


def test_a_column_is_registered_and_framed() -> None:
    asked: list[tuple[str, Any]] = []

    def ask(_: RegistrySettings, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        asked.append((f"{method} {path}", json.loads(body or b"null")))
        return 200, b'{"id": 7}'

    options = {"schema.registry.url": "http://h", "valueFormat": "json", "topic": "t"}
    registry = RemoteRegistry(RegistrySettings(("http://h",)), ask)
    kind = parse_ddl("x DOUBLE")
    (column,) = framed_columns(options, {"value": kind}, registry)
    assert (asked[0][0], asked[0][1]["schemaType"]) == ("POST /subjects/t-value/versions", "JSON")
    values = pa.array([{"x": 1.5}, None])
    batch = framed(pa.RecordBatch.from_arrays([values], ["value"]), (column,))
    assert batch.column(0).to_pylist() == [b'\0\0\0\0\x07{"x":1.5}', None]
    infinite = pa.RecordBatch.from_arrays([pa.array([{"x": float("inf")}])], ["value"])
    with pytest.raises(BadRecord, match="cannot be written as JSON Schema of schema 7: field x: inf"):
        framed(infinite, (column,))
    with pytest.raises(UsageError, match="column value cannot be written by valueSchema: field x"):
        framed_columns({**options, "valueSchema": '{"type": "object", "properties": {"y": {"type": "string"}}}'},
                       {"value": kind}, registry)  # fmt: skip
