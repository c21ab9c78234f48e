import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipelines.source.rows.avro_writer import number, values, write
from tests.unit.pipelines.unhurried import unhurried

from hutong.pipelines.source.rows.avro import EMPTY_ITEMS_SPARE, LEVELS_MAX, avro_reader
from hutong.pipelines.source.rows.avro_schema import kind_of, parse_avro
from hutong.pipelines.source.rows.kinds import ddl

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": ["null", "int"]},
        {"name": "ok", "type": "boolean"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": {"type": "double"}},
        {"name": "name", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 3}},
        {"name": "again", "type": ["null", "Mark"]},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "other", "type": "shop.Colour"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "bag", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wall", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}},
        {"name": "one", "type": ["int", "string", "null"]},
        {"name": "wide", "type": ["int", "long"]},
        {
            "name": "inner",
            "type": {
                "type": "record",
                "name": "Inner",
                "fields": [
                    {"name": "x", "type": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}},
                    {"name": "y", "type": "double"},
                ],
            },
        },
    ],
}
PLAN = parse_avro(json.dumps(EVERYTHING))
POINT = json.dumps(
    {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}
)


def test_types_are_those_of_sparks_own_avro_support() -> None:
    kind = kind_of(PLAN)
    assert kind is not None
    assert ddl(kind) == (
        "STRUCT<`id`: BIGINT, `count`: INT, `ok`: BOOLEAN, `f`: FLOAT, `d`: DOUBLE, `name`: STRING, `raw`: BINARY, "
        "`mark`: BINARY, `again`: BINARY, `colour`: STRING, `other`: STRING, `tags`: ARRAY<STRING>, "
        "`bag`: MAP<STRING, BIGINT>, `day`: DATE, `at`: TIMESTAMP, `wall`: TIMESTAMP_NTZ, `price`: DECIMAL(38,4), "
        "`one`: STRUCT<`member0`: INT, `member1`: STRING>, `wide`: BIGINT, "
        "`inner`: STRUCT<`x`: ARRAY<STRUCT<>>, `y`: DOUBLE>>"
    )


@unhurried
@given(values(PLAN))
def test_what_was_written_is_read(value: Any) -> None:
    assert avro_reader(PLAN)(write(PLAN, value)) == value


@unhurried
@given(values(PLAN), st.data())
def test_damaged_bytes_give_a_value_or_an_error_of_ours(value: Any, data: st.DataObject) -> None:
    content = bytearray(write(PLAN, value))
    for _ in range(3):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        with suppress(ValueError):
            avro_reader(PLAN)(damaged)


def test_blocks_may_tell_their_size() -> None:
    read = avro_reader(parse_avro('{"type": "array", "items": "int"}'))
    assert read(number(-2) + number(2) + number(5) + number(6) + number(1) + number(7) + number(0)) == [5, 6, 7]


@pytest.mark.parametrize(
    ("schema", "content", "sentence"),
    [
        (POINT, b"", "field x: the bytes end in the middle of a number"),
        (POINT, number(2**40) + number(0), "field x: a number has more than 32 bits"),
        (POINT, number(1) + number(9) + b"abc", "field s: 9 bytes are claimed where 3 are left"),
        (POINT, number(1) + number(-1), "field s: -1 bytes are claimed"),
        (POINT, number(1) + number(1) + b"\xff", "field s: a string is not UTF-8"),
        (POINT, number(1) + number(0) + b"x", "1 bytes are left after the last field"),
        ('"long"', b"\xff" * 11, "more than 64 bits"),
        ('"long"', b"\xff" * 9 + b"\x7f", "more than 64 bits"),
        ('"boolean"', b"\2", "neither 0 nor 1"),
        ('"double"', b"\0" * 7, "8 bytes are claimed where 7 are left"),
        ('["null", "int"]', number(2), "branch 2 of a union is asked for where there are 2"),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', number(1), "symbol 1 is asked for where there are 1"),
        ('{"type": "array", "items": "int"}', number(2**40), "1099511627776 items are claimed where there is room"),
        ('{"type": "map", "values": "int"}', number(3) + b"\0\0", "3 items are claimed where there is room for 1"),
        (
            '{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}',
            number(EMPTY_ITEMS_SPARE // 2 + 4) * 2,
            "items are claimed where there is room for",
        ),
        (
            '{"type": "bytes", "logicalType": "decimal", "precision": 4}',
            number(33) + b"\0" * 33,
            "a decimal takes 33 bytes",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_field(schema: str, content: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        avro_reader(parse_avro(schema))(content)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("{", "Expecting property name"),
        ('"Nothing"', "type Nothing is not defined"),
        ("7", "7 is no Avro type"),
        ('{"type": "record", "name": "R"}', "has no fields"),
        ('{"type": "record", "name": "R", "fields": [7]}', "no list of fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "has no type"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
            "are not all different",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}',
            "type R contains itself, which no column can hold: set the option recursiveFieldMaxDepth",
        ),
        ('{"type": "record", "name": "", "fields": []}', "has '' for a name"),
        ('{"type": "enum", "name": "E", "symbols": [1]}', "no list of names"),
        ('{"type": "fixed", "name": "F", "size": -1}', "is not from 0 to"),
        ('{"type": "bytes", "logicalType": "decimal"}', "has no precision"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 99}', "does not fit"),
        ('["null"]', "a union without a type"),
        ("[" * 40 + '"int"' + "]" * 40, "nested deeper than 32"),
        ("[" * 100_000, "nested too deep"),
        ("[" + ", ".join(['{"type": "int"}'] * 20_000) + "]", "are more than 10000"),
    ],
)
def test_schemas_that_cannot_be_read_are_refused(schema: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_avro(schema)


LIST = (
    '{"type": "record", "name": "L", "fields": [{"name": "x", "type": "int"}, {"name": "next", "type": ["null", "L"]}]}'
)
TREE = """
{"type": "record", "name": "T", "namespace": "n", "fields": [
    {"name": "name", "type": "string"},
    {"name": "children", "type": {"type": "array", "items": "T"}},
    {"name": "named", "type": {"type": "map", "values": "n.T"}},
    {"name": "other", "type": ["null", "int", "T"]}]}
"""


@pytest.mark.parametrize(
    ("schema", "depth", "words"),
    [
        (LIST, 1, "STRUCT<`x`: INT>"),
        (LIST, 2, "STRUCT<`x`: INT, `next`: STRUCT<`x`: INT>>"),
        (LIST, 3, "STRUCT<`x`: INT, `next`: STRUCT<`x`: INT, `next`: STRUCT<`x`: INT>>>"),
        (TREE, 1, "STRUCT<`name`: STRING, `other`: INT>"),
        (
            TREE,
            2,
            "STRUCT<`name`: STRING, `children`: ARRAY<STRUCT<`name`: STRING, `other`: INT>>, "
            "`named`: MAP<STRING, STRUCT<`name`: STRING, `other`: INT>>, "
            "`other`: STRUCT<`member0`: INT, `member1`: STRUCT<`name`: STRING, `other`: INT>>>",
        ),
    ],
)
def test_a_record_that_contains_itself_is_unfolded_as_spark_does(schema: str, depth: int, words: str) -> None:
    kind = kind_of(parse_avro(schema, depth))
    assert kind is not None
    assert ddl(kind) == words


def test_a_type_with_types_inside_may_stand_in_several_places() -> None:
    inner: dict[str, Any] = {"type": "record", "name": "B", "fields": [{"name": "n", "type": "int"}]}
    outer: dict[str, Any] = {"type": "record", "name": "A", "fields": [{"name": "b", "type": inner}]}
    both = {"type": "record", "name": "R", "fields": [{"name": "x", "type": outer}, {"name": "y", "type": "A"}]}
    plan = parse_avro(json.dumps(both))
    assert avro_reader(plan)(number(1) + number(2)) == (((1,),), ((2,),))
    around = {"name": "next", "type": ["null", "A"]}
    recursive = outer | {"fields": [*outer["fields"], around]}
    assert avro_reader(parse_avro(json.dumps(recursive), 2))(b"\x02\x02\x04\x02\x06\x00") == ((1,), ((2,),))
    with pytest.raises(ValueError, match="type B is defined twice"):
        parse_avro(json.dumps([both, inner | {"fields": []}]))


def chain(length: int) -> bytes:
    return b"".join(number(x) + number(int(x < length - 1)) for x in range(length))


def test_what_is_deeper_than_the_type_is_read_and_left_out() -> None:
    for depth, value in ((1, (0,)), (2, (0, (1,))), (3, (0, (1, (2,))))):
        read = avro_reader(parse_avro(LIST, depth))
        assert read(chain(50)) == value
        assert read(chain(depth)) == value
    assert avro_reader(parse_avro(LIST, 3))(chain(1)) == (0, None)
    leaf = number(1) + b"l" + number(0) * 2 + number(1) + number(7)
    items = number(2) + leaf * 2 + number(0)
    tree = number(1) + b"r" + items + number(1) + number(1) + b"k" + leaf + number(0) + number(2) + leaf
    assert avro_reader(parse_avro(TREE, 1))(tree) == ("r", None)
    assert avro_reader(parse_avro(TREE, 2))(tree) == ("r", [("l", 7)] * 2, [("k", ("l", 7))], (None, ("l", 7)))


def test_a_value_is_read_only_so_deep_however_often_one_came_before() -> None:
    read = avro_reader(parse_avro(LIST, 1))
    for _ in range(3):
        with pytest.raises(ValueError, match=f"L is nested more than {LEVELS_MAX} levels deeper than it is unfolded"):
            read(chain(1_000_000))
        assert read(chain(LEVELS_MAX + 1)) == (0,)
    wide = LIST
    for number_of in range(12):
        wide = wide.replace(
            '"L"]',
            f'{{"type": "record", "name": "W{number_of}", "fields": [{{"name": "w", "type": ["null", "L"]}}]}}]',
            1,
        )
    with pytest.raises(ValueError, match="records are nested too deep"):
        avro_reader(parse_avro(wide, 1))(b"\2" * 1_000_000)


def test_a_tree_that_would_be_unfolded_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 10000, unfolded: set recursiveFieldMaxDepth to less"):
        parse_avro(TREE, 15)


def test_items_without_bytes_are_bounded_for_the_whole_value() -> None:
    """Three bytes claim thousands of items, in each of many arrays."""
    inner = '{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}'
    read = avro_reader(parse_avro(f'{{"type": "array", "items": {inner}}}'))
    bomb = number(1000) + (number(1000) + number(0)) * 1000 + number(0)
    with pytest.raises(ValueError, match="1000 items are claimed where there is room for"):
        read(bomb)
    assert read(number(2) + (number(5) + number(0)) * 2 + number(0)) == [[()] * 5] * 2
