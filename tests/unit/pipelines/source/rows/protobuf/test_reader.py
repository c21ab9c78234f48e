"""Messages that protobuf's own library writes, as rows; and hostile bytes."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.source.rows.protobuf.scene import file_of, message, plan
from tests.unit.pipelines.source.rows.protobuf.test_plan import RICH, TREE

from hutong.pipelines.source.rows.arrow import arrow_type, column_of
from hutong.pipelines.source.rows.protobuf.plan import ProtoMessage, kind_of_proto
from hutong.pipelines.source.rows.protobuf.reader import protobuf_reader
from hutong.pipelines.source.rows.protobuf.registered import (
    PlacedReader,
    RegisteredMessages,
    place_bytes,
    place_of,
)

AT = datetime.datetime(2020, 2, 29, 12, 0, 0, 1, tzinfo=datetime.UTC)
SCALARS = """syntax = "proto3"; message M {
  double a = 1; float b = 2; int64 c = 3; uint64 d = 4; int32 e = 5; fixed64 f = 6; fixed32 g = 7; bool h = 8;
  string i = 9; bytes j = 10; uint32 k = 11; sfixed32 l = 12; sfixed64 m = 13; sint32 n = 14; sint64 o = 15; }"""


def rows(found: ProtoMessage, *contents: bytes) -> list[Any]:
    """As a column has them."""

    def failed(row: int, reason: str) -> None:
        raise ValueError(reason)

    read = protobuf_reader(found)
    column = column_of([read(content) for content in contents], arrow_type(kind_of_proto(found)), failed)
    return list(column.to_pylist())


def test_a_message_is_a_row() -> None:
    order = message(RICH, "a.b.Order")
    order.a, order.b, order.c, order.d, order.e = -1, 2**32 - 1, 2**64 - 1, -(2**63), 0.5
    order.f, order.g, order.h, order.kind = b"\xff", True, "é", 16
    order.lines.add(x="")
    order.lines.add()
    order.by_number[-3].x = "three"
    order.at.FromDatetime(AT)
    order.maybe.value = 0
    order.any.type_url = "t"
    order.numbers.extend([1.5, 2])
    (found,) = rows(plan(RICH), order.SerializeToString())
    assert (found["a"], found["b"], found["c"], found["d"]) == (-1, 2**32 - 1, Decimal(2**64 - 1), -(2**63))
    assert (found["e"], found["f"], found["g"], found["h"], found["kind"]) == (0.5, b"\xff", True, "é", "BIG")
    assert (found["lines"], found["by_number"]) == ([{"x": ""}, {"x": None}], [("-3", {"x": "three"})])
    assert (found["at"], found["maybe"], found["any"]) == (AT, 0, {"type_url": "t", "value": b""})
    assert found["numbers"] == [1.5, 2.0]


def test_absent_fields_are_null_or_zero() -> None:
    (found,) = rows(plan(RICH), b"")
    assert found == {
        "a": 0, "b": 0, "c": Decimal(0), "d": 0, "e": 0.0, "f": b"", "g": False, "h": "", "kind": "UNKNOWN",
        "lines": [], "by_number": [], "at": None, "maybe": None, "any": None, "numbers": [],
    }  # fmt: skip
    proto2 = "message M { required int32 r = 1; optional string o = 2 [default = 'x']; repeated int32 n = 3; }"
    with pytest.raises(ValueError, match="field r: it is required, and is not there"):
        rows(plan(proto2), b"")
    assert rows(plan(proto2), b"\x08\x01") == [{"r": 1, "o": None, "n": []}]


ONE = 'syntax = "proto3"; message M { oneof o { string a = 1; int32 b = 2; N n = 3; } N m = 4; message N { int32 x = 1; int32 y = 2; } }'  # noqa: E501


def test_rules_of_protobuf_for_what_comes_twice() -> None:
    assert rows(plan(ONE), b"\x0a\x01s\x10\x05")[0]["a"] is None
    assert rows(plan(ONE), b"\x10\x05\x0a\x01s")[0]["b"] is None
    # Two parts of a message are one; a oneof forgets the parts before another member.
    assert rows(plan(ONE), b"\x22\x02\x08\x01\x22\x02\x10\x02")[0]["m"] == {"x": 1, "y": 2}
    assert rows(plan(ONE), b"\x1a\x02\x08\x01\x10\x05\x1a\x02\x10\x02")[0]["n"] == {"x": 0, "y": 2}
    packed = 'syntax = "proto3"; message M { repeated int32 n = 1; repeated fixed32 f = 2; map<string, int32> m = 3; }'
    found = rows(
        plan(packed), b"\x08\x01\x0a\x02\x02\x03\x15\1\0\0\0\x12\x04\2\0\0\0\x1a\x05\x0a\1k\x10\1\x1a\x03\x0a\1k"
    )
    assert found == [{"n": [1, 2, 3], "f": [1, 2], "m": [("k", 0)]}]


def test_unknown_fields_and_groups_are_skipped() -> None:
    found = plan('syntax = "proto3"; message M { int32 x = 1; }')
    group = b"\x7b" + b"\x08\x05\x7b\x0a\x01z\x7c" + b"\x7c"
    assert rows(found, b"\x12\x01a\x19" + b"\0" * 8 + b"\x25\0\0\0\0" + group + b"\x08\x07") == [{"x": 7}]
    for data in (b"\x7b", b"\x7c", b"\x7b\x74", b"\x7b" * 200):
        with pytest.raises(ValueError, match="group"):
            rows(found, data)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.floats(allow_nan=False), "b": st.floats(width=32, allow_nan=False), "h": st.booleans(),
            "i": st.text(), "j": st.binary(),
            **dict.fromkeys("cmo", st.integers(-(2**63), 2**63 - 1)),
            **dict.fromkeys("eln", st.integers(-(2**31), 2**31 - 1)),
            **dict.fromkeys("df", st.integers(0, 2**64 - 1)), **dict.fromkeys("gk", st.integers(0, 2**32 - 1)),
        },
    )
)  # fmt: skip
def test_scalars_come_as_they_were_written(values: dict[str, Any]) -> None:
    given_message = message(SCALARS, "M")
    for name, value in values.items():
        setattr(given_message, name, value)
    (found,) = rows(plan(SCALARS), given_message.SerializeToString())
    assert all(found[name] == getattr(given_message, name) for name in found)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x08", "end in the middle of a number"),
        (b"\x08" + b"\xff" * 11, "more than 10 bytes"),
        (b"\x42\xff\xff\xff\xff\x0f", "bytes are claimed where 0 are left"),
        (b"\x42\x01\xff", "field h: a string is not UTF-8"),
        (b"\x0d\0\0\0\0", "field a: it has the wire type 5 where 0 is expected"),
        (b"\x0e", "wire type 6"),
        (b"\x00\x00", "field has the number 0"),
        (b"\x29\0\0\0", "end in the middle of a number"),
        (b"\x7a\x03abc", "field numbers: 3 bytes are packed numbers of 8 bytes"),
        (b"\x62\x08\x08\xff\xff\xff\xff\xff\xff\x7f", "field at: a timestamp"),
        (b"\x52\x02\x0a\x05", r"field lines: 5 bytes are claimed"),
        (b"\x50\x01", "field lines: it has the wire type 0"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rows(plan(RICH), data)


def test_rows_grow_with_the_bytes_alone() -> None:
    fields = " ".join(f"int32 f{number} = {number + 2};" for number in range(1_000))
    wide = plan(f'syntax = "proto3"; message M {{ repeated N n = 1; message N {{ {fields} }} }}')
    assert len(rows(wide, b"\x0a\0" * 5)[0]["n"]) == 5
    with pytest.raises(ValueError, match="more than 64 fields for each byte"):
        protobuf_reader(wide)(b"\x0a\0" * 100)
    parts = protobuf_reader(plan(ONE))(b"\x22\x00" * 100_000)
    assert parts[3] == (0, 0)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_row_where_protobuf_reads_them(data: bytes) -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1; string b = 2; M.N c = 3; repeated sint64 d = 4; message N { bytes e = 1; } }'  # noqa: E501
    other = message(text, "M")
    try:
        (found,) = rows(plan(text), data)
    except ValueError:
        return
    try:
        other.ParseFromString(data)
    # Its parser refuses more: wire types that do not fit, and groups in odd places.
    except DecodeError:
        return
    assert (found["a"], found["b"], found["d"]) == (other.a, other.b, list(other.d))


def test_deep_values_end_where_the_plan_does() -> None:
    found = plan(TREE, recursion_max=3)
    data = b""
    for _ in range(2_000):
        data = b"\x12" + _size(len(data)) + data
    assert rows(found, data)[0]["children"][0]["children"] == [{"name": ""}]


def _size(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def test_places_of_messages() -> None:
    for place in ((0,), (1,), (0, 0), (3, 200, 1)):
        assert place_of(place_bytes(place) + b"rest") == (place, len(place_bytes(place)))
    assert place_of(b"\x02\x00") == ((0,), 2), "the long form of the first"
    for data in (b"", b"\x01", b"\x80\x01", b"\x04\x00", b"\xff" * 20):
        with pytest.raises(ValueError, match=r"."):
            place_of(data)


def test_messages_are_told_apart_by_their_schema() -> None:
    first, swapped = (
        'syntax = "proto3"; message A { int32 x = 1; } message B { string y = 1; }',
        'syntax = "proto3"; message B { string y = 1; } message A { int32 x = 1; int32 z = 2; }',
    )
    files = {1: [file_of(first)], 2: [file_of(swapped)], 3: [b"\xff"]}
    asked: list[int] = []

    def files_of(schema_id: int) -> list[bytes]:
        asked.append(schema_id)
        return files[schema_id]

    read = RegisteredMessages(plan(first), files_of)
    assert read(b"\0\0\0\0\1\0\x08\x05") == read(b"\0\0\0\0\1\0\x08\x05") == (5,)
    assert read(b"\0\0\0\0\2\2\2\x08\x05\x10\x01") == (5,)
    for data, why in (
        (b"\0\0\0\0\2\0\x0a\x00", "it is a message B, where the column has A"),
        (b"\0\0\0\0\2\2\x0a\x08\x05", "schema 2 has no message at"),
        (b"\0\0\0\0\3\0", "schema 3 cannot be read"),
        (b"\0\0\0\0\1", "end in the middle"),
        (b"\x08\x05", "zero byte"),
    ):
        with pytest.raises(ValueError, match=why):
            read(data)
    assert asked == [1, 2, 3]
    placed = PlacedReader(plan(first))
    assert placed(b"\0\x08\x05") == (5,)
    with pytest.raises(ValueError, match=r"it is message \(1,\) of its file"):
        placed(b"\2\2\x08\x05")


def test_columns_of_arrow_are_those_of_spark() -> None:
    assert pa.types.is_decimal(arrow_type(kind_of_proto(plan(RICH))).field("c").type)
