"""Protobuf's schemas: read as protoc reads them, printed, and compared by the rules for changing messages."""

import base64
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import Refused
from hutong.registry.formats.proto_reading import ProtoReader
from hutong.registry.formats.protobuf import ProtobufFormat, ProtobufSchema
from hutong.registry.formats.shape import NamedText

RICH = """
// A comment.
syntax = "proto3";
package example.shop; /* another
one */
import "google/protobuf/timestamp.proto";
option java_package = "com.example";
option java_multiple_files = true;
option optimize_for = CODE_SIZE;
message Order {
  reserved 9, 20 to 30, 1000 to max;
  reserved "gone", 'went';
  string id = 1;
  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  optional int32 note = 4 [deprecated = true];
  oneof payment { string card = 5; bytes token = 6; }
  google.protobuf.Timestamp at = 7;
  Kind kind = 8 [json_name = "theKind"];
  repeated sint64 packed_off = 10 [packed = false];
  message Line { double price = 1; Inner inner = 2; message Inner { bool message = 1; } }
  enum Kind { option allow_alias = true; UNKNOWN = 0; NONE = 0; BIG = 0x10; NEGATIVE = -1; }
}
enum Top { ZERO = 0; reserved 5 to max; }
service Shop { rpc Buy (Order) returns (stream Order); rpc Many (stream Order) returns (.example.shop.Order) {} }
"""
OLD = """
syntax = "proto2";
message A {
  required string r = 1;
  optional int32 o = 2 [default = -5];
  optional string s = 3 [default = "a\\"b\\n"];
  extensions 100 to 199;
}
extend A { optional int32 more = 100; }
"""


def parsed(text: str, imports: tuple[NamedText, ...] = ()) -> ProtobufSchema:
    return ProtobufFormat().parse(text, imports)


def compiled(text: str, folder: Path) -> str:
    """The descriptor of protoc, in base64."""
    (folder / "x.proto").write_text(text)
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{folder}",
        f"--descriptor_set_out={folder}/out",
        "x.proto",
    ]
    import grpc_tools

    command.insert(4, f"-I{Path(grpc_tools.__file__).parent / '_proto'}")
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (file,) = pb.FileDescriptorSet.FromString((folder / "out").read_bytes()).file
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("text", [RICH, OLD], ids=["proto3", "proto2"])
def test_text_is_read_as_protoc_reads_it(text: str, tmp_path: Path) -> None:
    ours, theirs = parsed(text), parsed(compiled(text, tmp_path))
    assert ours.canonical == theirs.canonical
    assert ours.serialized() == theirs.serialized()
    assert parsed(ours.canonical).canonical == ours.canonical


def test_the_text_that_is_kept() -> None:
    text = (
        'syntax="proto3"; package a; message M{ int32 x=1; N n=2; map<string,N> m=3; message N{} optional bool o=4; }'
    )
    assert parsed(text).canonical == (
        'syntax = "proto3";\npackage a;\n\nmessage M {\n  int32 x = 1;\n  M.N n = 2;\n  map<string, M.N> m = 3;\n'
        "  optional bool o = 4;\n  message N {\n  }\n}\n"
    )


def test_what_a_descriptor_does_not_show_is_kept_as_it_came() -> None:
    text = 'syntax = "proto3"; message M { message M { } M x = 1; }'
    assert parsed(text).canonical
    extended = (
        'syntax = "proto2"; import "google/protobuf/descriptor.proto";\n'
        "extend google.protobuf.FieldOptions { optional string tag = 50000; } message M { optional int32 a = 1; }"
    )
    assert "tag" in parsed(extended).canonical


def test_files_are_imported_by_the_names_of_references() -> None:
    user = NamedText("user.proto", 'syntax = "proto3"; package u; message User { string name = 1; }')
    order = 'syntax = "proto3"; import "user.proto"; message Order { u.User by = 1; }'
    assert "u.User by = 1;" in parsed(order, (user,)).canonical
    with pytest.raises(Refused, match="Invalid schema"):
        parsed(order)


def message(body: str, *, syntax: str = "proto3", package: str = "p") -> str:
    return f'syntax = "{syntax}"; package {package}; message M {{ {body} }} message N {{ }} enum E {{ ZERO = 0; }}'


READS = [  # reader, writer, the kind of trouble
    ("int32 a = 1;", "int32 a = 1;", ""),
    ("int64 a = 1;", "int32 a = 1;", ""),
    ("bool a = 1;", "E a = 1;", ""),
    ("string a = 1;", "bytes a = 1;", ""),
    ("sint32 a = 1;", "int32 a = 1;", "FIELD_KIND_CHANGED"),
    ("string a = 1;", "int32 a = 1;", "FIELD_KIND_CHANGED"),
    ("N a = 1;", "string a = 1;", "FIELD_KIND_CHANGED"),
    ("fixed32 a = 1;", "sfixed32 a = 1;", ""),
    ("int32 b = 1;", "int32 a = 1;", ""),
    ("int32 a = 1; int32 b = 2;", "int32 a = 1;", ""),
    ("int32 a = 1;", "int32 a = 1; int32 b = 2;", ""),
    ("N a = 1;", "M a = 1;", "FIELD_NAMED_TYPE_CHANGED"),
    ("repeated string a = 1;", "string a = 1;", ""),
    ("repeated int32 a = 1;", "int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
    ("oneof o { int32 a = 1; } int32 b = 2;", "int32 a = 1; int32 b = 2;", ""),
    ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;", "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    ("oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }", "ONEOF_FIELD_REMOVED"),
    ("optional int32 a = 1; optional int32 b = 2;", "int32 a = 1; int32 b = 2;", ""),
    ("message I { } I a = 1;", "", ""),
    ("", "message I { }", "MESSAGE_REMOVED"),
]


@pytest.mark.parametrize(("reader", "writer", "kind"), READS)
def test_a_reader_understands_what_the_rules_say(reader: str, writer: str, kind: str) -> None:
    troubles = parsed(message(reader)).troubles_reading(parsed(message(writer, package="other")))
    assert bool(troubles) is bool(kind), troubles
    assert any(each.startswith(kind) for each in troubles) or not kind


def test_required_fields_neither_come_nor_go() -> None:
    bare, more = message("", syntax="proto2"), message("required int32 a = 1;", syntax="proto2")
    assert parsed(more).troubles_reading(parsed(bare))[0].startswith("REQUIRED_FIELD_ADDED")
    assert parsed(bare).troubles_reading(parsed(more))[0].startswith("REQUIRED_FIELD_REMOVED")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "message",
        "message M {",
        "message M }",
        "message 5 {}",
        "message M { int32 a = x; }",
        "message M { int32 a = 1 int32 b = 2; }",
        "message M { int32 a = 99999999999999999999; }",
        "message M { int32 a = 0; }",
        "message M { int32 a = 19000; }",
        "message M { optional int32 a = 1; optional int32 b = 1; }",
        'syntax = "proto3"; message M { Nothing a = 1; }',
        'syntax = "proto4";',
        'edition = "2023";',
        'import "nothing.proto";',
        'syntax = "proto2"; message M { optional group G = 1 { } }',
        "message M {} message M {}",
        "enum E { }",
        "message M { map<string> a = 1; }",
        "$$$",
        '"unclosed',
        "AAAA",
        "////",
        "message M { " * 5_000,
        "option (x = {" * 1_000,
        'option java_package = "\\xff";',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="Invalid schema"):
        parsed(text)


@given(st.text(alphabet='message{}=;123"ab <>,/*\\()[]\n', max_size=200))
def test_any_text_is_a_file_or_refused(text: str) -> None:
    with contextlib.suppress(Refused):
        ProtoReader(text).read()
