"""JSON to Avro: as fastavro reads it, and what is refused with the place that is wrong."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.writing.steps import WriteSteps
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import SchemaText

RICH = {
    "type": "record",
    "name": "a.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "amount", "type": "double"},
        {"name": "part", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 3}},
        {"name": "note", "type": ["null", "string", "a.Mark"]},
        {"name": "lines", "type": {"type": "array", "items": "Order"}},
        {"name": "by_name", "type": {"type": "map", "values": "bytes"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ORDER: dict[str, Any] = {
    "id": -(2**63),
    "small": 2**31 - 1,
    "amount": 1,
    "part": 0.25,
    "paid": True,
    "kind": "B",
    "mark": "ab\u00ff",
    "note": {"string": "é"},
    "lines": [],
    "by_name": {"k": "\u00ff\u0000"},
    "price": "\u0001",
    "at": 5,
}
TREE = {"type": "record", "name": "T", "fields": [{"name": "t", "type": ["null", "T"]}]}


def schema(schema_json: Any) -> WrittenBySchema:
    return WrittenBySchema(ResolvedText(SchemaText("AVRO", json.dumps(schema_json))), SchemaChecks())


def write(schema_json: Any, value: Any, steps_max: int = 10_000) -> bytes:
    return schema(schema_json).write(value, WriteSteps(steps_max))


def as_read(schema_json: Any, data: bytes) -> Any:
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema_json), None)
    assert not stream.read(), "no bytes are left over"
    return value


def test_a_record_is_read_by_others_as_it_was_given() -> None:
    inner = ORDER | {"note": None, "lines": [], "by_name": {}}
    found = as_read(RICH, write(RICH, ORDER | {"lines": [inner, ORDER | {"note": {"a.Mark": "xyz"}}]}))
    assert (found["id"], found["small"], found["amount"], found["part"]) == (-(2**63), 2**31 - 1, 1.0, 0.25)
    assert (found["mark"], found["note"], found["by_name"]) == (b"ab\xff", "é", {"k": b"\xff\x00"})
    assert [each["note"] for each in found["lines"]] == [None, b"xyz"]
    assert str(found["price"]) == "0.01"
    assert found["at"].timestamp() == 0.005


@given(st.lists(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1))))
def test_lists_and_maps_come_back(value: list[dict[str, int]]) -> None:
    lists = {"type": "array", "items": {"type": "map", "values": "long"}}
    assert as_read(lists, write(lists, value)) == value
    assert schema(lists).read(write(lists, value)) == value


@given(st.one_of(st.none(), st.text(), st.floats(width=32, allow_nan=False)))
def test_branches_of_unions_come_back(value: Any) -> None:
    union = ["null", "float", "string"]
    name = {type(None): None, str: "string", float: "float"}[type(value)]
    assert as_read(union, write(union, None if name is None else {name: value})) == value


def test_numbers_that_json_lacks_are_words() -> None:
    assert as_read("double", write("double", "-Infinity")) == float("-inf")
    assert str(as_read("float", write("float", "NaN"))) == "nan"


@pytest.mark.parametrize(
    ("schema_json", "value", "why"),
    [
        ("null", 0, "at /: it is not null"),
        ("boolean", 1, "true or false"),
        ("int", 2**31, "from -2147483648 to 2147483647"),
        ("int", True, "of type int"),
        ("int", 1.0, "of type int"),
        ("long", "1", "of type long"),
        ("long", 2**63, "of type long"),
        ("float", 1e39, "too large for its type"),
        ("double", 10**400, "too large for its type"),
        ("double", "1", "no number"),
        ("double", False, "no number"),
        ("double", [], "no number"),
        ("string", b"x", "no string"),
        ("string", "\ud800", "lone surrogate"),
        ("bytes", "\u0100", r"up to U\+00FF"),
        ("bytes", [1], r"up to U\+00FF"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "F has 2 bytes, not 3"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "no symbol of E"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], "no symbol of E"),
        (["null", "string"], "x", r'null or \{"string": ...\}'),
        (["null", "string"], {"int": 1}, r'null or \{"string": ...\}'),
        (["null", "string"], {"string": "a", "null": None}, "a value of a union"),
        (["int", "string"], None, "a value of a union"),
        (["null", "string"], {"string": 1}, "at /string: it is no string"),
        ({"type": "array", "items": "int"}, {"0": 1}, "an array is a list"),
        ({"type": "array", "items": "int"}, [1, "x"], "at /1: "),
        ({"type": "map", "values": "int"}, [], "a map is an object"),
        ({"type": "map", "values": "int"}, {"a": None}, "at /a: "),
        ({"type": "map", "values": "int"}, {"\ud800": 1}, "lone surrogate"),
        (RICH, [], "a record of type a.Order is an object"),
        (RICH, {k: v for k, v in ORDER.items() if k != "at"}, "the field at is missing"),
        (RICH, ORDER | {"more": 1}, "no field 'more'"),
        (RICH, ORDER | {"lines": [ORDER | {"id": "x"}]}, "at /lines/0/id: "),
    ],
)
def test_values_of_another_type_are_refused(schema_json: Any, value: Any, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        write(schema_json, value)


def test_a_field_with_a_default_must_be_given_as_in_java() -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 1}]}
    with pytest.raises(ProtocolError, match="the field a is missing; also one with a default must be given"):
        write(record, {})


def test_depth_and_work_have_bounds() -> None:
    value: Any = None
    for _ in range(100_000):
        value = {"t": {"T": value}}
    with pytest.raises(ProtocolError, match="nested more than 64 deep"):
        write(TREE, value)
    with pytest.raises(ProtocolError, match="too many steps"):
        write({"type": "array", "items": "int"}, [1] * 100, steps_max=100)
    many = {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": "null"} for n in range(100)]}
    with pytest.raises(ProtocolError, match="too many steps"):
        write({"type": "array", "items": many}, [dict.fromkeys(f"f{n}" for n in range(100))], steps_max=150)
