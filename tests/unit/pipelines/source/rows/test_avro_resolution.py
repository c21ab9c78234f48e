"""Schema resolution, compared with fastavro, which reads the same bytes by the same two schemas."""

import io
import itertools
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hutong.pipelines.source.rows.arrow import arrow_type
from hutong.pipelines.source.rows.avro import avro_reader
from hutong.pipelines.source.rows.avro_resolution import PAIRS_MAX, conversion
from hutong.pipelines.source.rows.avro_schema import Plan, kind_of, parse_avro

COLOURS = {"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(kind: Any, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def plan(schema: Any, recursion_max: int | None = None) -> Plan:
    return parse_avro(json.dumps(schema), recursion_max)


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def read(writer: Any, reader: Any, value: Any) -> Any:
    """The value as Spark gets it."""
    to = plan(reader)
    kind = kind_of(to)
    assert kind is not None
    made = conversion(plan(writer), to)(avro_reader(plan(writer))(written(writer, value)))
    return pa.array([made], arrow_type(kind)).to_pylist()[0]


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        (record(of("int"), of("string", "y")), record(of("string", "y"), of("long")), {"x": 3, "y": "a"}),
        (record(of("int")), record(of("int"), of("string", "y", default="none")), {"x": 3}),
        (record(of("int")), record(of("int"), of(["null", "int"], "y", default=None)), {"x": 3}),
        (record(of("int")), record(of("int"), of({"type": "array", "items": "int"}, "y", default=[1, 2])), {"x": 3}),
        (record(of("int", "old")), record(of("int", aliases=["old"])), {"old": 3}),
        (record(of("int")), record(of("double")), {"x": 3}),
        (record(of("float")), record(of("double")), {"x": 1.5}),
        (record(of("string")), record(of("bytes")), {"x": "ä"}),
        (record(of("bytes")), record(of("string")), {"x": b"a"}),
        (record(of("int")), record(of(["null", "long"])), {"x": 3}),
        (record(of(["null", "int"])), record(of(["long", "null"])), {"x": 3}),
        (record(of(["null", "int"])), record(of(["long", "null"])), {"x": None}),
        (record(of(["null", "int"])), record(of("int")), {"x": 3}),
        (record(of(COLOURS)), record(of({**COLOURS, "symbols": ["BLUE", "NONE"], "default": "NONE"})), {"x": "RED"}),
        (record(of(record(of("int"), name="I"))), record(of(record(of("long"), of("int", "z", default=7), name="I"))),
         {"x": {"x": 1}}),
        (record(of({"type": "array", "items": "int"})), record(of({"type": "array", "items": "long"})), {"x": [1, 2]}),
        (record(of({"type": "fixed", "name": "F", "size": 2})), record(of({"type": "fixed", "name": "F", "size": 2})),
         {"x": b"ab"}),
    ],
)  # fmt: skip
def test_as_fastavro(writer: Any, reader: Any, value: Any) -> None:
    stream = io.BytesIO(written(writer, value))
    expected = fastavro.schemaless_reader(stream, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert read(writer, reader, value) == expected


def test_unions_of_several_types_keep_their_members() -> None:
    writer, reader = record(of(["int", "string"])), record(of(["null", "string", "long"]))
    assert read(writer, reader, {"x": 3}) == {"x": {"member0": None, "member1": 3}}
    assert read(writer, reader, {"x": "a"}) == {"x": {"member0": "a", "member1": None}}
    assert read(reader, record(of(["null", "string"])), {"x": "a"}) == {"x": "a"}
    assert read(writer, record(of("string")), {"x": "a"}) == {"x": "a"}


def test_timestamps_of_different_units_keep_their_instant() -> None:
    millis = record(of({"type": "long", "logicalType": "timestamp-millis"}))
    micros = record(of({"type": "long", "logicalType": "timestamp-micros"}))
    (found,) = read(millis, micros, {"x": 1_500}).values()
    assert found.timestamp() == 1.5
    assert read(record(of("long")), micros, {"x": 1_500})["x"].timestamp() == 0.0015
    assert (
        read(record(of("int")), record(of({"type": "long", "logicalType": "timestamp-millis"})), {"x": 2})[
            "x"
        ].timestamp()
        == 0.002
    )


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (record(of("long")), record(of("int")), "field x: long was written, which cannot be read as int"),
        (record(of("int")), record(of("int", "y")), "field y: it was not written, and has no default"),
        (record(of("int")), record(of("int", "y", default="a")), "field y: its default is 'a', which does not fit int"),
        (
            record(of("int")),
            record(of(COLOURS, "y", default=3)),
            "field y: its default is '3', which does not fit an enum",
        ),
        (record(of("string")), record(of(["null", "int"])), "field x: string was written, which no branch of a union"),
        (record(of("int")), record(of({"type": "map", "values": "int"})), "cannot be read as a map"),
        (
            record(of(record(of("int"), name="I"))),
            record(of(record(of("string"), name="I"))),
            "field x.x: int was written, which cannot be read as string",
        ),
        (
            record(of({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})),
            record(of({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1})),
            "field x: a decimal of scale 2 was written",
        ),
    ],
)
def test_what_can_never_fit(writer: Any, reader: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^field") as raised:
        conversion(plan(writer), plan(reader))
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("writer", "reader", "value", "reason"),
    [
        (record(of(["null", "int"])), record(of("int")), {"x": None}, "field x: null was written"),
        (record(of(["int", "string"])), record(of("int")), {"x": "a"}, "field x: string was written"),
        (record(of(COLOURS)), record(of({**COLOURS, "symbols": ["BLUE"]})), {"x": "RED"}, "field x: symbol 'RED'"),
        (record(of("bytes")), record(of("string")), {"x": b"\xff"}, "field x: bytes were written that are no UTF-8"),
    ],
)
def test_what_does_not_fit_some_values(writer: Any, reader: Any, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^field") as raised:
        read(writer, reader, value)
    assert reason in str(raised.value)


def test_records_that_contain_themselves_are_unfolded() -> None:
    link = record(of("int"), of(["null", "R"], "next"))
    wider = record(of("long"), of(["null", "R"], "next"), of("string", "note", default="-"))
    convert = conversion(plan(link, 2), plan(wider, 2))
    value = avro_reader(plan(link, 2))(written(link, {"x": 1, "next": {"x": 2, "next": {"x": 3, "next": None}}}))
    assert convert(value) == (1, (2, "-"), "-")


def test_the_pairs_of_unions_in_unions_are_bounded() -> None:
    numbers = itertools.count()

    def nested(depth: int, kind: str) -> Any:
        if depth == 0:
            return kind
        return [record(of(nested(depth - 1, kind)), name=f"R{next(numbers)}") for _ in range(6)]

    with pytest.raises(ValueError, match=f"more than {PAIRS_MAX} pairs"):
        conversion(plan(record(of(nested(4, "int")))), plan(record(of(nested(4, "string")))))
