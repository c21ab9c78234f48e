"""Avro's schemas: which are some, and which reads what another has written, by the rules of the specification."""

import json
from typing import Any

import pytest

from hutong.foundation.errors import Refused
from hutong.registry.formats.avro import AvroFormat
from hutong.registry.formats.shape import DEPTH_MAX, NamedText


def record(*fields: Any, name: str = "R", **members: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **members}


def field(name: str, type_: Any, **members: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **members}


def enum(*symbols: str, **members: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **members}


def fixed(size: int, name: str = "F", **members: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **members}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TREE = record(field("left", ["null", "R"]), field("value", "int"))
READS: list[tuple[Any, Any, str]] = [  # reader, writer, the kinds of trouble
    ("int", "int", ""),
    ("long", "int", ""),
    ("double", "long", ""),
    ("string", "bytes", ""),
    ("bytes", "string", ""),
    ("int", "long", "TYPE_MISMATCH"),
    ("float", "double", "TYPE_MISMATCH"),
    ("boolean", "int", "TYPE_MISMATCH"),
    (array("long"), array("int"), ""),
    (array("int"), array("long"), "TYPE_MISMATCH"),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}, ""),
    (array("int"), {"type": "map", "values": "int"}, "TYPE_MISMATCH"),
    (record(field("a", "int")), record(field("a", "int"), field("b", "int")), ""),
    (record(field("a", "int"), field("b", "int", default=1)), record(field("a", "int")), ""),
    (record(field("a", "int"), field("b", "int")), record(field("a", "int")), "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (record(field("b", "int", aliases=["a"])), record(field("a", "int")), ""),
    (record(field("a", "string")), record(field("a", "int")), "TYPE_MISMATCH"),
    (record(name="S"), record(), "NAME_MISMATCH"),
    (record(name="S", aliases=["R"]), record(), ""),
    (record(name="x.R"), record(name="y.R"), ""),
    (enum("A", "B"), enum("A"), ""),
    (enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS"),
    (enum("A", default="A"), enum("A", "B"), ""),
    (fixed(2), fixed(2), ""),
    (fixed(2), fixed(3), "FIXED_SIZE_MISMATCH"),
    (fixed(2, "G"), fixed(2), "NAME_MISMATCH"),
    (["null", "int"], "int", ""),
    (["null", "long"], "int", ""),
    ("int", ["int"], ""),
    ("int", ["null", "int"], "TYPE_MISMATCH"),
    (["null", "int", "string"], ["null", "int"], ""),
    (["null", "int"], ["null", "int", "string"], "MISSING_UNION_BRANCH"),
    (["null", record(field("a", "int", default=0))], ["null", record()], ""),
    (["null", record(field("a", "int"))], ["null", record()], "MISSING_UNION_BRANCH"),
    (TREE, TREE, ""),
    (record(field("left", ["null", "R"]), field("value", "long")), TREE, ""),
    (record(field("left", ["null", "R"]), field("value", "string")), TREE, "TYPE_MISMATCH"),
    (
        record(field("x", fixed(2)), field("y", "F")),
        record(field("x", fixed(3)), field("y", "F")),
        "FIXED_SIZE_MISMATCH",
    ),
    ({"type": "int", "logicalType": "date"}, "int", ""),
]


def parsed(schema: Any) -> Any:
    return AvroFormat().parse(json.dumps(schema), ())


@pytest.mark.parametrize(("reader", "writer", "kind"), READS)
def test_a_reader_reads_what_the_rules_say(reader: Any, writer: Any, kind: str) -> None:
    troubles = parsed(reader).troubles_reading(parsed(writer))
    assert bool(troubles) is bool(kind)
    assert any(each.startswith(kind) for each in troubles) or not kind


@pytest.mark.parametrize(("reader", "writer", "kind"), READS)
def test_the_rules_are_those_of_avros_own_reader(reader: Any, writer: Any, kind: str) -> None:
    """What fastavro writes with one and reads with the other agrees, wherever it can tell by one value."""
    import io

    import fastavro
    from fastavro.utils import generate_one

    if (
        kind in ("MISSING_ENUM_SYMBOLS", "MISSING_UNION_BRANCH", "NAME_MISMATCH")
        or writer == "bytes"
        or "null" in writer
    ):
        pytest.skip("one value need not show it, or fastavro is more lenient")
    buffer = io.BytesIO()
    ours, theirs = fastavro.parse_schema(reader), fastavro.parse_schema(writer)
    fastavro.schemaless_writer(buffer, theirs, generate_one(theirs))
    buffer.seek(0)
    if kind:
        with pytest.raises((fastavro.read.SchemaResolutionError, ValueError, EOFError)):
            fastavro.schemaless_reader(buffer, theirs, ours)
    else:
        fastavro.schemaless_reader(buffer, theirs, ours)


@pytest.mark.parametrize(
    "schema",
    [
        5,
        None,
        {},
        {"type": 5},
        "nothing",
        {"type": "nothing"},
        {"type": "array"},
        {"type": "map"},
        record(field("a", "int"), field("a", "int")),
        record(field("a-b", "int")),
        record(field("a", "int", default="x")),
        record(field("a", "record")),
        record(name="1R"),
        record(name="a..R"),
        record(name=""),
        {"type": "record", "name": 5, "fields": []},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": {}},
        {"type": "record", "name": "R", "fields": [5]},
        {"type": "record", "name": "R", "namespace": 5, "fields": []},
        enum("A", "A"),
        enum("a b"),
        enum("A", default="B"),
        {"type": "enum", "name": "E"},
        {"type": "fixed", "name": "F"},
        fixed(-1),
        {"type": "fixed", "name": "F", "size": "2"},
        ["int", "int"],
        ["int", ["null"]],
        [record(), record()],
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(Refused, match="Invalid schema"):
        parsed(schema)


def test_depth_has_a_bound_and_nothing_overflows() -> None:
    def nested(depth: int) -> Any:
        schema: Any = "int"
        for _ in range(depth):
            schema = array(schema)
        return schema

    assert parsed(nested(DEPTH_MAX - 3)).canonical
    for depth in (DEPTH_MAX + 1, 500):
        with pytest.raises(Refused, match="nested"):
            parsed(nested(depth))
    with pytest.raises(Refused, match="no JSON"):
        AvroFormat().parse('{"type":"array","items":' * 20_000, ())


def test_a_chain_of_types_is_as_deep_as_it_may_be_or_refused() -> None:
    chain = [record(field("next", ["null", f"R{number + 1}"]), name=f"R{number}") for number in range(2_000)]
    imports = [NamedText(f"R{number}", json.dumps(each)) for number, each in reversed(list(enumerate(chain)))]
    imports.insert(0, NamedText("R2000", json.dumps(record(name="R2000"))))
    schema = AvroFormat().parse(json.dumps(record(field("first", "R0"), name="Top")), imports)
    other = AvroFormat().parse(json.dumps(record(field("first", "R0"), name="Top")), imports)
    with pytest.raises(RecursionError):  # which `SchemaChecks` refuses
        schema.troubles_reading(other)


@pytest.mark.parametrize(
    ("schema", "canonical"),
    [
        ({"type": "string"}, '"string"'),
        ({"type": {"type": "string"}}, '"string"'),
        ({"logicalType": "date", "type": "int"}, '{"type":"int","logicalType":"date"}'),
        (
            {"name": "R", "fields": [{"type": "x.E", "name": "a"}, {"order": "ascending", "type": "int", "name": "b"}],
             "namespace": "x", "type": "record", "doc": "d"},
            '{"type":"record","name":"R","namespace":"x","doc":"d","fields":'
            '[{"name":"a","type":"E"},{"name":"b","type":"int"}]}',
        ),
        (
            record(field("a", fixed(2, "y.F")), name="x.R"),
            '{"type":"record","name":"R","namespace":"x","fields":'
            '[{"name":"a","type":{"type":"fixed","name":"F","namespace":"y","size":2}}]}',
        ),
    ],
)  # fmt: skip
def test_the_text_that_is_kept_is_that_of_javas_library(schema: Any, canonical: str) -> None:
    imports = [NamedText("x.E", json.dumps({**enum("A"), "namespace": "x"}))]
    assert AvroFormat().parse(json.dumps(schema), imports).canonical == canonical


def test_a_bare_name_is_a_schema() -> None:
    assert AvroFormat().parse(" string ", ()).canonical == '"string"'
