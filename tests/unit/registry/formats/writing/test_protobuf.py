"""JSON to Protobuf messages: as protobuf reads them, and what is refused."""

from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.registry.checks import ResolvedText, SchemaChecks
from hutong.registry.formats.protobuf import ProtobufFormat
from hutong.registry.formats.writing.steps import WriteSteps
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import SchemaText

FILE = """syntax = "proto3";
import "google/protobuf/any.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/timestamp.proto";
message Order {
  string id = 1; repeated Line lines = 2; map<string, Line> by_name = 3; bytes token = 4; Kind kind = 5;
  int64 big_number = 6; google.protobuf.Timestamp at = 7; google.protobuf.Any any = 8; google.protobuf.Value free = 9;
  message Line { double price = 1; Order inner = 2; }
  enum Kind { UNKNOWN = 0; BIG = 16; }
}"""


def write(value: Any, text: str = FILE, steps_max: int = 10_000) -> bytes:
    return WrittenBySchema(ResolvedText(SchemaText("PROTOBUF", text)), SchemaChecks()).write(
        value, WriteSteps(steps_max)
    )


def as_read(data: bytes) -> Any:
    assert data[:1] == b"\0", "the first message of the file"
    message = GetMessageClass(ProtobufFormat().parse(FILE, ()).descriptor.message_types_by_name["Order"])()
    message.ParseFromString(data[1:])
    return message


def test_a_message_is_read_by_others_as_it_was_given() -> None:
    line = {"price": 1.5, "inner": {"id": "i"}}
    found = as_read(
        write(
            {
                "id": "7",
                "lines": [line],
                "by_name": {"a": line},
                "token": "/w==",
                "kind": "BIG",
                "bigNumber": str(2**62),
                "at": "2026-01-02T03:04:05Z",
                "free": {"a": [1, None]},
                "any": {"@type": "type.googleapis.com/Order", "id": "in"},
            }
        )
    )
    assert (found.id, found.lines[0].inner.id, found.by_name["a"].price) == ("7", "i", 1.5)
    assert (found.token, found.kind, found.big_number, found.at.seconds) == (b"\xff", 16, 2**62, 1767323045)
    assert found.any.type_url == "type.googleapis.com/Order"
    assert len(found.free.struct_value.fields["a"].list_value.values) == 2


DEEP: Any = {}
for _ in range(150):
    DEEP = {"lines": [{"inner": DEEP}]}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "a message is an object"),
        ("x", "a message is an object"),
        ({"more": 1}, "no field named"),
        ({"id": 1}, "id"),
        ({"id": "\ud800"}, "id|surrogate"),
        ({"bigNumber": 2**63}, "big"),
        ({"lines": {}}, "lines"),
        ({"lines": [None]}, "null"),
        ({"kind": "SMALL"}, "kind|SMALL"),
        ({"at": 5}, None),
        ({"any": {"@type": 5}}, None),
        ({"any": {"@type": "type.googleapis.com/google.protobuf.Value"}}, None),
        ({"any": {"@type": "type.googleapis.com/Nowhere"}}, None),
        ({"any": []}, None),
        ({"by_name": {"a": 1}}, None),
        (DEEP, None),
    ],
)
def test_values_of_another_type_are_refused(value: Any, why: str | None) -> None:
    with pytest.raises(ProtocolError, match=why):
        write(value)


def test_required_fields_are_asked_for_and_files_need_a_message() -> None:
    with pytest.raises(ProtocolError, match="required"):
        write({}, "message M { required string s = 1; }")
    with pytest.raises(ProtocolError, match="no message"):
        write({}, 'syntax = "proto3"; enum E { A = 0; }')


def test_work_has_a_bound() -> None:
    fields = " ".join(f"int32 f{number} = {number + 2};" for number in range(1_000))
    wide = f'syntax = "proto3"; message M {{ repeated M m = 1; {fields} }}'
    assert write({"m": [{}]}, wide)
    with pytest.raises(ProtocolError, match="too many steps"):
        write({"m": [{}] * 20}, wide)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "lines", "by_name", "token", "kind", "at", "any", "free", "@type", "value", "price"]
            ),
            inner,
            max_size=3,
        )
    ),
)


@given(VALUES)
def test_any_value_is_a_message_or_is_refused(value: Any) -> None:
    try:
        as_read(write(value))
    except ProtocolError:
        return
