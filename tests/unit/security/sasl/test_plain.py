"""PLAIN: one message, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.security.sasl.plain import PlainExchange
from hutong.security.sasl.steps import CheckPassword, Rejected, SaslFault


@pytest.mark.parametrize("authorization", [b"", b"alice"])
def test_user_and_password_are_handed_on(authorization: bytes) -> None:
    step = PlainExchange().respond(authorization + b"\0alice\0se cret\xff")
    assert step == CheckPassword("alice", b"se cret\xff")
    assert "se cret" not in repr(step)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"", SaslFault.MALFORMED),
        (b"alice\0secret", SaslFault.MALFORMED),
        (b"\0alice\0secret\0", SaslFault.MALFORMED),
        (b"\0\0secret", SaslFault.MALFORMED),
        (b"\0alice\0", SaslFault.MALFORMED),
        (b"\0\xff\0secret", SaslFault.MALFORMED),
        (b"bob\0alice\0secret", SaslFault.PRINCIPAL),
    ],
)
def test_what_is_refused(message: bytes, fault: SaslFault) -> None:
    step = PlainExchange().respond(message)
    assert isinstance(step, Rejected)
    assert step.fault is fault


def test_there_is_one_message() -> None:
    exchange = PlainExchange()
    exchange.respond(b"\0alice\0secret")
    step = exchange.respond(b"\0alice\0secret")
    assert isinstance(step, Rejected)
    assert step.fault is SaslFault.STATE


@given(st.binary(max_size=100))
def test_anything_is_answered(message: bytes) -> None:
    assert isinstance(PlainExchange().respond(message), CheckPassword | Rejected)
