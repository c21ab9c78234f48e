"""Columns as Protobuf messages, read by protobuf's own library and by the source."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.pipelines.source.rows.protobuf.scene import file_of, message, plan
from tests.unit.pipelines.source.rows.protobuf.test_plan import RICH

from hutong.foundation.errors import UsageError
from hutong.pipelines.errors import BadRecord
from hutong.pipelines.schemas.proto_texts import TOP_NAME, proto_of
from hutong.pipelines.schemas.registry import RemoteRegistry
from hutong.pipelines.schemas.settings import RegistrySettings
from hutong.pipelines.sink.encode.proto_fields import proto_fields
from hutong.pipelines.sink.registered import framed, framed_columns
from hutong.pipelines.source.rows.arrow import arrow_type
from hutong.pipelines.source.rows.ddl import parse_ddl
from hutong.pipelines.source.rows.kinds import ddl
from hutong.pipelines.source.rows.protobuf.plan import kind_of_proto
from hutong.pipelines.source.rows.protobuf.reader import protobuf_reader

AT = datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
EARLY = datetime(1960, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)


def written(text: str, columns: str, value: Any, name: str = "") -> bytes:
    out = bytearray()
    proto_fields(plan(text, name), parse_ddl(columns))(value, out)
    return bytes(out)


COLUMNS = (
    "a BOOLEAN, b TINYINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g STRING, h BINARY, i TIMESTAMP, j ARRAY<STRING>, "
    "k ARRAY<INT>, l MAP<STRING, BIGINT>, m STRUCT<x: STRING, y: STRUCT<z: INT>>, n ARRAY<STRUCT<x: INT>>, "
    "o MAP<STRING, STRUCT<x: INT>>"
)
VALUE = {
    "a": False, "b": -128, "c": -(2**31), "d": 2**63 - 1, "e": 0.5, "f": float("inf"), "g": "", "h": b"\0", "i": AT,
    "j": ["a", ""], "k": [0, -1], "l": [("k", 7)], "m": {"x": None, "y": {"z": 1}}, "n": [{"x": 0}, {"x": None}],
    "o": [("k", {"x": 3})],
}  # fmt: skip


def test_columns_by_the_schema_of_their_type() -> None:
    text = proto_of(parse_ddl(COLUMNS))
    kind = kind_of_proto(plan(text))
    assert ddl(kind) == ddl(parse_ddl(COLUMNS)).replace("TINYINT", "INT")
    found = message(text, TOP_NAME)
    found.ParseFromString(written(text, COLUMNS, VALUE))
    assert (found.a, found.b, found.c, found.d, found.e, found.f) == (
        False,
        -128,
        -(2**31),
        2**63 - 1,
        0.5,
        float("inf"),
    )
    assert found.HasField("g"), "an empty text is there"
    assert not found.m.HasField("x")
    assert (list(found.k), dict(found.l), found.o["k"].x) == ([0, -1], {"k": 7}, 3)
    for value in (VALUE, VALUE | {"i": EARLY}):
        row = protobuf_reader(plan(text))(written(text, COLUMNS, value))
        assert pa.array([row], arrow_type(kind)).to_pylist() == [value]
    nothing = dict.fromkeys(VALUE)
    assert written(text, COLUMNS, nothing) == b""


GIVEN = """a INT, b BIGINT, c DECIMAL(20,0), d BIGINT, e FLOAT, f BINARY, g BOOLEAN, h STRING, kind STRING,
lines ARRAY<STRUCT<x: STRING>>, by_number MAP<STRING, STRUCT<x: STRING>>, at TIMESTAMP, maybe BIGINT,
numbers ARRAY<DOUBLE>"""


def test_by_a_given_schema() -> None:
    value = {
        "a": 1, "b": 2**32 - 1, "c": Decimal(2**64 - 1), "d": -5, "e": None, "f": b"f", "g": True, "h": "h",
        "kind": "BIG", "lines": [{"x": "l"}], "by_number": [("-3", {"x": None})], "at": AT, "maybe": 0, "numbers": [],
    }  # fmt: skip
    found = message(RICH, "a.b.Order")
    found.ParseFromString(written(RICH, GIVEN, value))
    assert (found.a, found.b, found.c, found.d, found.kind) == (1, 2**32 - 1, 2**64 - 1, -5, 16)
    assert (found.lines[0].x, list(found.by_number), found.maybe.value) == ("l", [-3], 0)
    assert found.HasField("maybe")
    assert found.at.ToNanoseconds() % 10**9 == 1_000
    line = message(RICH, "a.b.Other")
    line.ParseFromString(written(RICH, "line STRUCT<x: STRING>", {"line": {"x": "o"}}, "Other"))
    assert line.line.x == "o"


ODD = """syntax = "proto2"; message M { required int32 r = 1; oneof o { int32 x = 2; string y = 3; }
map<bool, int32> flags = 4; optional uint32 u = 5; repeated M.E e = 6; enum E { A = 0; } }"""


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("x INT", "field r: the column lacks it, and it is required"),
        ("r INT, z INT", "field z: the schema has no such field"),
        ("r BIGINT", "field r: a column of type BIGINT is given where INT"),
        ("r INT, flags ARRAY<INT>", "field flags: a column of type ARRAY<INT> is given where MAP"),
        ("r INT, e STRING", "field e: a column of type STRING is given where ARRAY<STRING>"),
        ("r INT, e ARRAY<INT>", "field e: a column of type INT is given where STRING"),
        ("r INT, flags MAP<STRING, STRING>", "field flags: a column of type STRING is given where INT"),
        ("INT", "a column of type INT is given where STRUCT"),
    ],
)
def test_columns_that_never_fit(columns: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        proto_fields(plan(ODD), parse_ddl(columns))
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "value", "reason"),
    [
        ("r INT", {"r": None}, "field r: it is null, and it is required"),
        ("r INT, x INT, y STRING", {"r": 1, "x": 1, "y": "a"}, "field y: it is given as well as x"),
        ("r INT, flags MAP<STRING, INT>", {"r": 1, "flags": [("yes", 1)]}, "the key 'yes' is no bool"),
        ("r INT, flags MAP<STRING, INT>", {"r": 1, "flags": [("true", None)]}, "it has a null"),
        ("r INT, u BIGINT", {"r": 1, "u": -1}, "field u: -1 is no uint32"),
        ("r INT, e ARRAY<STRING>", {"r": 1, "e": ["A", None]}, "field e: it has a null"),
        ("r INT, e ARRAY<STRING>", {"r": 1, "e": ["B"]}, "field e: 'B' is no symbol"),
    ],
)
def test_values_that_do_not_fit(columns: str, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        written(ODD, columns, value)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("x DATE", "field x: Protobuf has no DATE: cast it"),
        ("x DECIMAL(4,2)", "Protobuf has no DECIMAL"),
        ("x TIMESTAMP_NTZ", "Protobuf has no TIMESTAMP_NTZ"),
        ("x ARRAY<ARRAY<INT>>", "in a list or a map: wrap it in a struct"),
        ("x ARRAY<MAP<STRING, INT>>", "in a list or a map"),
        ("x MAP<STRING, ARRAY<INT>>", "in a list or a map"),
        ("`ä` INT", "cannot be a field of Protobuf"),
        ("INT", "a message is a struct"),
    ],
)
def test_types_without_a_schema(columns: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        proto_of(parse_ddl(columns))


def test_a_column_is_registered_and_framed() -> None:
    asked: list[str] = []

    def ask(_: RegistrySettings, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        asked.append(f"{method} {path}")
        if method == "POST":
            assert json.loads(body or b"")["schemaType"] == "PROTOBUF"
            return 200, b'{"id": 7}'
        return 200, json.dumps({"schemaType": "PROTOBUF", "schema": base64.b64encode(file_of(RICH)).decode()}).encode()

    options = {"schema.registry.url": "http://h", "valueFormat": "protobuf", "topic": "t", "valueMessage": "Other"}
    registry = RemoteRegistry(RegistrySettings(("http://h",)), ask)
    kind = parse_ddl("line STRUCT<x: STRING>")
    (column,) = framed_columns(options | {"valueSchema": RICH}, {"value": kind}, registry)
    assert asked == ["POST /subjects/t-value/versions", "GET /schemas/ids/7?format=serialized"]
    batch = framed(pa.RecordBatch.from_arrays([pa.array([{"line": {"x": "a"}}, None])], ["value"]), (column,))
    assert batch.column(0).to_pylist() == [b"\0\0\0\0\7\2\2\x0a\3\x0a\1a", None]
    with pytest.raises(UsageError, match="column value cannot be written by valueSchema: field z"):
        framed_columns(options | {"valueSchema": RICH}, {"value": parse_ddl("z INT")}, registry)
    with pytest.raises(UsageError, match="option valueSchema is not valid: it has no message 'N'"):
        framed_columns(options | {"valueSchema": RICH, "valueMessage": "N"}, {"value": kind}, registry)
    with pytest.raises(UsageError, match="column value has no Protobuf schema: field x: Protobuf has no DATE"):
        framed_columns(options, {"value": parse_ddl("x DATE")}, registry)
    (numbers,) = framed_columns(
        options | {"valueSchema": RICH, "valueMessage": "Order"}, {"value": parse_ddl("b BIGINT")}, registry
    )
    with pytest.raises(BadRecord, match="cannot be written as Protobuf of schema 7: field b: -1 is no uint32"):
        framed(pa.RecordBatch.from_arrays([pa.array([{"b": -1}])], ["value"]), (numbers,))
