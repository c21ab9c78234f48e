"""Bytes as people see them: the form that is chosen, its reason, and what hostile bytes become."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.console.limits import VALUE_BYTES_MAX
from hutong.console.records.decoding.decode import FORMS, PayloadDecoder
from hutong.console.records.decoding.rendering import INDENTED_LEVELS_MAX
from hutong.console.records.decoding.shown import ValueSchema
from hutong.foundation.errors import Refused


class Doubling:
    """A schema that has written every payload twice."""

    type = "AVRO"
    name = "a.Twice"

    def read(self, payload: bytes) -> Any:
        half = payload[: len(payload) // 2]
        if payload != half * 2:
            raise Refused(42201, "the halves differ")
        return {"half": half}


def schema_of(schema_id: int) -> ValueSchema | None:
    return Doubling() if schema_id == 7 else None


DECODER = PayloadDecoder(schema_of)


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "none", ""),
        (b"", "text", ""),
        (b"caf\xc3\xa9\n", "text", "café\n"),
        (b"12", "text", "12"),
        (
            b'{"a":[1,2.10,{}],"a":"\\u00e9"}',
            "json",
            '{\n  "a": [\n    1,\n    2.10,\n    {}\n  ],\n  "a": "\\u00e9"\n}',
        ),
        (b" [ ]", "json", "[]"),
        (b"{not json", "text", "{not json"),
        (b"\x82\xa1a\xc4\x01\xff\x01\xc3", "messagepack", '{\n  "a": 0xff,\n  1: true\n}'),
        (b"\x00\x00\x00\x05", "hex", "00000000  00 00 00 05                                      ...."),
        (b"\x00\x00\x00\x00\x07xx", "avro", '{\n  "half": 0x78\n}'),
    ],
)
def test_a_form_is_chosen(data: bytes | None, form: str, text: str) -> None:
    shown = DECODER.show(data)
    assert (shown.form, shown.text.rstrip(" ")) == (form, text)
    assert shown.is_whole
    assert shown.size_bytes == (-1 if data is None else len(data))


def test_a_schema_is_named() -> None:
    shown = DECODER.show(b"\x00\x00\x00\x00\x07xx")
    assert shown.schema is not None
    assert (shown.schema.id, shown.schema.type, shown.schema.name) == (7, "AVRO", "a.Twice")
    assert shown.why == "it begins with the id of a schema"


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"\x00\x00\x00\x00\x08xx", "It begins as a value of schema 8, which is not known here."),
        (b"\x00\x00\x00\x00\x07xy", "It begins as a value of schema 7, and is none: the halves differ."),
        (b"mostly text \xff, \xe2\x82 and more of it", "What is not UTF-8 is shown as �: 2 times."),
        (b"\xff\xff\xff\xfe", "As a number of 4 bytes it is -2."),
    ],
)
def test_a_note_says_what_was_found(data: bytes, note: str) -> None:
    assert note in DECODER.show(data).notes


@pytest.mark.parametrize(
    ("data", "form", "why"),
    [
        (b"text", "json", "it cannot be shown as json: it is no JSON: JSON is malformed: invalid character (byte 4)"),
        (b"text", "schema", "it cannot be shown as schema: it does not begin with the byte 0 and the id of a schema"),
        (b"{}", "messagepack", "it cannot be shown as messagepack"),
        (b"[" * 100_000, "json", "it cannot be shown as json: it is nested too deep to be shown as JSON"),
        (b"\x91" * 100_000, "messagepack", "it cannot be shown as messagepack: it is nested too deep"),
        (b"x" * (VALUE_BYTES_MAX + 1), "json", "it cannot be shown as json: it is longer than the 1 MiB"),
    ],
)
def test_another_form_than_the_one_asked_for_says_why(data: bytes, form: str, why: str) -> None:
    shown = DECODER.show(data, form)
    assert shown.why.startswith(why)
    assert shown.form in ("text", "hex")


def test_without_a_registry_the_prefix_is_looked_at_as_other_bytes_are() -> None:
    assert PayloadDecoder().show(b"\x00\x00\x00\x00\x07xx").form == "hex"
    assert "no registry" in PayloadDecoder().show(b"\x00\x00\x00\x00\x07xx", "schema").why


def test_a_cut_in_a_character_is_no_fault() -> None:
    shown = DECODER.show("é".encode() * 100, chars_max=99)
    assert (shown.text, shown.notes, shown.is_whole) == ("é" * 49, (), False)


def test_deep_values_do_not_become_long_lines() -> None:
    depth = 900
    text = DECODER.show(b"[" * depth + b"]" * depth, chars_max=1 << 20).text
    assert max(map(len, text.splitlines())) <= 2 * INDENTED_LEVELS_MAX + 2
    text = DECODER.show(b"\x91" * depth + b"\xc1"[:0] + b"\xc0", chars_max=1 << 20).text
    assert max(map(len, text.splitlines())) <= 2 * INDENTED_LEVELS_MAX + 4


@given(st.binary(max_size=2_000), st.sampled_from(FORMS), st.integers(1, 500))
def test_any_bytes_are_shown_within_the_bound(data: bytes, form: str, chars_max: int) -> None:
    shown = DECODER.show(data, form, chars_max)
    assert len(shown.text) <= max(chars_max, 83)
    assert shown.size_bytes == len(data)
    msgspec.json.encode(shown)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=30,
)  # fmt: skip


@given(json_values)
def test_what_is_shown_means_the_same(value: Any) -> None:
    data = json.dumps(value).encode()
    assert json.loads(DECODER.show(data, "json").text) == value
    packed = msgspec.msgpack.encode(value)
    assert json.loads(DECODER.show(packed, "messagepack").text) == value


@given(json_values, st.integers(1, 100))
def test_a_part_is_the_beginning_of_the_whole(value: Any, chars_max: int) -> None:
    for data, form in ((json.dumps(value).encode(), "json"), (msgspec.msgpack.encode(value), "messagepack")):
        whole, part = DECODER.show(data, form), DECODER.show(data, form, chars_max)
        assert whole.text.startswith(part.text)
        assert part.is_whole == (part.text == whole.text)
