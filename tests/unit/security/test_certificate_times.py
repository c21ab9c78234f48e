"""Until when certificates are valid; whatever is no certificate is a ProtocolError."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.security.certificate_times import expires_at_ms

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])


def certificate_until(end: datetime) -> bytes:
    builder = x509.CertificateBuilder().subject_name(NAME).issuer_name(NAME).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(end)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize("year", [2021, 2030, 2049, 2050, 2200])
def test_the_end_is_told_in_both_of_its_forms(year: int) -> None:
    end = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert expires_at_ms(certificate_until(end)) == int(end.timestamp()) * 1000


WHOLE = certificate_until(datetime(2030, 1, 1, tzinfo=UTC))


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_byte_that_is_wrong_is_a_protocol_error_at_most(place: int, value: int) -> None:
    with suppress(ProtocolError):
        expires_at_ms(WHOLE[:place] + bytes((value,)) + WHOLE[place + 1 :])


@given(st.binary(max_size=100))
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        expires_at_ms(data)
