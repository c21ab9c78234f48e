"""Frames of bridge clients: what is read from them, and the code of each way to be wrong."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.wire.vertx import client_frames
from hutong.wire.vertx.client_frames import (
    CONTAINERS_MAX,
    DEPTH_MAX,
    EXPONENTS_MAX,
    HEADER_CHARACTERS_MAX,
    HEADERS_MAX,
    TIMEOUT_MS_MAX,
    ClientFrame,
    FrameKind,
    Malformed,
    decode,
    is_vast,
)
from hutong.wire.vertx.codes import Code, Dialect


def read(**members: Any) -> ClientFrame | Malformed:
    return decode(json.dumps(members).encode(), Dialect.TCP)


def test_a_request_is_read_with_its_headers_and_options() -> None:
    frame = read(
        type="send",
        address="orders",
        replyAddress="r",
        headers={"a": "b", "n": 5, "f": 1.5, "t": True, "l": ["x", "y"], "timeout": 200, "localOnly": True},
        body={"k": [1, None]},
        other="ignored",
    )
    pairs = (("a", "b"), ("n", "5"), ("f", "1.5"), ("t", "true"), ("l", "x"), ("l", "y"))
    assert frame == ClientFrame(FrameKind.SEND, "orders", "r", pairs, {"k": [1, None]}, None, 200, True)


def test_options_may_be_written_as_text() -> None:
    frame = read(type="send", address="a", headers={"timeout": "200", "localOnly": "false", "codecName": "c"})
    assert frame == ClientFrame(FrameKind.SEND, "a", timeout_ms=200, codec_name="c")


def test_a_failed_reply_is_read() -> None:
    frame = read(type="send", address="__hutong.reply.1", failureCode=42, message="no")
    assert frame == ClientFrame(FrameKind.SEND, "__hutong.reply.1", failure=(42, "no"))
    assert read(type="send", address="a", failureCode=0) == ClientFrame(FrameKind.SEND, "a", failure=(0, ""))


@pytest.mark.parametrize("kind", list(FrameKind))
def test_every_kind_is_known(kind: FrameKind) -> None:
    frame = read(type=kind.value, address="a")
    assert isinstance(frame, ClientFrame)
    assert frame.kind is kind


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b'"ping"',
        b"null",
        b'{"type":"ping"} x',
        b'{"type":"send","address":"a","body":NaN}',
        b'{"type":"send","address":"a","body":1e999}',
        b'{"type":"send","address":"a","body":"\\ud800"}',
        b'{"type":"send","address":"a","body":"\\udc00\\ud800"}',
        b'{"type":"send","address":"\\ud800"}',
        b'{"type":"send","address":"a","body":"\xff"}',
        b'{"type":"send","address":"a","body":' + b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1) + b"}",
        b'{"type":"send","address":"a","body":' + b'{"a":' * (DEPTH_MAX + 1) + b"1" + b"}" * (DEPTH_MAX + 1) + b"}",
        b'{"type":"send","address":"a","body":' + b"[" * 100_000 + b"}",
        b'{"type":"send","address":"a","body":' + b"9" * 100_000 + b"}",
    ],
    ids=lambda data: bytes(data[:60]).decode(errors="replace"),
)
def test_what_is_no_json_object_within_the_bounds(data: bytes) -> None:
    assert decode(data, Dialect.TCP) == Malformed(Code.INVALID_JSON)
    assert decode(data, Dialect.SOCKJS) == Malformed(Code.INVALID_JSON)


@pytest.mark.parametrize("dialect", Dialect)
def test_depth_in_a_member_that_is_not_read_is_refused_or_skipped(dialect: Dialect) -> None:
    """Python 3.14 bounds recursion in C by the stack that there is, and not by a count of calls."""
    data = b'{"type":"send","address":"a","other":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert decode(data, dialect) in (Malformed(Code.INVALID_JSON), ClientFrame(FrameKind.SEND, "a"))


def test_text_and_views_are_read_like_bytes() -> None:
    text = '{"type":"publish","address":"ä","body":"ü"}'
    wanted = ClientFrame(FrameKind.PUBLISH, "ä", body="ü")
    assert decode(text, Dialect.SOCKJS) == wanted
    assert decode(text.encode(), Dialect.TCP) == wanted
    assert decode(memoryview(text.encode()), Dialect.TCP) == wanted
    assert decode("\ud800", Dialect.SOCKJS) == Malformed(Code.INVALID_JSON)


EXPONENTS = b",".join([b"1e300"] * 300)


def test_many_large_numbers_are_read_alike() -> None:
    frame = decode(b'{"type":"send","address":"a","x":1,"body":[' + EXPONENTS + b',"\xc3\xa4",1e2]}', Dialect.TCP)
    assert frame == ClientFrame(FrameKind.SEND, "a", body=[*[1e300] * 300, "ä", 100.0])
    assert frame == decode('{"type":"send","address":"a","body":[' + EXPONENTS.decode() + ',"ä",1e2]}', Dialect.TCP)


@pytest.mark.parametrize(
    "wrong", [b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b'"\xff"', b"[" * 500 + b"]" * 500, b"9" * 5000, b"1 2"]
)
def test_and_what_is_wrong_beside_them_is_refused_alike(wrong: bytes) -> None:
    data = b'{"type":"send","address":"a","body":[' + EXPONENTS + b"," + wrong + b"]}"
    assert decode(data, Dialect.TCP) == Malformed(Code.INVALID_JSON)
    assert decode(b"[" + EXPONENTS + b"]", Dialect.TCP) == Malformed(Code.INVALID_JSON)


LARGE = 256 * 1024


@pytest.mark.parametrize(
    "piece", [b"1e300,", b"5e-324,", b'{"name":"x","values":[1,2]},', b"1,", b'"",', b"9" * 4000 + b","]
)
def test_msgspec_reads_few_exponents_of_any_frame(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes up to 17 us for each of them: 0.6 s for the first of these frames."""
    read_by_msgspec = b""

    def noting(data: bytes) -> Any:
        nonlocal read_by_msgspec
        read_by_msgspec = data
        return quick_decode(data)

    quick_decode = client_frames._decode
    monkeypatch.setattr(client_frames, "_decode", noting)
    data = b'{"type":"send","address":"a","body":[' + piece * (LARGE // len(piece)) + b"0]}"
    assert isinstance(decode(data, Dialect.TCP), ClientFrame)
    assert read_by_msgspec in (b"", data)
    assert read_by_msgspec.lower().count(b"e+") + len(re.findall(rb"\de-?\d", read_by_msgspec)) <= EXPONENTS_MAX


def test_depth_is_bounded_exactly() -> None:
    for depth, is_fine in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False)):
        body = b"[" * depth + b"]" * depth
        frame = decode(b'{"type":"send","address":"a","body":' + body + b"}", Dialect.TCP)
        assert isinstance(frame, ClientFrame) is is_fine
    wide = decode(b'{"type":"send","address":"a","body":[' + b"[]," * 500 + b"[]]}", Dialect.TCP)
    assert isinstance(wide, ClientFrame)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"address": "a"}, Code.MISSING_TYPE),
        ({"type": None, "address": "a"}, Code.MISSING_TYPE),
        ({"type": "foo", "address": "a"}, Code.UNKNOWN_TYPE),
        ({"type": "message", "address": "a"}, Code.UNKNOWN_TYPE),
        ({"type": 5, "address": "a"}, Code.UNKNOWN_TYPE),
        ({"type": ["send"], "address": "a"}, Code.UNKNOWN_TYPE),
        ({"type": "send"}, Code.MISSING_ADDRESS),
        ({"type": "register", "address": None}, Code.MISSING_ADDRESS),
        ({"type": "publish", "address": ""}, Code.MISSING_ADDRESS),
        ({"type": "send", "address": 5}, Code.MISSING_ADDRESS),
        ({"type": "send", "address": "a", "replyAddress": ""}, Code.INVALID_REPLY_ADDRESS),
        ({"type": "send", "address": "a", "replyAddress": {}}, Code.INVALID_REPLY_ADDRESS),
        ({"type": "send", "address": "a", "headers": []}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": "h"}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": ["h"]}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"h": None}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"h": {"i": 1}}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"h": [["i"]]}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"h": 2**70}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"h": "v" * HEADER_CHARACTERS_MAX}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": dict.fromkeys(map(str, range(HEADERS_MAX + 1)), "")},
         Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"timeout": 0}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"timeout": TIMEOUT_MS_MAX + 1}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"timeout": "soon"}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"timeout": True}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"timeout": 1.5}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"localOnly": "perhaps"}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"localOnly": [1]}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "headers": {"codecName": 5}}, Code.INVALID_HEADERS),
        ({"type": "send", "address": "a", "failureCode": "x"}, Code.INVALID_FAILURE),
        ({"type": "send", "address": "a", "failureCode": True}, Code.INVALID_FAILURE),
        ({"type": "send", "address": "a", "failureCode": 2**40}, Code.INVALID_FAILURE),
        ({"type": "send", "address": "a", "failureCode": 1, "message": 5}, Code.INVALID_FAILURE),
    ],
)  # fmt: skip
def test_each_way_to_be_wrong_has_its_code(members: dict[str, Any], code: Code) -> None:
    answer = read(**members)
    assert isinstance(answer, Malformed)
    assert answer.code is code


def test_sockjs_has_its_own_word_for_an_unknown_type() -> None:
    assert decode('{"type":"foo"}', Dialect.SOCKJS) == Malformed(Code.INVALID_TYPE)


def test_a_malformed_request_is_known_by_its_addresses() -> None:
    answer = read(type="send", address="a", replyAddress="r", headers={"timeout": 0})
    assert answer == Malformed(Code.INVALID_HEADERS, "a", "r")


json_values = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**65, 1.5, "", "a", "ä", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "timeout"]), inner),
    max_leaves=5,
)
names = st.sampled_from(["type", "address", "replyAddress", "headers", "body", "failureCode", "message", "x"])
envelopes = st.dictionaries(names, json_values | st.sampled_from(["send", "publish", "register"]))


@given(st.binary() | envelopes.map(lambda value: json.dumps(value).encode()), st.sampled_from(Dialect))
def test_nothing_a_client_sends_raises(data: bytes, dialect: Dialect) -> None:
    assert isinstance(decode(data, dialect), ClientFrame | Malformed)


@given(json_values)
def test_bodies_arrive_as_they_are(body: Any) -> None:
    frame = read(type="send", address="a", body=body)
    assert isinstance(frame, ClientFrame)
    assert frame.body == body


def test_vastness_is_bounded_exactly_and_without_recursion() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert is_vast([deep])
    assert not is_vast([[[]] * (CONTAINERS_MAX - 1), 1, "x"])
    assert is_vast([[[]] * CONTAINERS_MAX])
    assert is_vast([{str(number): {} for number in range(CONTAINERS_MAX)}])
