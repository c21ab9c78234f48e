"""Request ids: made, taken apart, and refused where they are none."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import ProtocolError
from hutong.rpc.delivery.caller.session_ids import SessionIds, new_request_id
from hutong.rpc.delivery.ids import (
    SEQUENCE_MAX,
    CallId,
    parse_acked_below,
    parse_request_id,
    session_ms,
)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_a_session_is_a_uuid_of_version_7_that_says_when(now_ms: int, chance: int) -> None:
    session = SessionIds(ManualClock(wall_ms=now_ms), lambda bits: chance & (1 << bits) - 1).make()
    parsed = uuid.UUID(hex=session)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert session_ms(session) == now_ms
    assert session == parsed.hex
    number = parsed.int
    assert (number >> 64 & 0xFFF) << 62 | number & (1 << 62) - 1 == chance


@given(st.integers(0, SEQUENCE_MAX))
def test_a_request_id_comes_back(sequence: int) -> None:
    call = CallId("0" * 31 + "a", sequence)
    assert parse_request_id(str(call)) == call


@given(st.text(alphabet="0123456789abcdefABCDEF/-\u0661 \n", max_size=60) | st.text(max_size=50))
def test_what_is_no_request_id_is_refused(text: str) -> None:
    try:
        call = parse_request_id(text)
    except ProtocolError:
        return
    assert str(call) == text


@pytest.mark.parametrize("text", ["", "-1", "01", "1 ", "1" * 17, str(SEQUENCE_MAX + 1), "x", "1"])
def test_an_acknowledgement_is_a_number(text: str) -> None:
    if text == "1":
        assert parse_acked_below(text) == 1
    else:
        with pytest.raises(ProtocolError):
            parse_acked_below(text)
    assert parse_acked_below(None) == 0


def test_an_applications_own_id_is_one_of_its_own_session() -> None:
    first, second = parse_request_id(new_request_id()), parse_request_id(new_request_id())
    assert first.session != second.session
    assert first.sequence == 0
