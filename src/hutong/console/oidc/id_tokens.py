"""Check an ID token (OpenID Connect Core 1.0, 3.1.3.7): the rules of access tokens, and those of its own.

Knows nothing of where tokens come from.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal, UnknownKey
from hutong.security.oauth.tokens import TokenRules, checked_claims, owner_of, texts

if TYPE_CHECKING:
    from hutong.security.oauth.key_sets import KeySet

CLOCK_SKEW_MS: Final = 30_000


def check_id_token(
    token: str, keys: KeySet, issuer: str, client_id: str, nonce: str | None, now_ms: int
) -> TokenOwner | TokenRefusal | UnknownKey:
    """Find the subject of a token for this client. `nonce` is that of the login, None for a renewal."""
    rules = TokenRules(issuer=issuer, audience=(client_id,), clock_skew_ms=CLOCK_SKEW_MS)
    claims = checked_claims(token, keys, rules, now_ms)
    if isinstance(claims, TokenRefusal | UnknownKey):
        return claims
    party = claims.get("azp")
    # A token for several is of use to all of them: it must have been asked for by this one.
    if party is None and len(texts(claims.get("aud"), split=False)) > 1:
        return TokenRefusal("several audiences, and none that asked for it")
    if party is not None and party != client_id:
        return TokenRefusal("asked for by another client")
    found = claims.get("nonce")
    if nonce is not None and not (isinstance(found, str) and hmac.compare_digest(found.encode(), nonce.encode())):
        return TokenRefusal("the nonce of another login")
    return owner_of(claims, rules, now_ms)
