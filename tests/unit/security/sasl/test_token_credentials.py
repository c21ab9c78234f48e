"""Secrets of delegation tokens follow from the cluster's secret, and from nothing else."""

import base64

from hutong.security.sasl.scram_credentials import MECHANISMS, SHA_256, is_password
from hutong.security.sasl.token_credentials import hmac_of, token_credential


def test_the_hmac_is_the_password() -> None:
    secret = base64.b64encode(hmac_of("id", b"key"))
    for mechanism in MECHANISMS.values():
        kept = token_credential("id", b"key", mechanism)
        assert kept == token_credential("id", b"key", mechanism)
        assert is_password(mechanism, kept, secret)
        assert not is_password(mechanism, kept, base64.b64encode(hmac_of("id", b"another")))


def test_salts_differ_by_token_and_key() -> None:
    salts = {token_credential(*asked, SHA_256).salt for asked in (("a", b"k"), ("b", b"k"), ("a", b"l"))}
    assert len(salts) == 3
