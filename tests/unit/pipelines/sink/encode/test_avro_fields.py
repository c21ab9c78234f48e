"""What is written, read back by fastavro with the same schema."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hutong.foundation.errors import Refused, UsageError
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.schemas.column_schemas import avro_of
from hutong.pipelines.schemas.registry import RemoteRegistry
from hutong.pipelines.schemas.settings import RegistrySettings
from hutong.pipelines.sink.encode.avro_fields import avro_fields
from hutong.pipelines.sink.registered import FramedColumn, formats_of, framed, framed_columns
from hutong.pipelines.source.rows.avro_schema import parse_avro
from hutong.pipelines.source.rows.ddl import parse_ddl

AT = datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
BOTH_ENDS = {"int": [-(2**31), 2**31 - 1], "bigint": [-(2**63), 2**63 - 1, 0, -1, 63, 64]}


def record(*fields: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    )


def written(schema: str, ddl: str, value: Any) -> bytes:
    out = bytearray()
    avro_fields(parse_avro(schema), parse_ddl(ddl))(value, out)
    return bytes(out)


def again(schema: str, data: bytes) -> Any:
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(schema)), None)
    assert stream.read() == b""
    return value


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("boolean", [True, False]),
        ("tinyint", [-128, 127]),
        ("int", BOTH_ENDS["int"]),
        ("bigint", BOTH_ENDS["bigint"]),
        ("float", [0.5]),
        ("double", [0.1, float("inf")]),
        ("string", ["", "ä" * 100]),
        ("binary", [b"", b"\0" * 100]),
        ("date", [date(1969, 12, 31), date(2020, 2, 29)]),
        ("timestamp", [AT, datetime(1960, 1, 1, tzinfo=UTC)]),
        ("decimal(38,2)", [Decimal("1.50"), Decimal("-0.01"), Decimal("9" * 36 + ".99"), Decimal("1.28")]),
        ("array<string>", [[], ["a", None]]),
        ("array<array<int>>", [[[1], None, [None]]]),
        ("a int, b struct<c: map<string, int>>", [{"a": None, "b": {"c": {"k": None}}}, {"a": 1, "b": None}]),
    ],
)
def test_columns_by_the_schema_of_their_type(ddl: str, values: list[Any]) -> None:
    schema = avro_of(parse_ddl(ddl))
    for value in values:
        given = {**value, "b": value["b"] and {"c": list(value["b"]["c"].items())}} if "struct" in ddl else value
        assert again(schema, written(schema, ddl, given)) == value


@pytest.mark.parametrize(
    ("schema", "ddl", "value", "expected"),
    [
        (record(("x", "long"), ("y", ["string", "null"])), "x int, y string", {"x": 1, "y": None}, {"x": 1, "y": None}),
        (record(("y", ["null", "string"]), ("x", "double")), "x float, y string", {"x": 1.5, "y": "a"}, None),
        ('["null", "int", "long"]', "bigint", 2**40, 2**40),
        ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', "string", "B", "B"),
        ('{"type": "fixed", "name": "F", "size": 2}', "binary", b"ab", b"ab"),
        ('{"type": "long", "logicalType": "timestamp-millis"}', "timestamp", AT, AT.replace(microsecond=0)),
    ],
)
def test_by_a_given_schema(schema: str, ddl: str, value: Any, expected: Any) -> None:
    assert again(schema, written(schema, ddl, value)) == (value if expected is None else expected)


def test_a_field_that_the_column_lacks_is_null() -> None:
    fields = [{"name": "x", "type": "int"}, {"name": "y", "type": ["int", "null"], "default": None}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    assert again(schema, written(schema, "x int", {"x": 1})) == {"x": 1, "y": None}


@pytest.mark.parametrize(
    ("schema", "ddl", "reason"),
    [
        (record(("x", "int")), "x bigint", "field x: a column of type BIGINT is given where INT is expected"),
        (record(("x", "int")), "x int, y int", "field y: the schema has no such field"),
        (record(("x", "int"), ("y", "int")), "x int", "field y: the column lacks it"),
        (record(("x", "long")), "x timestamp", "field x: a column of type TIMESTAMP is given where BIGINT"),
        (record(("x", ["null", "int"])), "x string", "field x: a column of type STRING is given where INT"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}', "decimal(5,2)", "DECIMAL(5,2)"),
    ],
)
def test_columns_that_never_fit(schema: str, ddl: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        avro_fields(parse_avro(schema), parse_ddl(ddl))
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "ddl", "value", "reason"),
    [
        (record(("x", "int")), "x int", {"x": None}, "field x: it is null"),
        (record(("x", {"type": "array", "items": "int"})), "x array<int>", {"x": [None]}, "field x: it is null"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', "string", "C", "'C' is no symbol"),
        ('{"type": "fixed", "name": "F", "size": 2}', "binary", b"abc", "3 bytes where the schema has 2"),
        (
            '{"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 4, "scale": 0}',
            "decimal(4,0)",
            Decimal(200),
            "200 does not fit 1 bytes",
        ),
    ],
)
def test_values_that_do_not_fit(schema: str, ddl: str, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        written(schema, ddl, value)


def test_a_batch_is_framed() -> None:
    column = FramedColumn("value", 258, parse_avro('"int"'), parse_ddl("int"))
    batch = pa.RecordBatch.from_pydict({"key": ["a", "b"], "value": pa.array([1, None], pa.int32())})
    assert framed(batch, (column,)).to_pydict() == {"key": ["a", "b"], "value": [b"\0\0\0\1\2\2", None]}
    assert framed(batch, ()) is batch
    names = FramedColumn("key", 1, parse_avro('{"type": "enum", "name": "E", "symbols": ["a"]}'), parse_ddl("string"))
    with pytest.raises(BadRecord, match="a key cannot be written as Avro of schema 1: 'b' is no symbol"):
        framed(batch, (names,))


URL = {"schema.registry.url": "http://h", "topic": "t", "valueFormat": "avro"}
NAMES = {"value": parse_ddl("x int")}


def answering(status: int, body: dict[str, Any], asked: list[str]) -> RemoteRegistry:
    def ask(settings: RegistrySettings, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        asked.append(path)
        return status, json.dumps(body).encode()

    return RemoteRegistry(RegistrySettings(("http://h",)), ask)


def test_the_schema_is_registered_or_looked_up() -> None:
    asked: list[str] = []
    (column,) = framed_columns(URL, NAMES, answering(200, {"id": 7}, asked))
    assert (column.name, column.schema_id) == ("value", 7)
    more = {"auto.register.schemas": "false", "valueSubject": "a/b"}
    framed_columns({**URL, **more}, NAMES, answering(200, {"id": 7}, asked))
    assert asked == ["/subjects/t-value/versions", "/subjects/a%2Fb"]
    with pytest.raises(UsageError, match="the schema of column value is none of subject t-value"):
        framed_columns({**URL, "auto.register.schemas": "false"}, NAMES, answering(404, {"error_code": 40403}, asked))
    with pytest.raises(Refused, match="is incompatible"):
        framed_columns(URL, NAMES, answering(409, {"error_code": 409, "message": "is incompatible"}, asked))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({**URL, "valueFormat": "yaml"}, "a sink takes one of binary, avro"),
        ({"valueFormat": "avro"}, "schema.registry.url must be given"),
        ({**URL, "valueSchema": "{"}, "option valueSchema is not valid"),
        ({**URL, "valueSchema": '"string"'}, "column value cannot be written by valueSchema: a column of type STRUCT"),
        ({name: text for name, text in URL.items() if name != "topic"}, "valueSubject must be given"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        framed_columns(options, NAMES, answering(200, {"id": 1}, []))


def test_names_that_avro_does_not_take() -> None:
    with pytest.raises(UsageError, match=r"column value has no Avro schema: the column 'a-b'"):
        framed_columns(URL, {"value": parse_ddl("`a-b` int")}, answering(200, {"id": 1}, []))
    assert formats_of({}) == {"key": "binary", "value": "binary"}
