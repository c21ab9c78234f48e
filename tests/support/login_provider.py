"""An OpenID Connect provider with logins: it gives codes without a page, and can tell every lie that a test wants.

Strategy: `code_of` is the user's part, in place of a page. The token endpoint checks the client, the redirect address
and PKCE as a provider must, so that a client that sends none of them gets nothing.

Knows nothing of consoles.
"""

import base64
import hashlib
import json
import secrets
import time
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.support.identity_provider import IdentityProvider, claims_of

CLIENT: Final = "console"
CLIENT_SECRET: Final = "a secret: of the console"


class LoginProvider(IdentityProvider):
    """`described` and `claims` are put over what it says of itself and of a user; None leaves a part out."""

    def __init__(self) -> None:
        super().__init__()
        self.described: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.answered: dict[str, Any] = {}
        self.id_token = ""  # in place of the one that it would make
        self.padding = b""  # before its description
        self._codes: dict[str, tuple[str, dict[str, list[str]]]] = {}
        self._refresh: dict[str, str] = {}

    def forget(self) -> None:
        """Tell the truth again."""
        self.described, self.claims, self.access_claims, self.answered = {}, {}, {}, {}
        self.id_token, self.padding, self.is_broken = "", b"", False

    def code_of(self, login_url: str, user: str) -> tuple[str, str]:
        """The code for a user that comes with this address, and the state that goes back with it."""
        asked = parse_qs(urlsplit(login_url).query)
        assert asked["response_type"] == ["code"]
        assert asked["client_id"] == [CLIENT]
        assert asked["code_challenge_method"] == ["S256"]
        code = secrets.token_urlsafe(8)
        self._codes[code] = (user, asked)
        return code, asked["state"][0]

    def answer(self, path: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        if path == "/token" and b"client_credentials" not in body and not self.is_broken:
            self.requests[path] += 1
            return self._tokens({name: values[0] for name, values in parse_qs(body.decode()).items()}, authorization)
        if path == "/.well-known/openid-configuration" and not self.is_broken:
            return 200, self.padding + json.dumps(self._description()).encode()
        return super().answer(path, body, authorization)

    def _description(self) -> dict[str, Any]:
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": self.token_url,
            "jwks_uri": self.jwks_url,
            "end_session_endpoint": f"{self.url}/logout",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return {name: value for name, value in {**told, **self.described}.items() if value is not None}

    def _tokens(self, asked: dict[str, str], authorization: str) -> tuple[int, bytes]:
        pair = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET.replace(':', '%3A').replace(' ', '+')}".encode()).decode()
        if authorization != f"Basic {pair}":
            return 401, b'{"error":"invalid_client"}'
        if asked.get("grant_type") == "refresh_token":
            user, nonce = self._refresh.pop(asked["refresh_token"], ""), None
        else:
            user, nonce = self._owner(asked)
        return self._given(user, nonce) if user else (400, b'{"error":"invalid_grant"}')

    def _owner(self, asked: dict[str, str]) -> tuple[str, str | None]:
        user, login = self._codes.pop(asked.get("code", ""), ("", {}))
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if login.get("code_challenge") != [challenge] or login.get("redirect_uri") != [asked.get("redirect_uri", "")]:
            return "", None
        return user, login["nonce"][0]

    def _given(self, user: str, nonce: str | None) -> tuple[int, bytes]:
        key, refresh = self.keys[0], secrets.token_urlsafe(8)
        self._refresh[refresh] = user
        own = {"iss": self.url, "aud": CLIENT, "nonce": nonce, "scope": None, **self.claims}
        told = {
            "token_type": "Bearer",
            "access_token": self.token(user, iss=self.url, **self.access_claims),
            "expires_in": int(self.life_s),
            "refresh_token": refresh,
            "id_token": self.id_token or key.sign(claims_of(user, time.time(), **own)),
            **self.answered,
        }
        return 200, json.dumps({name: value for name, value in told.items() if value is not None}).encode()
