"""A provider's description of itself (OpenID Connect Discovery 1.0), checked.

Strategy: only what a login needs is read. The issuer must be the one that was asked (section 4.3), and every address
must be one of TLS, unless the issuer itself is on this machine.

Knows nothing of where the bytes come from.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from hutong.console.limits import OIDC_ANSWER_BYTES_MAX, OIDC_URL_CHARACTERS_MAX
from hutong.console.oidc.json_objects import decoded_object
from hutong.console.oidc.provider import Provider
from hutong.foundation.errors import ProtocolError
from hutong.reactor.accept.exposure import is_local

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
_BASIC: Final = "client_secret_basic"


def discovery_url(issuer: str) -> str:
    return issuer.rstrip("/") + DISCOVERY_PATH


def is_safe_url(url: object, *, may_be_plain: bool) -> bool:
    """True for an https:// URL, or one of this machine where that may be plain."""
    if not isinstance(url, str) or len(url) > OIDC_URL_CHARACTERS_MAX or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or " " in url or "\\" in url:
        return False
    return parts.scheme == "https" or (may_be_plain and parts.scheme == "http" and is_local(host))


def parse_provider(data: bytes, issuer: str) -> Provider:
    """Raises ProtocolError for what is no description of this issuer."""
    if len(data) > OIDC_ANSWER_BYTES_MAX:
        raise ProtocolError(f"a description of more than {OIDC_ANSWER_BYTES_MAX} bytes")
    told = decoded_object(data, "a description")
    if told.get("issuer") != issuer:
        raise ProtocolError("a description of another issuer")
    # A provider that lists its methods and leaves S256 out takes the code without its proof (RFC 7636, 4.2).
    methods = told.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ProtocolError("a provider without PKCE (S256)")
    may_be_plain = issuer.startswith("http://")
    login, tokens, keys = (told.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"))
    if not all(is_safe_url(place, may_be_plain=may_be_plain) for place in (login, tokens, keys)):
        raise ProtocolError("a description whose addresses are missing or are not https://")
    logout = told.get("end_session_endpoint")
    ways = told.get("token_endpoint_auth_methods_supported", [_BASIC])
    return Provider(
        issuer,
        str(login),
        str(tokens),
        str(keys),
        logout_url=logout if is_safe_url(logout, may_be_plain=may_be_plain) else None,
        names_itself=told.get("authorization_response_iss_parameter_supported") is True,
        takes_basic=not isinstance(ways, list) or _BASIC in ways or "client_secret_post" not in ways,
    )
