"""Values cross to messages and back unchanged; other values are an error of their sender."""

import contextlib
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.grpc_shop import Circle, EveryKind, Item, Level, Note, Page, Point, Row, Square, State, Weight

from hutong.rpc.descriptions.description import describe
from hutong.rpc.errors import BadArguments, DispatchFailed

pytest.importorskip("google.protobuf")

from hutong.rpc.grpc.proto.conversion import MethodConversion, ServiceConversion
from hutong.rpc.grpc.proto.descriptors import message_class
from hutong.rpc.grpc.proto.shapes import builtins_of

SERVICE = ServiceConversion(describe(EveryKind))
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TIMES = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]))
ITEMS: st.SearchStrategy[Item] = st.deferred(
    lambda: st.builds(
        Item,
        name=TEXT,
        price=st.decimals(allow_nan=False, allow_infinity=False),
        count=st.integers(1, (1 << 63) - 1),
        parts=st.lists(ITEMS, max_size=2),
        labels=st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
        level=st.none() | st.sampled_from(Level),
        grid=st.lists(st.lists(st.floats(allow_nan=False), max_size=3), max_size=3),
        unset=st.just(msgspec.UNSET) | INT64,
    )
)
POINTS = st.builds(Point, INT64, INT64)
NOTES = st.fixed_dictionaries({"text": TEXT}, optional={"author": TEXT})
SHAPES = st.builds(Circle, st.floats(allow_nan=False)) | st.builds(Square, st.floats(allow_nan=False))


def method(name: str) -> MethodConversion:
    return SERVICE.methods[f"/every.kind.EveryKind/{name}"]


def sent_and_received(name: str, **arguments: Any) -> Any:
    """The arguments as they arrive from another side with the same types."""
    conversion = method(name)
    given = conversion.mapping.method.arguments_type(**arguments)
    request = conversion.mapping.request.write(builtins_of(given)).SerializeToString()
    return conversion.arguments(request, conversion.mapping.method.arguments_type), given


def returned_and_received(name: str, value: Any, *, is_encoded: bool = False) -> Any:
    conversion = method(name)
    response = conversion.mapping.response
    make = message_class(SERVICE.pool, SERVICE.schema, response.type.name)
    found = response.read(make.FromString(conversion.response(value, is_encoded=is_encoded)))
    return msgspec.convert(found["result"], conversion.mapping.method.result_type)


@given(
    item=ITEMS,
    at=TIMES,
    state=st.sampled_from(State),
    number=st.none() | st.uuids(),
    within=st.none() | st.timedeltas(),
)
@settings(deadline=None, max_examples=50)
def test_structs_times_and_enums(**arguments: Any) -> None:
    received, given = sent_and_received("Place", **arguments)
    assert received == given


@given(
    shape=st.none() | SHAPES,
    mixed=INT64 | TEXT | st.lists(INT64, max_size=3) | st.booleans(),
    day=st.dates(),
    data=st.binary(max_size=9),
)
@settings(deadline=None, max_examples=50)
def test_unions_dates_and_bytes(**arguments: Any) -> None:
    received, given = sent_and_received("Draw", **arguments)
    assert received == given
    assert type(received.mixed) is type(given.mixed)


@given(
    points=st.dictionaries(INT64, POINTS, max_size=3),
    pair=st.tuples(INT64, st.none() | TEXT),
    note=NOTES,
    weight=st.builds(Weight, st.floats(allow_nan=False)),
    row=st.builds(Row, INT64, st.none() | TEXT),
)
@settings(deadline=None, max_examples=50)
def test_rows_maps_and_typed_dicts(**arguments: Any) -> None:
    received, given = sent_and_received("Shapes", **arguments)
    assert received == given


@given(
    tags=st.frozensets(TEXT, max_size=3),
    ratio=st.floats(allow_nan=False),
    is_on=st.booleans(),
    scores=st.lists(INT64, max_size=3).map(tuple),
    limits=st.none() | st.dictionaries(TEXT, INT64, max_size=2),
)
@settings(deadline=None, max_examples=50)
def test_what_differs_from_its_default(**arguments: Any) -> None:
    received, given = sent_and_received("SetOptions", **arguments)
    assert received == given


def test_what_is_left_out_has_its_default() -> None:
    conversion = method("SetOptions")
    assert conversion.arguments(b"", conversion.mapping.method.arguments_type) == (
        conversion.mapping.method.arguments_type()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Place", UUID(int=7)),
        ("Draw", Square(2.5)),
        ("Shapes", (1, 2)),
        ("Page", Page([Item("a", Decimal("1.50"))], "b")),
        ("Levels", [Point(0, 0), None]),
        ("SetOptions", None),
        ("SetOptions", {}),
        ("SetOptions", {"a": [1], "b": []}),
    ],
)
def test_results(name: str, value: object) -> None:
    assert returned_and_received(name, value) == value
    kept = msgspec.json.decode(msgspec.json.encode(value))  # as a store keeps it
    assert returned_and_received(name, kept, is_encoded=True) == value


def test_a_method_without_result_answers_an_empty_message() -> None:
    assert method("Nothing").response(None) == b""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("Place", None, "Expected `uuid`, got `null`"),
        ("Place", 5, "place"),
        ("Draw", Point(1, 2), "tuple is none of CircleOrSquare"),
        ("Shapes", (1 << 64,), "out of range"),
        ("Shapes", ("a",), "str"),
        ("Page", 5, "page"),
        ("Page", object(), "object"),
        ("Levels", 5, "levels"),
        ("Watch", Item("\ud800", Decimal(1)), "surrogates"),
    ],
)
def test_a_result_that_does_not_fit_is_the_fault_of_the_service(name: str, value: object, words: str) -> None:
    with pytest.raises(DispatchFailed, match=words):
        method(name).response(value)


def test_a_time_without_a_zone_is_not_sent() -> None:
    place = method("Place").mapping
    arguments = place.method.arguments_type(Item("a", Decimal(1)), datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="no time with a time zone"):
        place.request.write(builtins_of(arguments))


def a_request(name: str, **changes: Any) -> bytes:
    """Fields of the message itself, of any type here."""
    make = message_class(SERVICE.pool, SERVICE.schema, f"{name}Request")
    return make(**changes).SerializeToString()  # type: ignore[no-any-return]


ITEM = {"name": "a", "price": "1"}
PLACED = {"item": ITEM, "at": {"seconds": 1}}


@pytest.mark.parametrize(
    ("name", "request_bytes", "words"),
    [
        ("Place", b"\xff", "no message of this type"),
        ("Place", b"", "missing required field `item`"),
        ("Place", a_request("Place", item=ITEM), "missing required field `at`"),
        ("Place", a_request("Place", **PLACED, state=9), "State: 9 is none of its numbers"),
        ("Place", a_request("Place", **PLACED, state=0), "State: none of its names"),
        ("Place", a_request("Place", item=ITEM, at={"seconds": 1 << 60}), "outside the calendar"),
        ("Place", a_request("Place", **PLACED, within={"seconds": 1 << 60}), "too long"),
        ("Place", a_request("Place", **PLACED, number="x"), "number"),
        ("Place", a_request("Place", item={"name": "a", "price": "x"}, at={"seconds": 1}), "item.price"),
        ("Place", a_request("Place", item={**ITEM, "count": 0}, at={"seconds": 1}), ">= 1"),
        ("Draw", a_request("Draw", mixed={}, day="2026-01-01"), "none of its fields is given"),
        ("Draw", a_request("Draw", mixed={"int64": 1}, day="today"), "day"),
        ("Shapes", a_request("Shapes", points={}, note={}, weight={}, row={}), "pair"),
        ("Levels", a_request("Levels", of={"elsewhere": 5}), "of"),
        ("Levels", a_request("Levels", like="c"), "like"),
    ],
)
def test_arguments_that_are_none_are_the_fault_of_the_caller(name: str, request_bytes: bytes, words: str) -> None:
    conversion = method(name)
    with pytest.raises(BadArguments, match=words):
        conversion.arguments(request_bytes, conversion.mapping.method.arguments_type)


def test_messages_nested_beyond_all_measure_are_refused() -> None:
    part = b""
    for _ in range(sys.getrecursionlimit() * 2):
        if len(part) > 1 << 20:
            break
        part = b"\x22" + varint(len(part)) + part  # field 4 of Item: its parts
    with pytest.raises(BadArguments):
        method("Place").raw_arguments(b"\x0a" + varint(len(part)) + part)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_what_is_not_known_is_passed_over() -> None:
    conversion = method("Nothing")
    assert conversion.raw_arguments(b"\x0a\x01a") == {}
    note: Note = {"text": "a"}
    assert (
        sent_and_received("Shapes", points={}, pair=(1, None), note=note, weight=Weight(1), row=Row(1, None))[0].note
        == note
    )


@given(name=st.sampled_from(sorted(path.rpartition("/")[2] for path in SERVICE.methods)), data=st.binary(max_size=60))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_arguments_or_bad_arguments(name: str, data: bytes) -> None:
    conversion = method(name)
    with contextlib.suppress(BadArguments):
        conversion.arguments(data, conversion.mapping.method.arguments_type)
