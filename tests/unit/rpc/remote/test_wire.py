"""Heads of calls and answers: round trips, any bytes, and the bounds of what is remembered."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.rpc.errors import Failure
from hutong.rpc.remote import wire

TEXTS = st.text(max_size=40)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=20).map(tuple)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS, st.lists, max_leaves=5)
OF_A_SERVICE = wire.encode_pairs([("k", "service")])


@given(PAIRS)
def test_fields_keep_order_and_repetitions(pairs: wire.Pairs) -> None:
    assert wire.decode_pairs(wire.encode_pairs(pairs)) == pairs


@given(TEXTS, TEXTS, st.none() | st.integers(0, wire.TIMEOUT_MS_MAX), PAIRS)
def test_a_call_is_read_as_it_was_written(address: str, action: str, timeout_ms: int | None, headers: Any) -> None:
    head = wire.decode_call(wire.encode_call(address, action, timeout_ms, headers))
    assert (head.address, head.action, head.timeout_ms, head.headers) == (address, action, timeout_ms, headers)


@given(
    st.sampled_from(wire.FailureKind), st.integers(-(2**31), 2**31 - 1), TEXTS, st.none() | st.dictionaries(TEXTS, JSON)
)
def test_a_failure_is_read_as_it_was_written(kind: wire.FailureKind, code: int, message: str, debug_info: Any) -> None:
    failure = Failure(code, message, debug_info)
    block, remark, body = wire.encode_failure(failure, kind)
    assert wire.decode_failure(block, remark.decode(), body) == (kind, failure)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(block: bytes, body: bytes) -> None:
    readers: tuple[Callable[[], object], ...] = (
        lambda: wire.decode_call(block),
        lambda: wire.decode_headers(block),
        lambda: wire.decode_failure(block, None, body),
    )
    for read in readers:
        try:
            read()
        except ProtocolError:
            continue


@given(PAIRS, st.integers(0, 400), st.integers(0, 255))
def test_one_byte_changed_is_read_or_refused(pairs: wire.Pairs, at: int, byte: int) -> None:
    block = bytearray(wire.encode_pairs((("s", "orders"), ("a", "place"), *pairs)))
    block[at % len(block)] = byte
    try:
        wire.decode_call(bytes(block))
    except ProtocolError:
        return


@pytest.mark.parametrize(
    "block",
    [
        b"\x00",
        b"\xff\xff",
        b"\x00\x01s\x7f\xff\xff\xffx",
        b"\x00\x01s\xff\xff\xff\xff",
        b"\x7f\xffs",
        b"\x00\x01\xff\x00\x00\x00\x00",
        wire.encode_pairs([("s", "orders")]),
        wire.encode_pairs([("a", "place")]),
        wire.encode_pairs([("s", "orders"), ("a", "place"), ("t", "-1")]),
        wire.encode_pairs([("s", "orders"), ("a", "place"), ("t", "1" * 19)]),
        wire.encode_pairs([("s", "orders"), ("a", "place"), ("t", "\u0661")]),
        wire.encode_pairs([("s", "orders"), ("a", "place")] + [("h.x", "")] * wire.FIELDS_MAX),
        wire.encode_pairs([("s", "x" * wire.HEAD_BYTES_MAX), ("a", "place")]),
    ],
)
def test_a_head_that_lies_is_refused(block: bytes) -> None:
    with pytest.raises(ProtocolError):
        wire.decode_call(block)


def test_a_failure_with_a_body_that_is_no_map_is_refused() -> None:
    for body in (b"\x93\x01\x02", b"\xc1", b"\x91" * 100_000):
        with pytest.raises(ProtocolError):
            wire.decode_failure(OF_A_SERVICE, "text", body)


@pytest.mark.parametrize("code", ["", "x", "9" * 10_000, str(2**31)])
def test_a_failure_with_a_code_that_is_none_is_refused(code: str) -> None:
    with pytest.raises(ProtocolError):
        wire.decode_failure(OF_A_SERVICE + wire.encode_pairs([("c", code)]), None, b"")
    with pytest.raises(ProtocolError):
        wire.decode_failure(wire.encode_pairs([("k", "nobody knows")]), None, b"")


def test_debug_info_that_cannot_be_encoded_is_left_out() -> None:
    block, remark, body = wire.encode_failure(Failure(17, "out of stock", {"cause": object()}))
    assert wire.decode_failure(block, remark.decode(), body) == (wire.FailureKind.SERVICE, Failure(17, "out of stock"))


def test_a_long_message_is_cut_between_characters() -> None:
    _, remark, _ = wire.encode_failure(Failure(17, "\u20ac" * 10_000))
    assert remark.decode() == "\u20ac" * (wire.REMARK_BYTES_MAX // 3)


def test_a_value_that_cannot_be_encoded_says_why() -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in (object(), 2**64, endless, {"x": {1, object()}}):
        with pytest.raises(ValueError):
            wire.encode_body(value)


def test_what_is_longer_than_allowed_is_not_sent() -> None:
    with pytest.raises(ValueError, match="are allowed"):
        wire.encode_call("orders", "place", 1000, [("name", "x" * 1000)] * 17)
    with pytest.raises(ValueError, match="longer than"):
        wire.encode_call("x" * 40_000, "place", 1000)


def test_heads_are_decoded_once() -> None:
    heads = wire.Heads()
    block = wire.encode_call("orders", "place", 1000)
    assert heads.read(block) is heads.read(bytes(bytearray(block)))


def test_what_differs_with_each_call_is_not_remembered() -> None:
    heads = wire.Heads()
    constant = wire.encode_call("orders", "place", 1000)
    for number in range(100):
        head = heads.read(constant + wire.encode_headers([("request-id", f"a/{number}")]))
        assert head.headers == (("request-id", f"a/{number}"),)
    assert len(heads) == 0


def test_memory_of_heads_is_bounded_by_count_and_size() -> None:
    heads = wire.Heads(maximum=8)
    for number in range(100):
        heads.read(wire.encode_call("orders", f"place{number}", 1000))
        assert len(heads) <= 8
    newest = wire.encode_call("orders", "place99", 1000)
    assert heads.read(newest) is heads.read(newest)
    before = len(heads)
    heads.read(wire.encode_call("orders", "place", 1000, [("long", "x" * wire.REMEMBERED_BYTES_MAX)]))
    assert len(heads) == before
