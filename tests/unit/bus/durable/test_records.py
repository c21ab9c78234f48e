"""Bodies, headers and dead letters as records, and back."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.bus.durable.records import (
    BODY_DEPTH_MAX,
    ERROR_TEXT_CHARS_MAX,
    Death,
    StoredRecord,
    UnreadableBody,
    dead_letter,
    decode_body,
    decode_headers,
    encode_body,
    encode_headers,
    encode_key,
)
from hutong.foundation.errors import LimitExceeded, UsageError

text = st.text(st.characters(exclude_categories=["Cs"]))
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
)


@given(json_like | st.binary())
def test_a_body_comes_back_as_it_was(body: object) -> None:
    value, content_type = encode_body(body)
    back = decode_body(value, encode_headers([], content_type))
    assert back == body
    assert type(back) is type(body)


@pytest.mark.parametrize(
    "body",
    [
        math.nan,
        [math.inf],
        {1: 2},
        {"a": {"b"}},
        (1, 2),
        object(),
        "\ud800",
        {"a": ["\udfff"]},
        b"x".join,
        {"\ud800": 1},
    ],
)
def test_what_would_not_come_back_is_refused(body: object) -> None:
    with pytest.raises(UsageError):
        encode_body(body)


def test_bytes_of_every_kind_are_bytes() -> None:
    assert encode_body(bytearray(b"a")) == encode_body(memoryview(b"a")) == (b"a", None)


def test_nesting_is_bounded() -> None:
    body: list[object] = []
    for _ in range(BODY_DEPTH_MAX - 1):
        body = [body]
    encode_body(body)
    with pytest.raises(LimitExceeded):
        encode_body([body])


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        (b"{", b"application/json"),
        (b"NaN", b"a/b+json"),
        (b"[" * 100_000, b"application/json"),
        (b"\xff", b"Text/Plain; x"),
    ],
)
def test_a_body_that_is_not_what_it_says(value: bytes, content_type: bytes) -> None:
    with pytest.raises(UnreadableBody, match="the body is no"):
        decode_body(value, [("content-type", content_type)])


@given(st.binary(), st.none() | st.binary())
def test_whatever_lies_in_a_log_is_a_body_or_unreadable(value: bytes, content_type: bytes | None) -> None:
    with contextlib.suppress(UnreadableBody):
        decode_body(value, [("Content-Type", content_type)])


def test_other_content_types_are_bytes() -> None:
    assert decode_body(b"\x00", [("content-type", b"application/x-protobuf")]) == b"\x00"
    assert decode_body(b"\x00", [("content-type", None)]) == b"\x00"


def test_headers_keep_order_and_repetition() -> None:
    pairs = [("a", "1"), ("b", "ü"), ("A", "2")]
    assert decode_headers(encode_headers(pairs, None)) == pairs
    assert encode_headers([("Content-Type", "x"), ("hutong-key", "k")], "text/plain") == [
        ("content-type", b"text/plain")
    ]


def test_headers_have_bounds() -> None:
    with pytest.raises(LimitExceeded, match="headers_bytes_max"):
        encode_headers([("a", "x" * 65_536)], None)
    for pair in (("a", "\ud800"), ("\ud800", "a")):
        with pytest.raises(UsageError, match="surrogate"):
            encode_headers([pair], None)


def test_keys() -> None:
    assert (encode_key(None), encode_key("ü"), encode_key(b"\xff")) == (None, "ü".encode(), b"\xff")
    with pytest.raises(UsageError, match="surrogate"):
        encode_key("\ud800")


def test_a_dead_letter_is_the_record_with_its_death() -> None:
    record = StoredRecord("orders", 3, 17, 1_000, b"k", b"v", [("h", None), ("hutong-dead-group", b"old")], 2)
    letter = dead_letter(record, "orders.dead", Death("billing", "ValueError", "\ud800" + "x" * 10_000, 3, 5, 9))
    assert (letter.topic, letter.key, letter.value, letter.headers[0]) == ("orders.dead", b"k", b"v", ("h", None))
    told = dict(letter.headers)
    assert told["hutong-dead-group"] == b"billing"
    assert told["hutong-dead-offset"] == b"17"
    assert len([name for name, _ in letter.headers if name == "hutong-dead-group"]) == 1
    message = told["hutong-dead-error-message"] or b""
    assert message.startswith(b"\\ud800x")
    assert len(message) < ERROR_TEXT_CHARS_MAX + 10
