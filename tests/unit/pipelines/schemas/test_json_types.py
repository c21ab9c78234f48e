"""JSON schemas as types of columns, and those that no column can hold."""

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from hutong.pipelines.schemas.json_schemas import json_schema_of
from hutong.pipelines.schemas.json_types import kind_of_json, parse_json_schema
from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.kinds import ddl

LEAF = {"type": "object", "properties": {"x": {"type": "integer"}}}


def column(schema: Any, imports: dict[str, Any] | None = None) -> str:
    texts = {name: json.dumps(other) for name, other in (imports or {}).items()}
    return ddl(kind_of_json(parse_json_schema(json.dumps(schema), texts)))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "STRING"),
        ({"type": ["null", "integer"]}, "BIGINT"),
        ({"type": "number", "minimum": 0}, "DOUBLE"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY"),
        ({"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}, "ARRAY<BOOLEAN>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>"),
        ({"anyOf": [LEAF, {"type": "null"}]}, "STRUCT<`x`: BIGINT>"),
        ({"allOf": [LEAF]}, "STRUCT<`x`: BIGINT>"),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": LEAF}}, "STRUCT<`x`: BIGINT>"),
        (
            {"type": "object", "properties": {name: {"$ref": "#/$defs/l"} for name in "ab"}, "$defs": {"l": LEAF}},
            "STRUCT<`a`: STRUCT<`x`: BIGINT>, `b`: STRUCT<`x`: BIGINT>>",
        ),
    ],
)  # fmt: skip
def test_schemas_are_types(schema: Any, expected: str) -> None:
    assert column(schema) == expected


def test_imports_are_found_by_name_and_by_id() -> None:
    other = {"$id": "http://h/o.json", "$ref": "#/definitions/l", "definitions": {"l": LEAF}}
    for reference in ("o", "http://h/o.json", "o#/definitions/l"):
        assert column({"$ref": reference}, {"o": other}) == "STRUCT<`x`: BIGINT>"


TREE = {"definitions": {"t": {"type": "array", "items": {"$ref": "#/definitions/t"}}}, "$ref": "#/definitions/t"}
DEEP: Any = {"type": "string"}
for _ in range(40):
    DEEP = {"type": "array", "items": DEEP}
WIDE: Any = {"definitions": {"d0": {"type": "string"}}, "$ref": "#/definitions/d14"}
for level in range(1, 15):
    both = {name: {"$ref": f"#/definitions/d{level - 1}"} for name in "ab"}
    WIDE["definitions"][f"d{level}"] = {"type": "object", "properties": both}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (True, "it leaves the type open"),
        ({}, "it leaves the type open"),
        ({"type": "null"}, "leaves the type open"),
        ({"type": "other"}, "leaves the type open"),
        ({"type": {"a": 1}}, "leaves the type open"),
        ({"type": ["string", "integer"]}, "has several types"),
        ({"oneOf": [LEAF, {"type": "string"}]}, "is a choice of several types"),
        ({"oneOf": 5}, "has no list of choices"),
        ({"type": "object"}, "has no members"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, r"member a\.\[\] leaves the type open"),
        ({"$ref": "#/nowhere"}, "refers to '#/nowhere', which is not there"),
        ({"$ref": "#anchor"}, "which is not there"),
        ({"$ref": "other.json"}, "which is not there"),
        (TREE, "contains itself"),
        ({"$ref": "#"}, "contains itself"),
        (DEEP, "nested deeper than 32 levels"),
        (WIDE, "more than 10000 parts"),
    ],
)
def test_schemas_that_no_column_can_hold(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        column(schema)


def test_texts_that_are_no_schema() -> None:
    for text in ("", "{", "[" * 100_000, " " * (2**20 + 1)):
        with pytest.raises(ValueError, match=r"."):
            parse_json_schema(text)


def test_a_column_has_a_schema_that_gives_it_back() -> None:
    kind = parse_ddl(
        "a BIGINT, b DOUBLE, c STRING, d BINARY, e DATE, f TIMESTAMP, g BOOLEAN, h ARRAY<STRING>, "
        "i MAP<STRING, BIGINT>, j STRUCT<x: STRING>"
    )
    text = json_schema_of(kind)
    Draft7Validator.check_schema(json.loads(text))
    assert kind_of_json(parse_json_schema(text)) == kind
    narrow = parse_ddl("a TINYINT, b DECIMAL(9,2), c TIMESTAMP_NTZ")
    assert column(json.loads(json_schema_of(narrow))) == "STRUCT<`a`: BIGINT, `b`: DOUBLE, `c`: STRING>"
