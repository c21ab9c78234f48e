"""Messages to a provider and from it: the address of a login and of a logout, questions for tokens, their answers.

Knows nothing of connections. RFC 6749 (4.1, 6), OpenID Connect Core 1.0 (3.1), RP-Initiated Logout 1.0 (2).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode

from hutong.console.limits import OIDC_ANSWER_BYTES_MAX, TOKEN_CHARACTERS_MAX, TOKEN_LIFE_S_MAX
from hutong.console.oidc.json_objects import decoded_object
from hutong.foundation.errors import ProtocolError

if TYPE_CHECKING:
    from hutong.console.oidc.attempts import Attempt
    from hutong.console.oidc.provider import Provider

FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class OidcClient:
    """The console, as the provider knows it. `parameters` go with each login, as `audience`."""

    issuer: str
    client_id: str
    secret: str = field(default="", repr=False)
    scope: Sequence[str] = ("openid",)
    parameters: Mapping[str, str] = field(default_factory=dict)
    redirect_url: str = ""  # empty: made from the name by which the browser reaches the console


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """Tokens as the provider gave them."""

    access_token: str = field(repr=False)
    life_s: float
    refresh_token: str | None = field(repr=False)
    id_token: str | None = field(repr=False)


def login_url(provider: Provider, client: OidcClient, attempt: Attempt, redirect_url: str) -> str:
    return _with_query(
        provider.authorization_url,
        {
            **client.parameters,
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect_url,
            "scope": " ".join(client.scope),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        },
    )


def logout_url(provider: Provider, client: OidcClient, id_token: str, after_url: str) -> str | None:
    """The address at which the provider ends its own session; None where it names none."""
    if provider.logout_url is None:
        return None
    asked = {"id_token_hint": id_token, "client_id": client.client_id, "post_logout_redirect_uri": after_url}
    return _with_query(provider.logout_url, asked)


def code_question(
    provider: Provider, client: OidcClient, code: str, verifier: str, redirect_url: str
) -> tuple[bytes, str]:
    """The body, and the Authorization header, empty for none."""
    asked = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_url,
        "code_verifier": verifier,
    }
    return _of_client(provider, client, asked)


def refresh_question(provider: Provider, client: OidcClient, refresh_token: str) -> tuple[bytes, str]:
    """The same for new tokens."""
    return _of_client(provider, client, {"grant_type": "refresh_token", "refresh_token": refresh_token})


def parse_tokens(data: bytes) -> TokenAnswer:
    """Raises ProtocolError."""
    if len(data) > OIDC_ANSWER_BYTES_MAX:
        raise ProtocolError(f"tokens of more than {OIDC_ANSWER_BYTES_MAX} bytes")
    told = decoded_object(data, "an answer")
    kind, access_token = told.get("token_type"), _token(told, "access_token")
    if access_token is None or not isinstance(kind, str) or kind.lower() != "bearer":
        raise ProtocolError("an answer without an access token for bearers")
    return TokenAnswer(access_token, _life_s(told), _token(told, "refresh_token"), _token(told, "id_token"))


def _token(told: Mapping[str, Any], name: str) -> str | None:
    token = told.get(name)
    if token is None:
        return None
    # RFC 6750, 2.1: printable, without spaces. Tokens go into SASL's message and an address.
    if not isinstance(token, str) or not 0 < len(token) <= TOKEN_CHARACTERS_MAX:
        raise ProtocolError(f"an answer whose {name} is none")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ProtocolError(f"an answer whose {name} is none")
    return token


def _life_s(told: Mapping[str, Any]) -> float:
    """The seconds for which the access token is valid. The client library must know when to ask for the next."""
    life = told.get("expires_in")
    # Some providers write the number as text.
    if isinstance(life, str) and len(life) <= 10 and life.isascii() and life.isdigit():
        life = int(life)
    if isinstance(life, bool) or not isinstance(life, int | float) or not life > 0:
        raise ProtocolError("an answer without the life of its access token (expires_in)")
    return min(float(life), TOKEN_LIFE_S_MAX)


def _of_client(provider: Provider, client: OidcClient, asked: dict[str, str]) -> tuple[bytes, str]:
    if client.secret and provider.takes_basic:
        # RFC 6749, 2.3.1: both are encoded as in forms first.
        pair = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
        return urlencode(asked).encode(), f"Basic {base64.b64encode(pair.encode()).decode()}"
    secret = {"client_secret": client.secret} if client.secret else {}
    return urlencode({**asked, "client_id": client.client_id, **secret}).encode(), ""


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"
