"""Access keys as a file has them, and the signatures that they make."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.security import access_keys
from hutong.security.access_keys import AccessKeysWrong, is_signed, parse_access_keys

SECRET = b"12345678"


def signed(secret: bytes, values: str, body: bytes = b"") -> str:
    return base64.b64encode(hmac.new(secret, values.encode() + body, hashlib.sha1).digest()).decode()


def test_a_file_has_a_key_in_each_line() -> None:
    text = "# keys\n\n alice = s3cret==\nbob=with=equals=sign\n"
    assert parse_access_keys(text) == {"alice": b"s3cret==", "bob": b"with=equals=sign"}
    assert parse_access_keys("") == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "Line 1 is no"),
        ("\n= 12345678", "Line 2 is no"),
        ("alice = 1234567", "line 1 has not from 8"),
        ("alice = 12345678\nalice = 87654321", "line 2 was there before"),
        ("a" * 2_000 + " = 12345678", "Line 1 is no"),
        ("a = " + "1" * 2_000, "has not from 8 to 1024"),
    ],
)
def test_a_wrong_line_is_named_and_its_secret_is_not(text: str, why: str) -> None:
    with pytest.raises(AccessKeysWrong, match=why) as caught:
        parse_access_keys(text)
    assert "123456" not in str(caught.value)


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_keys, "KEYS_MAX", 1)
    with pytest.raises(AccessKeysWrong, match="more than 1"):
        parse_access_keys("a = 12345678\nb = 12345678")


def test_a_signature_is_over_values_by_name_and_the_body() -> None:
    fields = {"topic": "t", "AccessKey": "alice", "b": "2", "B": "1"}
    right = signed(SECRET, "alice" + "1" + "2" + "t", b"body")
    assert is_signed({"alice": SECRET}, "alice", right, fields, b"body")
    assert not is_signed({"alice": SECRET}, "alice", right, fields, b"other")
    assert not is_signed({"alice": SECRET}, "alice", right, {**fields, "topic": "u"}, b"body")
    assert not is_signed({"alice": b"87654321"}, "alice", right, fields, b"body")
    assert not is_signed({"bob": SECRET}, "alice", right, fields, b"body")
    assert not is_signed({"alice": SECRET}, "alice", "grün", fields, b"body")


def test_no_key_has_the_decoys_secret() -> None:
    shown = signed(access_keys._DECOY, "mallory")
    assert not is_signed({"alice": SECRET}, "mallory", shown, {"AccessKey": "mallory"}, b"")


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_access_keys(text)
    except AccessKeysWrong:
        return
    assert all(key and len(secret) >= access_keys.SECRET_CHARACTERS_MIN for key, secret in found.items())
