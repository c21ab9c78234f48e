import json

import pytest

from hutong.bus.sockjs.web.frames import decode_messages, encode_close, encode_messages, encode_text


def test_messages_of_a_frame_survive_as_they_are() -> None:
    texts = ["", 'a"b\\c', "line\nend", "ü", "\U0001f600", "\x00\x1f\x7f", "\u2028\u200d\ufffe"]
    frame = encode_messages([text.encode() for text in texts])
    assert frame[0] == "a"
    assert json.loads(frame[1:]) == texts


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\u200c", '"\\u200c"'),
        ("\u2028", '"\\u2028"'),
        ("\ufff0", '"\\ufff0"'),
        ("\U0001f600", '"\\ud83d\\ude00"'),
        ("\x00", '"\\u0000"'),
    ],
)
def test_what_browsers_and_proxies_break_leaves_as_escapes(text: str, escaped: str) -> None:
    assert encode_text(text) == escaped


def test_a_close_frame_carries_code_and_reason() -> None:
    assert encode_close(3000, "Go away!") == 'c[3000,"Go away!"]'


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b'["a","b"]', ["a", "b"]),
        (b'"a"', ["a"]),
        (b"[]", []),
        ('["\\ud83d\\ude00"]', ["\U0001f600"]),
        ('["\\ud800"]', ["\ud800"]),
    ],
)
def test_clients_send_an_array_of_strings_or_one(data: bytes | str, texts: list[str]) -> None:
    assert decode_messages(data) == texts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b'["a"',
        b"[1]",
        b"{}",
        b"null",
        b'["a",["b"]]',
        b'["\xff"]',
        b"[" * 100_000,
        b"[" + b"9" * 10_000 + b"]",
    ],
)
def test_anything_else_is_no_message(data: bytes) -> None:
    assert decode_messages(data) is None
