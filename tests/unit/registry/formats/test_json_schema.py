"""JSON schemas: which are some, and which allows all that another one allows."""

import json
from typing import Any

import pytest

from hutong.foundation.errors import Refused
from hutong.registry.formats.json_schema import JsonFormat
from hutong.registry.formats.shape import NamedText

INTEGER, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TREE = {"$ref": "#/definitions/T", "definitions": {"T": closed(next={"$ref": "#/definitions/T"}, value=INTEGER)}}
WIDE = {"$ref": "#/definitions/T", "definitions": {"T": closed(next={"$ref": "#/definitions/T"}, value=NUMBER)}}
COVERS: list[tuple[Any, Any, str]] = [  # reader, writer, the kind of trouble
    ({}, STRING, ""),
    (True, STRING, ""),
    (STRING, STRING, ""),
    (NUMBER, INTEGER, ""),
    (INTEGER, NUMBER, "TYPE_CHANGED"),
    ({"type": ["string", "null"]}, STRING, ""),
    (STRING, {"type": ["string", "null"]}, "TYPE_CHANGED"),
    (STRING, {}, "TYPE_CHANGED"),
    (False, STRING, "SCHEMA_CLOSED"),
    (STRING, False, ""),
    (closed(a=INTEGER, b=STRING), closed(a=INTEGER), ""),
    (closed(a=INTEGER), closed(a=INTEGER, b=STRING), "SCHEMA_CLOSED"),
    (opened(a=INTEGER), opened(a=INTEGER, b=STRING), ""),
    (opened(a=INTEGER, b=STRING), opened(a=INTEGER), "TYPE_CHANGED"),
    (opened(a=INTEGER, b={}), opened(a=INTEGER), ""),
    (opened(a=INTEGER), closed(a=INTEGER), ""),
    (closed(a=INTEGER), opened(a=INTEGER), "SCHEMA_CLOSED"),
    ({**closed(a=INTEGER), "required": ["a"]}, closed(a=INTEGER), "REQUIRED_ATTRIBUTE_ADDED"),
    ({**closed(a={"type": "integer", "default": 0}), "required": ["a"]}, closed(a=INTEGER), ""),
    (closed(a=INTEGER), {**closed(a=INTEGER), "required": ["a"]}, ""),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, ""),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": ["a"]}, STRING, "ENUM_ARRAY_NARROWED"),
    ({"enum": ["a"]}, {"const": "a"}, ""),
    ({"type": "integer", "maximum": 10}, {"type": "integer", "maximum": 5}, ""),
    ({"type": "integer", "maximum": 5}, {"type": "integer", "maximum": 10}, "BOUND_NARROWED"),
    ({"type": "string", "minLength": 1}, STRING, "BOUND_NARROWED"),
    ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 4}, ""),
    ({"type": "number", "multipleOf": 4}, {"type": "number", "multipleOf": 2}, "BOUND_NARROWED"),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, "BOUND_NARROWED"),
    ({"type": "string", "pattern": "a+"}, {"type": "string", "pattern": "a+"}, ""),
    ({"type": "string", "pattern": "a+"}, STRING, "KEYWORD_CHANGED"),
    (STRING, {"type": "string", "pattern": "a+"}, ""),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INTEGER}, ""),
    ({"type": "array", "items": INTEGER}, {"type": "array", "items": NUMBER}, "TYPE_CHANGED"),
    ({"type": "array", "items": [NUMBER]}, {"type": "array", "items": [INTEGER, STRING]}, ""),
    ({"oneOf": [STRING, INTEGER]}, STRING, ""),
    ({"oneOf": [STRING, INTEGER]}, {"oneOf": [STRING]}, ""),
    ({"oneOf": [STRING]}, {"oneOf": [STRING, INTEGER]}, "SUM_TYPE_NARROWED"),
    ({"anyOf": [STRING]}, NUMBER, "SUM_TYPE_NARROWED"),
    ({"allOf": [NUMBER, {"maximum": 9}]}, {"allOf": [INTEGER, {"maximum": 5}]}, ""),
    ({"allOf": [NUMBER, {"maximum": 3}]}, {"allOf": [INTEGER, {"maximum": 5}]}, "BOUND_NARROWED"),
    ({"not": STRING}, {"not": STRING}, ""),
    ({"not": STRING}, {}, "KEYWORD_CHANGED"),
    (WIDE, TREE, ""),
    (TREE, WIDE, "TYPE_CHANGED"),
    ({"$ref": "#"}, {"$ref": "#"}, ""),
]


def parsed(schema: Any, imports: tuple[NamedText, ...] = ()) -> Any:
    return JsonFormat().parse(json.dumps(schema), imports)


@pytest.mark.parametrize(("reader", "writer", "kind"), COVERS)
def test_a_reader_allows_what_the_writer_allows(reader: Any, writer: Any, kind: str) -> None:
    troubles = parsed(reader).troubles_reading(parsed(writer))
    assert bool(troubles) is bool(kind), troubles
    assert any(each.startswith(kind) for each in troubles) or not kind


@pytest.mark.parametrize(
    "schema",
    [
        5,
        "x",
        [],
        {"type": "strange"},
        {"type": 5},
        {"properties": []},
        {"required": "a"},
        {"minLength": -1},
        {"$ref": "#/definitions/none"},
        {"$ref": "other.json"},
        {"$ref": "#/type", "type": "string"},
        {"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]},
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(Refused, match="Invalid schema"):
        parsed(schema)


def test_a_hostile_pattern_is_never_run() -> None:
    hostile = {"type": "string", "pattern": "(a+)+$", "patternProperties": {"(a|aa)+$": {}, "(": {}}}
    assert parsed(hostile).troubles_reading(parsed(hostile)) == []


def test_documents_are_imported_by_name_or_id() -> None:
    other = {"$id": "http://x/other.json", "definitions": {"n": NUMBER, "m": INTEGER}}
    imports = (NamedText("other.json", json.dumps(other)),)
    by_name = parsed({"$ref": "other.json#/definitions/n"}, imports)
    by_id = parsed({"$ref": "http://x/other.json#/definitions/m"}, imports)
    assert by_name.troubles_reading(by_id) == []
    assert by_id.troubles_reading(by_name) != []


def test_anchors_are_found() -> None:
    schema = {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "string"}}}
    assert parsed(schema).troubles_reading(parsed(NUMBER)) != []


def test_texts_are_kept_in_order_and_normalized_without() -> None:
    schema = parsed({"type": "object", "properties": {"b": {}, "a": {}}})
    assert schema.canonical == '{"type":"object","properties":{"b":{},"a":{}}}'
    assert schema.normalized() == '{"properties":{"a":{},"b":{}},"type":"object"}'
