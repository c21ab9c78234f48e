"""Key sets of providers: which keys count, and what is no key set."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from tests.support.identity_provider import SigningKey, key_set

from hutong.foundation.errors import ProtocolError
from hutong.security.oauth.key_sets import ALGORITHMS, KEYS_MAX, SET_BYTES_MAX, parse_key_set

RSA, EC, ED = SigningKey("rsa"), SigningKey("ec", "ES384"), SigningKey("ed", "EdDSA")


def parsed(*entries: Any) -> Any:
    return parse_key_set(json.dumps({"keys": entries}).encode())


def test_keys_have_the_algorithms_of_their_type_and_curve() -> None:
    keys = parse_key_set(key_set(RSA, EC, ED)).by_id
    assert keys["rsa"].algorithms == ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    assert (keys["ec"].algorithms, keys["ed"].algorithms) == (("ES384",), ("EdDSA",))


def test_no_algorithm_has_a_shared_secret() -> None:
    assert not any(name == "none" or name.startswith("HS") for name in ALGORITHMS)


def test_a_stated_algorithm_is_the_only_one() -> None:
    assert parsed({**RSA.public, "alg": "PS256"}).by_id["rsa"].algorithms == ("PS256",)
    assert parsed({**ED.public, "alg": "Ed25519"}).by_id["ed"].algorithms == ("EdDSA",)


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"},
        {**RSA.public, "use": "enc"},
        {**RSA.public, "alg": "HS256"},
        {**RSA.public, "alg": "ES256"},
        {**RSA.public, "alg": ["RS256"]},
        {**RSA.public, "n": 5},
        {**RSA.public, "n": "", "kid": "empty"},
        {**RSA.public, "n": "!!", "kid": "no Base64"},
        {**EC.public, "crv": "secp256k1"},
        {**EC.public, "x": "AAAA"},
        {**ED.public, "crv": "X25519"},
        {**RSA.public, "kid": 5},
        {**RSA.public, "kid": "k" * 1025},
        {"kty": ["RSA"]},
        {},
        "a key",
        None,
    ],
)
def test_what_is_of_no_use_is_skipped(entry: object) -> None:
    assert list(parsed(entry, SigningKey("good", "ES256").public).by_id) == ["good"]


@pytest.mark.parametrize(("bits", "exponent"), [(1024, 65537), (2048, (1 << 32) + 15)])
def test_rsa_keys_have_bounds(bits: int, exponent: int) -> None:
    numbers = rsa.generate_private_key(public_exponent=65537, key_size=bits).public_key().public_numbers()
    entry = RSAAlgorithm.to_jwk(rsa.RSAPublicNumbers(exponent, numbers.n).public_key(), as_dict=True)
    assert list(parsed(entry, EC.public).by_id) == ["ec"]


def test_private_members_are_not_read() -> None:
    private = {**RSAAlgorithm.to_jwk(RSA.private, as_dict=True), "kid": "rsa", "use": "sig"}
    assert not hasattr(parsed(private).by_id["rsa"].public, "sign")


def test_the_first_key_of_an_id_stays() -> None:
    other = SigningKey("rsa", "ES256")
    assert parsed(RSA.public, other.public).by_id["rsa"].algorithms[0] == "RS256"


def test_a_token_without_a_key_id_gets_the_only_key_of_its_algorithm() -> None:
    keys = parsed(RSA.public, EC.public)
    assert keys.find(None, "ES384") is keys.by_id["ec"]
    assert keys.find(None, "ES256") is None
    anonymous = {name: value for name, value in SigningKey("", "ES384").public.items() if name != "kid"}
    both = parsed(EC.public, anonymous)
    assert (len(both), both.find(None, "ES384")) == (2, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":[{}]}',
        b"[" * 100_000,
        b'{"keys":' + b"[" * 100_000,
        b" " * (SET_BYTES_MAX + 1),
        json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(),
    ],
)
def test_what_is_no_key_set(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_key_set(data)
