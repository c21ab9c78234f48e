"""Schemas for people: indented, and compared line by line."""

import pytest

from hutong.console.schemas.difference import LINES_MAX, SCHEMA_CHARS_MAX, difference, formatted

PROTO = 'syntax = "proto3";\nmessage A {}\n'


def test_layout_makes_no_difference() -> None:
    close, wide = '{"type":"record","fields":[{"name":"a"}]}', '{ "type": "record",\n "fields": [ {"name": "a"} ] }'
    before, after = (formatted(each, "AVRO")[0] for each in (close, wide))
    assert before == after == '{\n  "type": "record",\n  "fields": [\n    {\n      "name": "a"\n    }\n  ]\n}'
    assert difference(before, after)["changed"] == 0


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (PROTO, "PROTOBUF"),
        ("{broken", "AVRO"),
        ("[" * 5_000, "JSON"),
        ("\ud800".encode("utf-8", "replace").decode(), "JSON"),
    ],
)
def test_what_is_no_json_stays_as_it_is(schema: str, kind: str) -> None:
    assert formatted(schema, kind) == (schema, True)


def test_long_schemas_are_cut() -> None:
    text, is_whole = formatted("x" * (SCHEMA_CHARS_MAX + 1), "PROTOBUF")
    assert (len(text), is_whole) == (SCHEMA_CHARS_MAX, False)
    assert formatted('["' + "x" * SCHEMA_CHARS_MAX + '"]', "AVRO")[1] is False


def test_lines_that_come_and_go() -> None:
    told = difference("a\nb\nc", "a\nB\nc\nd")
    assert [(line["kind"], line["text"]) for line in told["lines"]] == [
        ("same", "a"),
        ("removed", "b"),
        ("added", "B"),
        ("same", "c"),
        ("added", "d"),
    ]
    assert (told["changed"], told["is_cut"]) == (3, False)


def test_many_lines_are_cut() -> None:
    told = difference("a\n" * (LINES_MAX + 1), "a\n" * LINES_MAX)
    assert (told["is_cut"], told["changed"], len(told["lines"])) == (True, 0, LINES_MAX)
