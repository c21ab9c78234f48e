"""Frames to bridge clients, byte for byte as Vert.x 4.5 writes them where it writes them at all."""

from typing import Any

import pytest

from hutong.wire.vertx.codes import Code, Dialect
from hutong.wire.vertx.server_frames import (
    PONG,
    FrameEncoder,
    Unencodable,
    encode_error,
    encode_failure,
    encode_message,
)

TCP, SOCKJS = Dialect.TCP, Dialect.SOCKJS


def test_tcp_messages_are_those_of_vertx() -> None:
    request = (
        b'{"type":"message","address":"svc","replyAddress":"__vertx.reply.19","headers":{"k":"v"},"body":"q",'
        b'"send":true}'
    )
    assert encode_message(TCP, "svc", "q", [("k", "v")], "__vertx.reply.19") == request
    published = b'{"type":"message","address":"a.b","headers":{"q":"1"},"body":{"x":1},"send":false}'
    assert encode_message(TCP, "a.b", {"x": 1}, [("q", "1")], is_send=False) == published
    assert encode_message(TCP, "r1", None) == b'{"type":"message","address":"r1","headers":{},"send":true}'
    assert encode_message(TCP, "a", 1, [("k", "v"), ("k", "w")]).count(b'"k":"w"') == 1


def test_sockjs_messages_are_those_of_vertx() -> None:
    assert encode_message(SOCKJS, "a", None) == b'{"type":"rec","address":"a","body":null}'
    full = b'{"type":"rec","address":"a","replyAddress":"r","headers":{"k":["v","w"],"l":"x"},"body":1}'
    assert encode_message(SOCKJS, "a", 1, [("k", "v"), ("l", "x"), ("k", "w")], "r") == full


def test_failures_of_requests() -> None:
    tcp = (
        b'{"type":"err","address":"r1","sourceAddress":"nobody","failureCode":-1,"failureType":"NO_HANDLERS",'
        b'"message":"No handlers for address nobody"}'
    )
    text = "No handlers for address nobody"
    assert encode_failure(TCP, "r1", "nobody", -1, "NO_HANDLERS", text) == tcp
    assert encode_failure(SOCKJS, "r1", "nobody", -1, "NO_HANDLERS", text) == tcp.replace(
        b'"sourceAddress":"nobody",', b""
    )
    assert b"?" in encode_failure(TCP, "r", "a", 1, "ERROR", "\ud800")


def test_refusals_carry_their_code_where_each_bridge_has_it() -> None:
    assert encode_error(TCP, Code.MISSING_ADDRESS) == b'{"type":"err","message":"missing_address"}'
    assert encode_error(SOCKJS, Code.MISSING_ADDRESS) == b'{"type":"err","body":"missing_address"}'
    assert encode_error(TCP, Code.ACCESS_DENIED, "a", "r") == (
        b'{"type":"err","address":"r","sourceAddress":"a","failureCode":-1,"failureType":"ERROR","message":"access_denied"}'
    )
    assert encode_error(SOCKJS, Code.ACCESS_DENIED, "a", "r") == (
        b'{"type":"err","address":"r","failureCode":-1,"failureType":"ERROR","message":"access_denied","body":"access_denied"}'
    )
    assert PONG == b'{"type":"pong"}'


def test_values_that_json_has_no_word_for() -> None:
    assert b'"body":"YWI="' in encode_message(TCP, "a", b"ab")
    assert b'"body":null' in encode_message(SOCKJS, "a", float("nan"))


def endless() -> list[Any]:
    body: list[Any] = []
    body.append(body)
    return body


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "body",
    [object(), "\ud800", {"\ud800": 1}, endless(), {(1, 2): 3}],
    ids=["object", "surrogate", "surrogate-key", "endless", "tuple-key"],
)
def test_what_cannot_be_written_is_told(dialect: Dialect, body: object) -> None:
    with pytest.raises(Unencodable):
        encode_message(dialect, "a", body)
    with pytest.raises(Unencodable):
        encode_message(dialect, "a", 1, [("h", "\ud800")])


@pytest.mark.parametrize("dialect", Dialect)
def test_a_publication_is_written_once_and_everything_else_each_time(dialect: Dialect) -> None:
    encoder, body = FrameEncoder(dialect), {"a": [1]}
    first = encoder.encode("news", body, (), None, is_send=False)
    assert first == encode_message(dialect, "news", body, is_send=False)
    assert encoder.encode("news", body, (), None, is_send=False) is first
    for address, other, headers in (
        ("more", body, ()),
        ("news", {"a": [1]}, ()),
        ("news", body, (("h", "v"),)),
        ("news", body, ()),
    ):
        frame = encoder.encode(address, other, headers, None, is_send=False)
        assert frame is not first
        assert frame == encode_message(dialect, address, other, headers, is_send=False)
    assert encoder.encode("news", body, (), "r", is_send=True) == encode_message(dialect, "news", body, (), "r")


def test_what_could_not_be_written_is_not_remembered() -> None:
    encoder, body = FrameEncoder(TCP), object()
    for _ in range(2):
        with pytest.raises(Unencodable):
            encoder.encode("news", body, (), None, is_send=False)
    assert encoder.encode("news", None, (), None, is_send=False) == encode_message(TCP, "news", None, is_send=False)
