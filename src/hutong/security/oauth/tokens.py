"""Check an access token: its signature, then its claims (RFC 7519, section 7.2; RFC 8725).

Strategy: the header names a key and an algorithm, and the key must have that algorithm. PyJWT checks the signature.
Claims are checked here, since time arrives with the call. A token without an end is refused: a session lasts no longer
than its token (KIP-368).

Knows nothing of where tokens or keys come from. A reason repeats nothing of the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.exceptions import PyJWTError

from hutong.security.oauth.key_sets import ALGORITHMS, KeySet
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal, TokenStatus, UnknownKey

NAME_CHARACTERS_MAX: Final = 1024
HEADER_CHARACTERS_MAX: Final = 4096
SCOPES_MAX: Final = 1000
_SECOND_MS: Final = 1000
_INT53_MAX: Final = 1 << 53  # what every JSON parser keeps exactly; a time beyond is no time
_OPTIONS: Final[Any] = {
    "verify_signature": True,
    # Checked by `_refusal`, with the time that is given.
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The claims that a token must have. An empty issuer, audience or scope asks for none."""

    issuer: str = ""
    audience: tuple[str, ...] = ()  # any of them
    scope: tuple[str, ...] = ()  # all of them
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000


def check_token(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> TokenOwner | TokenRefusal | UnknownKey:
    """Find the owner of a token. `now_ms` is Unix time."""
    claims = checked_claims(token, keys, rules, now_ms)
    return claims if isinstance(claims, TokenRefusal | UnknownKey) else owner_of(claims, rules, now_ms)


def checked_claims(
    token: str, keys: KeySet, rules: TokenRules, now_ms: int
) -> Mapping[str, Any] | TokenRefusal | UnknownKey:
    """The claims of a token that is signed and follows the rules. `now_ms` is Unix time."""
    header, dot, _ = token.partition(".")
    # The header is decoded before anybody is known, so it is small.
    if not dot or len(header) > HEADER_CHARACTERS_MAX:
        return TokenRefusal("no signed JSON web token")
    try:
        fields = jwt.get_unverified_header(token)
    # RecursionError: JSON nested a thousand deep. ValueError: text that is no JSON, Base64 or UTF-8.
    except (PyJWTError, RecursionError, ValueError):
        return TokenRefusal("no signed JSON web token")
    algorithm, key_id = fields.get("alg"), fields.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return TokenRefusal("an algorithm that is not accepted")
    # RFC 7515, section 4.1.11: an extension that must be understood, and none is. `b64` is one (RFC 7797).
    if "crit" in fields or "b64" in fields:
        return TokenRefusal("an extension that is not known")
    if key_id is not None and not isinstance(key_id, str):
        return TokenRefusal("a key id that is no text")
    key = keys.find(key_id, algorithm)
    if key is None:
        return UnknownKey()
    # The token chooses among the algorithms of the key, and the key's type decides which there are.
    if algorithm not in key.algorithms:
        return TokenRefusal("an algorithm that is not the key's")
    try:
        claims = jwt.decode(token, key.public, algorithms=[algorithm], options=_OPTIONS)
    except (PyJWTError, RecursionError, ValueError):
        return TokenRefusal("a signature or content that is wrong")
    return _refusal(claims, rules, now_ms) or claims


def _refusal(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> TokenRefusal | None:
    """The first claim that is wrong."""
    ends, begins, issued = (_time_ms(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if ends is None:
        return TokenRefusal("no time at which it ends")
    if ends + rules.clock_skew_ms <= now_ms:
        return TokenRefusal("it has ended")
    for name, time_ms in (("nbf", begins), ("iat", issued)):
        if name in claims and (time_ms is None or time_ms - rules.clock_skew_ms > now_ms):
            return TokenRefusal("it is not valid yet")
    if rules.issuer and claims.get("iss") != rules.issuer:
        return TokenRefusal("another issuer")
    # Without this, a token for another service of the same provider would do (RFC 8725, section 3.9).
    if rules.audience and not set(texts(claims.get("aud"), split=False)).intersection(rules.audience):
        return TokenRefusal("another audience")
    if not set(rules.scope) <= set(texts(claims.get(rules.scope_claim), split=True)):
        return TokenRefusal("a scope is missing", TokenStatus.SCOPE)
    return None


def owner_of(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> TokenOwner | TokenRefusal:
    """The owner that checked claims name."""
    name, ends_ms = claims.get(rules.principal_claim), _time_ms(claims.get("exp"))
    assert ends_ms is not None, "claims are checked before"
    # A name that cannot be printed would be another one in logs and lists of rights.
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        return TokenRefusal("no name in the claim of the principal")
    # Within the skew a token that has ended still counts, for a moment.
    return TokenOwner(name, max(1, ends_ms + rules.clock_skew_ms - now_ms))


def _time_ms(claim: object) -> int | None:
    """A NumericDate (RFC 7519, section 2), which may have a fraction."""
    # bool is a kind of int, and NaN fails both comparisons.
    if isinstance(claim, bool) or not isinstance(claim, int | float) or not 0 <= claim <= _INT53_MAX:
        return None
    return int(claim * _SECOND_MS)


def texts(claim: object, *, split: bool) -> list[str]:
    """A claim of several texts: a list, or one text, which for scopes has spaces between them (RFC 8693)."""
    if isinstance(claim, str):
        return claim.split(" ", SCOPES_MAX) if split else [claim]
    return [item for item in claim[:SCOPES_MAX] if isinstance(item, str)] if isinstance(claim, list) else []
