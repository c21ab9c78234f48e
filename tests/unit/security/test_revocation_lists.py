"""Revocation lists as files: issuer and next update, and whatever is none is a ProtocolError."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from tests.support.revocation import DAY, revocation_list

from hutong.foundation.errors import ProtocolError
from hutong.security.revocation_lists import next_update_ms, revocation_lists_in

AUTHORITY = trustme.CA()
PEM = revocation_list(AUTHORITY, lasts=5 * DAY)
(DER,) = revocation_lists_in(PEM)


def test_the_next_update_is_told_with_the_issuer() -> None:
    issuer, end_ms = next_update_ms(DER)
    assert issuer in x509.load_pem_x509_certificate(AUTHORITY.cert_pem.bytes()).subject.public_bytes()
    expected = datetime.now(UTC) + timedelta(days=4)
    assert end_ms is not None
    assert abs(end_ms / 1000 - expected.timestamp()) < 3600


def test_a_list_without_an_end_counts_for_ever() -> None:
    algorithm, issuer, update = b"\x30\x00", b"\x30\x02\x05\x00", b"\x17\x0d260101000000Z"
    signed = algorithm + issuer + update
    whole = b"\x30" + bytes((len(signed) + 2,)) + b"\x30" + bytes((len(signed),)) + signed
    assert next_update_ms(whole) == (b"\x05\x00", None)


def test_several_lists_may_stand_in_one_file() -> None:
    assert revocation_lists_in(PEM + b"# of another authority\n" + PEM) == [DER, DER]


@pytest.mark.parametrize(
    ("pem", "sentence"),
    [
        (b"", "without a revocation list"),
        (b"0\x82\x01", "without a revocation list"),
        (AUTHORITY.cert_pem.bytes(), "without a revocation list"),
        (PEM + AUTHORITY.cert_pem.bytes(), "more than revocation lists"),
        (PEM[:200], "cut off"),
        (PEM.replace(b"\n-----END", b"A\n-----END"), "no base64"),
    ],
)
def test_other_files_are_refused(pem: bytes, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        [next_update_ms(each) for each in revocation_lists_in(pem)]


@given(st.integers(0, len(DER) - 1), st.integers(0, 255))
def test_a_byte_that_is_wrong_is_a_protocol_error_at_most(place: int, value: int) -> None:
    with suppress(ProtocolError):
        next_update_ms(DER[:place] + bytes((value,)) + DER[place + 1 :])


@given(st.binary(max_size=100))
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        next_update_ms(data)
