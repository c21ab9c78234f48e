"""Values read by the schemas that wrote them: as other libraries write them, cut off, and hostile."""

import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.avro import AvroFormat
from hutong.registry.formats.protobuf import ProtobufFormat
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import SchemaText

RICH = {
    "type": "record",
    "name": "a.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "part", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 3}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "lines", "type": {"type": "array", "items": "Order"}},
        {"name": "by_name", "type": {"type": "map", "values": "bytes"}},
    ],
}
ORDER: dict[str, Any] = {
    "id": -(2**40),
    "amount": 1.5,
    "part": 0.25,
    "paid": True,
    "kind": "B",
    "mark": b"abc",
    "note": "é",
    "lines": [],
    "by_name": {"k": b"\xff"},
}


def schema(type_: str, text: str) -> WrittenBySchema:
    return WrittenBySchema(ResolvedText(SchemaText(type_, text)), SchemaChecks())


def avro(schema_json: Any, value: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema_json), value)
    return written.getvalue()


def test_an_avro_record_is_read_as_it_was_written() -> None:
    order = ORDER | {"lines": [ORDER, ORDER | {"note": None}]}
    read = schema("AVRO", json.dumps(RICH))
    assert read.read(avro(RICH, order)) == order
    assert (read.type, read.name) == ("AVRO", "a.Order")


@given(st.lists(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1))))
def test_avro_lists_and_maps_are_read_as_fastavro_writes_them(value: list[dict[str, int]]) -> None:
    lists = {"type": "array", "items": {"type": "map", "values": "long"}}
    assert schema("AVRO", json.dumps(lists)).read(avro(lists, value)) == value


def test_avro_values_that_are_cut_off_or_too_long_are_refused() -> None:
    data, read = avro(RICH, ORDER), schema("AVRO", json.dumps(RICH))
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            read.read(data[:size])
    with pytest.raises(ProtocolError, match="1 bytes are left over"):
        read.read(data + b"x")


TREE = {"type": "record", "name": "T", "fields": [{"name": "t", "type": ["null", "T"]}]}
DOUBLED: Any = {"type": "record", "name": "R0", "fields": []}
for level in range(1, 19):
    fields = [{"name": "a", "type": DOUBLED}, {"name": "b", "type": f"R{level - 1}"}]
    DOUBLED = {"type": "record", "name": f"R{level}", "fields": fields}


@pytest.mark.parametrize(
    ("schema_json", "data", "why"),
    [
        ("bytes", b"\xff\xff\xff\xff\x0f", "bytes are to follow"),
        ("bytes", b"\x01", "-1 bytes are to follow"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("long", b"\xff" * 11, "more than 10 bytes"),
        (["null", "int"], b"\x04", "no branch 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "no symbol -1"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f", "parts that take no bytes"),
        (TREE, b"\x02" * 100_000, "nested more than 64 deep"),
        ({"type": "array", "items": DOUBLED}, b"\x02\x00", "parts that take no bytes"),
    ],
)
def test_hostile_avro_values_are_refused(schema_json: Any, data: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        schema("AVRO", json.dumps(schema_json)).read(data)


FILE = """syntax = "proto3";
message First { int32 x = 1; }
message Order {
  string id = 1; repeated Line lines = 2; map<string, Line> by_name = 3; bytes token = 4; Kind kind = 5;
  repeated Kind kinds = 6; map<int32, string> names = 7;
  message Line { double price = 1; Order inner = 2; }
  enum Kind { UNKNOWN = 0; BIG = 16; }
}"""


def test_a_protobuf_message_is_read_as_it_was_written() -> None:
    parsed = ProtobufFormat().parse(FILE, ())
    message = GetMessageClass(parsed.descriptor.message_types_by_name["Order"])()
    message.id = "7"
    message.lines.add(price=1.5)
    message.by_name["a"].price = 2
    message.token = b"\xff"
    message.kind = 16
    message.kinds.extend([0, 16, 99])
    message.names[3] = "three"
    read = schema("PROTOBUF", FILE).read(b"\x02\x02" + message.SerializeToString())
    assert read == {
        "id": "7",
        "lines": [{"price": 1.5}],
        "by_name": {"a": {"price": 2.0}},
        "token": b"\xff",
        "kind": "BIG",
        "kinds": ["UNKNOWN", "BIG", 99],
        "names": {3: "three"},
    }
    line = parsed.descriptor.message_types_by_name["Order"].nested_types_by_name["Line"]
    assert schema("PROTOBUF", FILE).read(b"\x04\x02\x00" + GetMessageClass(line)(price=3).SerializeToString()) == {
        "price": 3.0
    }
    assert schema("PROTOBUF", FILE).read(b"\x00\x08\x05") == {"x": 5}


def test_a_list_value_is_a_message_though_it_has_the_methods_of_a_list() -> None:
    file = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }'
    message = GetMessageClass(ProtobufFormat().parse(file, ()).descriptor.message_types_by_name["M"])()
    message.v.list_value.values.add().number_value = 1
    read = schema("PROTOBUF", file).read(b"\x00" + message.SerializeToString())
    assert read == {"v": {"list_value": {"values": [{"number_value": 1.0}]}}}


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x02\x04", b"\xff" * 6, b"\x02\x01", b"\x80\x01", b"\x00\x08"])
def test_hostile_protobuf_values_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        schema("PROTOBUF", FILE).read(data)


def test_deep_protobuf_values_are_refused() -> None:
    data = b""
    for _ in range(200):
        inner = b"\x12" + _length(data) + data if data else b"\x12\x00"
        data = b"\x12" + _length(inner) + inner
    with pytest.raises(ProtocolError):
        schema("PROTOBUF", FILE).read(b"\x02\x02" + data)


def _length(data: bytes) -> bytes:
    size, found = len(data), b""
    while size > 0x7F:
        found += bytes([size & 0x7F | 0x80])
        size >>= 7
    return found + bytes([size])


def test_a_value_of_a_json_schema_is_json() -> None:
    assert schema("JSON", '{"type": "object"}').read(b'{"a": 1}') == {"a": 1}
    with pytest.raises(ProtocolError):
        schema("JSON", "{}").read(b"{")


WRITTEN = [("AVRO", json.dumps(RICH)), ("AVRO", json.dumps(TREE)), ("PROTOBUF", FILE)]


@given(st.binary(max_size=300), st.sampled_from(WRITTEN))
def test_any_bytes_are_a_value_or_are_refused(data: bytes, written: tuple[str, str]) -> None:
    try:
        schema(*written).read(data)
    except ProtocolError:
        return


def test_an_avro_type_is_found_by_its_format() -> None:
    assert AvroFormat().parse(json.dumps(RICH), ()).type.name == "a.Order"
