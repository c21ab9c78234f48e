"""Handles by which producers recall messages."""

from base64 import urlsafe_b64encode
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.wire.rocketmq.recall_handles import HANDLE_CHARACTERS_MAX, RecallHandle, decode_handle, encode_handle

GOOD = RecallHandle("orders", "hutong", 1_700_000_000_000, "7F0000010BD2")
_part = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1, max_size=50)


def packed(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_rocketmqs() -> None:
    assert encode_handle(GOOD) == packed("v1 orders hutong 1700000000000 7F0000010BD2")


@given(_part, _part, st.integers(0, 10**17), _part)
def test_a_handle_comes_back(topic: str, broker: str, due_ms: int, message_id: str) -> None:
    handle = RecallHandle(topic, broker, due_ms, message_id)
    text = encode_handle(handle)
    assert text is not None
    assert decode_handle(text) == decode_handle(text.rstrip("=")) == handle


@pytest.mark.parametrize(
    "broken", [GOOD._replace(message_id=""), GOOD._replace(message_id="a b"), GOOD._replace(topic="")]
)
def test_what_would_break_a_handle_has_none(broken: RecallHandle) -> None:
    assert encode_handle(broken) is None
    assert encode_handle(GOOD._replace(message_id="x" * HANDLE_CHARACTERS_MAX)) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "é",
        "A",
        packed("v2 a b 1 c"),
        packed("v1 a b 1"),
        packed("v1 a b 1 "),
        "/w==",
        "x" * (HANDLE_CHARACTERS_MAX + 4),
    ],
)
def test_a_broken_handle_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_handle(text)


@pytest.mark.parametrize("due", ["x", "-1", "1_0", "9" * 19])
def test_a_time_that_is_no_number_has_passed(due: str) -> None:
    assert decode_handle(packed(f"v1 a b {due} c more")) == RecallHandle("a", "b", -1, "c")


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_any_text_is_a_handle_or_refused(text: str) -> None:
    with suppress(ProtocolError):
        decode_handle(text)
