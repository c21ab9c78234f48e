"""Subjects of certificates as Java writes them; whatever is no certificate is a ProtocolError."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from hutong.foundation.errors import ProtocolError
from hutong.security.distinguished_names import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
EMAIL = NameOID.EMAIL_ADDRESS


def certificate_of(*parts: list[x509.NameAttribute[str]]) -> bytes:
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def test_the_last_attribute_stands_first() -> None:
    certificate = certificate_of(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "CN")],
        [x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "Beijing")],
        [x509.NameAttribute(NameOID.LOCALITY_NAME, "Dongcheng")],
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hutong")],
        [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops")],
        [x509.NameAttribute(NameOID.COMMON_NAME, "writer")],
    )
    assert subject_of(certificate) == "CN=writer,OU=Ops,O=Hutong,L=Dongcheng,ST=Beijing,C=CN"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Example, Inc.", r"Example\, Inc."),
        ('a=b+c<d>e#f;g"h\\i', r"a\=b\+c\<d\>e\#f\;g\"h\\i"),
        (" both ends ", r"\ both ends\ "),
        ("胡同", "胡同"),
        ("a/b:c@d", "a/b:c@d"),
    ],
)
def test_what_means_something_else_is_escaped(text: str, shown: str) -> None:
    assert subject_of(certificate_of([x509.NameAttribute(NameOID.COMMON_NAME, text)])) == f"CN={shown}"


def test_attributes_without_a_keyword_are_numbers() -> None:
    part = [x509.NameAttribute(EMAIL, "a@b", _ASN1Type.IA5String)]
    assert subject_of(certificate_of(part)) == "1.2.840.113549.1.9.1=#1603614062"


def test_a_part_may_have_several_attributes() -> None:
    several = [x509.NameAttribute(NameOID.COMMON_NAME, "ann"), x509.NameAttribute(NameOID.USER_ID, "7")]
    assert subject_of(certificate_of(several)) in ("CN=ann+UID=7", "UID=7+CN=ann")


def test_a_name_of_other_encodings() -> None:
    wide = x509.NameAttribute(NameOID.COMMON_NAME, "胡同", _ASN1Type.BMPString)
    odd = x509.NameAttribute(ObjectIdentifier("1.2.3.4.5"), "x")
    assert subject_of(certificate_of([wide], [odd])) == "1.2.3.4.5=#0c0178,CN=胡同"


def test_a_certificate_without_a_name() -> None:
    assert subject_of(certificate_of()) == ""


@given(st.lists(st.text("abc XYZ,+=\\é", min_size=1, max_size=20), min_size=1, max_size=5))
def test_escaping_loses_nothing(values: list[str]) -> None:
    parts = [[x509.NameAttribute(NameOID.ORGANIZATION_NAME, value)] for value in values]
    shown = re.sub(r"\\(.)", r"\1", subject_of(certificate_of(*parts)))
    assert shown == ",".join(f"O={value}" for value in reversed(values))


WHOLE = certificate_of([x509.NameAttribute(NameOID.COMMON_NAME, "ann")], [x509.NameAttribute(EMAIL, "a@b")])


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_what_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        subject_of(WHOLE[:length])


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_raises_nothing_else(at: int, byte: int) -> None:
    changed = bytearray(WHOLE)
    changed[at] = byte
    with suppress(ProtocolError):
        subject_of(bytes(changed))


@given(st.binary(max_size=300))
def test_any_bytes_raise_nothing_else(data: bytes) -> None:
    with suppress(ProtocolError):
        subject_of(data)
