"""Access tokens: good ones, and every way in which one may be wrong."""

import base64
import json
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.support.identity_provider import AUDIENCE, ISSUER, SigningKey, claims_of, key_set

from hutong.security.oauth.key_sets import KeySet, parse_key_set
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal, TokenStatus, UnknownKey
from hutong.security.oauth.tokens import TokenRules, check_token

NOW_S: Final = 1_700_000_000
RSA, EC, ED = SigningKey("rsa"), SigningKey("ec", "ES256"), SigningKey("ed", "EdDSA")
KEYS: Final = parse_key_set(key_set(RSA, EC, ED))
RULES: Final = TokenRules(issuer=ISSUER, audience=("other", AUDIENCE), scope=("kafka",), clock_skew_ms=30_000)


def checked(token: str, rules: TokenRules = RULES, keys: KeySet = KEYS, now_s: float = NOW_S) -> Any:
    return check_token(token, keys, rules, int(now_s * 1000))


def signed(key: SigningKey = RSA, /, **claims: Any) -> str:
    return key.sign(claims_of("alice", NOW_S, 300, **claims))


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=lambda key: key.id)
def test_a_good_token_has_an_owner_until_it_ends(key: SigningKey) -> None:
    assert checked(signed(key)) == TokenOwner("alice", 330_000)


def test_rsa_keys_check_each_of_their_algorithms() -> None:
    for algorithm in ("RS384", "PS256"):
        token = jwt.encode(claims_of("alice", NOW_S), RSA.private, algorithm, headers={"kid": "rsa"})
        assert isinstance(checked(token), TokenOwner)


def test_a_token_without_a_key_id() -> None:
    token = jwt.encode(claims_of("alice", NOW_S), EC.private, "ES256")
    assert isinstance(checked(token), TokenOwner)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", AUDIENCE]},
        {"scope": "read kafka write"},
        {"scope": ["read", "kafka"]},
        {"nbf": NOW_S + 20},
        {"iat": NOW_S + 20},
        {"iat": None},
        {"exp": NOW_S + 0.5},
        {"exp": NOW_S - 20},
        {"jti": 5},
    ],
)
def test_claims_that_are_accepted(claims: dict[str, Any]) -> None:
    assert isinstance(checked(signed(RSA, **claims)), TokenOwner)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None},
        {"exp": NOW_S - 30},
        {"exp": "soon"},
        {"exp": True},
        {"exp": -1},
        {"exp": 1e300},
        {"nbf": NOW_S + 31},
        {"nbf": "soon"},
        {"iat": NOW_S + 31},
        {"iss": None},
        {"iss": "https://other.example"},
        {"iss": [ISSUER]},
        {"aud": None},
        {"aud": "hutong other"},
        {"aud": {"hutong": 1}},
        {"scope": None},
        {"scope": "kafk"},
        {"scope": {"kafka": 1}},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "a\nb"},
        {"sub": "a" * 1025},
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any]) -> None:
    assert isinstance(checked(signed(RSA, **claims)), TokenRefusal)


def test_a_missing_scope_is_named() -> None:
    assert checked(signed(scope="x")).status is TokenStatus.SCOPE
    assert checked(signed(iss="x")).status is TokenStatus.INVALID


def test_other_claims_for_name_and_scope() -> None:
    rules = TokenRules(scope=("a",), principal_claim="azp", scope_claim="scp")
    assert checked(signed(azp="job", scp=["a"]), rules).name == "job"
    assert isinstance(checked(signed(azp="job"), rules), TokenRefusal)


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _forged(header: dict[str, Any], signature: str = "c2ln") -> str:
    return f"{_part(header)}.{_part(claims_of('alice', NOW_S))}.{signature}"


def test_an_unsigned_token_is_refused() -> None:
    for algorithm in ("none", "None", "", None, 5):
        assert isinstance(checked(_forged({"alg": algorithm, "kid": "rsa"}, "")), TokenRefusal)


def test_a_public_key_is_no_shared_secret() -> None:
    """RFC 8725, section 2.1: HMAC with the public key, which everybody has."""
    pem = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    content = f"{_part({'alg': 'HS256', 'kid': 'rsa'})}.{_part(claims_of('alice', NOW_S))}"
    signature = base64.urlsafe_b64encode(algorithm.sign(content.encode(), pem)).rstrip(b"=").decode()
    assert isinstance(checked(f"{content}.{signature}"), TokenRefusal)


def test_the_algorithm_must_be_the_keys() -> None:
    token = jwt.encode(claims_of("alice", NOW_S), EC.private, "ES256", headers={"kid": "rsa"})
    assert checked(token) == TokenRefusal("an algorithm that is not the key's")


def test_keys_in_the_header_count_for_nothing() -> None:
    stranger = SigningKey("rsa")
    token = stranger.sign(claims_of("alice", NOW_S), jwk=stranger.public, jku="http://127.0.0.1/", x5u="http://x/")
    assert isinstance(checked(token), TokenRefusal)


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"b64": False}, {"kid": 5}, {"kid": ["rsa"]}, {"zip": "DEF"}])
def test_headers_that_are_refused(header: dict[str, Any]) -> None:
    assert isinstance(checked(_forged({"alg": "RS256", "kid": "rsa", **header})), TokenRefusal)


def test_a_key_that_is_not_in_the_set() -> None:
    assert checked(SigningKey("other").sign(claims_of("alice", NOW_S))) == UnknownKey()
    assert checked(signed(), keys=KeySet({})) == UnknownKey()


def test_any_changed_character_is_noticed() -> None:
    token = signed(EC)
    for at in range(0, len(token) - 2, 7):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        assert not isinstance(checked(changed), TokenOwner), at


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "eyJhbGciOiJSUzI1NiJ9",
        "eyJhbGciOiJSUzI1NiJ9..",
        "é.é.é",
        "a" * 5000 + ".b.c",
        f"{base64.urlsafe_b64encode(b'[' * 3000).decode()}.e30.c2ln",
        f"{_part([])}.e30.c2ln",
        f"{_part({'alg': 'RS256', 'kid': 'rsa'})}.{'.' * 1000}",
        signed() + ".e30",
    ],
)
def test_what_is_no_token(token: str) -> None:
    assert isinstance(checked(token), TokenRefusal | UnknownKey)


def test_a_signed_payload_that_is_no_object() -> None:
    for payload in (b"[]", b"5", b"\xff", b"[" * 50_000):
        token = jwt.PyJWS().encode(payload, RSA.private, "RS256", headers={"kid": "rsa"})
        assert isinstance(checked(token), TokenRefusal)
