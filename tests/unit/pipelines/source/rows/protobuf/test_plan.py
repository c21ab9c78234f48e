"""Descriptors as plans and columns, and those that no column can hold."""

import base64

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.source.rows.protobuf.scene import file_of, plan, set_of

from hutong.pipelines.source.rows.kinds import ddl
from hutong.pipelines.source.rows.protobuf.descriptors import parse_file_text, parse_files, parse_set, set_text
from hutong.pipelines.source.rows.protobuf.plan import kind_of_proto, plan_of

RICH = """syntax = "proto3"; package a.b;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto";
message Order {
  int32 a = 1; uint32 b = 2; fixed64 c = 3; sint64 d = 4; float e = 5; bytes f = 6; bool g = 7; string h = 8;
  Kind kind = 9; repeated Line lines = 10; map<int64, Line> by_number = 11; google.protobuf.Timestamp at = 12;
  google.protobuf.Int64Value maybe = 13; google.protobuf.Any any = 14; repeated double numbers = 15;
  message Line { optional string x = 1; }
  enum Kind { UNKNOWN = 0; BIG = 16; }
}
message Other { Order.Line line = 1; }"""
TREE = 'syntax = "proto3"; message T { string name = 1; repeated T children = 2; map<string, T> named = 3; }'


def column(text: str, name: str = "", recursion_max: int | None = None) -> str:
    return ddl(kind_of_proto(plan(text, name, recursion_max)))


def test_messages_are_structs() -> None:
    assert column(RICH) == (
        "STRUCT<`a`: INT, `b`: BIGINT, `c`: DECIMAL(20,0), `d`: BIGINT, `e`: FLOAT, `f`: BINARY, `g`: BOOLEAN, "
        "`h`: STRING, `kind`: STRING, `lines`: ARRAY<STRUCT<`x`: STRING>>, "
        "`by_number`: MAP<STRING, STRUCT<`x`: STRING>>, `at`: TIMESTAMP, `maybe`: BIGINT, "
        "`any`: STRUCT<`type_url`: STRING, `value`: BINARY>, `numbers`: ARRAY<DOUBLE>>"
    )
    assert column(RICH, "Other") == column(RICH, "a.b.Other") == "STRUCT<`line`: STRUCT<`x`: STRING>>"
    assert plan(RICH, "a.b.Order.Line").place == (0, 0), "entries of maps have no place"
    found = set_of(RICH).at((0, 0))
    assert found is not None
    assert found.full_name == "a.b.Order.Line"
    assert set_of(RICH).at((2,)) is None


def test_a_message_that_holds_itself_is_unfolded_as_often_as_asked() -> None:
    assert column(TREE, recursion_max=1) == "STRUCT<`name`: STRING>"
    assert column(TREE, recursion_max=2) == (
        "STRUCT<`name`: STRING, `children`: ARRAY<STRUCT<`name`: STRING>>, "
        "`named`: MAP<STRING, STRUCT<`name`: STRING>>>"
    )


def test_a_set_of_files_finds_what_is_imported() -> None:
    place = 'syntax = "proto3"; package geo; message Place { string city = 1; }'
    outer = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    message = outer.message_type.add(name="Order")
    message.field.add(name="at", number=1, label=1, type=11, type_name=".geo.Place")
    message.field.add(name="near", number=2, label=1, type_name="geo.Place")  # as protoc's parser leaves it
    text = set_text([file_of(place), outer.SerializeToString()])
    expected = "STRUCT<`at`: STRUCT<`city`: STRING>, `near`: STRUCT<`city`: STRING>>"
    assert ddl(kind_of_proto(plan_of(parse_set(text)))) == expected
    found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text))
    assert [file.package for file in found.file] == ["geo", "shop"], "protobuf reads the set"


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        (TREE, "", r"field children holds the message T that holds it; set recursiveFieldMaxDepth"),
        (TREE, "U", "it has no message 'U'; it has T"),
        ('syntax = "proto3"; enum E { A = 0; }', "", "it has no message"),
        (
            'syntax = "proto3"; message M { E e = 1; message E {} }',
            "",
            "field e is of the message M.E, which has",
        ),
        ('syntax = "proto3"; message M {}', "", "it is of the message M"),
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }',
            "",
            "field v is of the message .google.protobuf.Value, which is not there",
        ),
    ],
)
def test_messages_that_no_column_can_hold(text: str, name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        plan(text, name)


def chain(levels: int, width: int) -> str:
    messages = ["message M0 { string x = 1; }"]
    for level in range(1, levels + 1):
        fields = " ".join(f"M{level - 1} f{number} = {number + 1};" for number in range(width))
        messages.insert(0, f"message M{level} {{ {fields} }}")
    return 'syntax = "proto3"; ' + " ".join(messages)


def test_depth_and_size_have_bounds() -> None:
    with pytest.raises(ValueError, match="nested deeper than 32 levels"):
        plan(chain(40, 1))
    with pytest.raises(ValueError, match="more than 10000 fields"):
        plan(chain(12, 4))
    group = descriptor_pb2.FileDescriptorProto(name="g.proto")
    group.message_type.add(name="M").field.add(name="g", number=1, label=1, type=10, type_name=".M")
    with pytest.raises(ValueError, match="is a group"):
        plan_of(parse_files([group.SerializeToString()]))
    nested = descriptor_pb2.DescriptorProto(name="M")
    for _ in range(40):
        nested = descriptor_pb2.DescriptorProto(name="M", nested_type=[nested])
    deep = descriptor_pb2.FileDescriptorProto(name="d.proto", message_type=[nested])
    with pytest.raises(ValueError, match="messages are nested deeper than 32 levels"):
        parse_files([deep.SerializeToString()])
    edition = descriptor_pb2.FileDescriptorProto(name="e.proto", syntax="editions", edition=1000)
    with pytest.raises(ValueError, match="edition"):
        parse_files([edition.SerializeToString()])
    with pytest.raises(ValueError, match="more than 4194304 bytes"):
        parse_files([b"x" * (4 * 2**20 + 1)])


@pytest.mark.parametrize("text", ["", "?", "AA", "/w==", base64.b64encode(b"\x0a\x05a").decode()])
def test_texts_that_are_no_set(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_set(text)
    with pytest.raises(ValueError, match="no file descriptor"):
        parse_file_text("?")


@given(st.binary(max_size=200))
def test_any_bytes_are_descriptors_or_are_refused(data: bytes) -> None:
    try:
        plan_of(parse_files([data]))
    except ValueError:
        return
