"""Logins that began and have not come back: what binds each to the browser that began it.

Strategy: nothing is stored, so that nobody can fill a table. The cookie has a random text, the time, and the page to go
back to. State, nonce and PKCE's verifier are made from the cookie by a key of this process. So an answer counts only
in the browser that has the cookie, and only for the page that the login began at. Each counts once.

Decides without clock or randomness.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from hutong.console.limits import LOGIN_ATTEMPT_MS_MAX, LOGIN_PATH_CHARACTERS_MAX, LOGINS_REMEMBERED_MAX
from hutong.console.oidc.outcomes import LoginFailure, LoginFault
from hutong.console.routes import API

HOME: Final = "/"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One login. `path` is the page to which the browser goes back."""

    cookie: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)  # 43 characters, as RFC 7636 (4.1) recommends
    path: str

    @property
    def challenge(self) -> str:
        return _text(hashlib.sha256(self.verifier.encode()).digest())


class LoginAttempts:
    """Of one console. `key` is random."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._used: OrderedDict[str, int] = OrderedDict()  # states, with the time at which they expire

    def begin(self, token: str, path: str, now_ms: int) -> Attempt:
        """`token` is random, of the alphabet of Base64 in URLs."""
        return self._made(f"{token}.{now_ms}.{_text(local_path(path).encode())}")

    def take(self, cookie: str | None, state: str, now_ms: int) -> Attempt:
        """The attempt that an answer belongs to. Raises LoginFailure for an answer of no attempt of this browser."""
        if cookie is None:
            raise LoginFailure(LoginFault.EXPIRED, "an answer without the cookie of a login")
        attempt = self._made(cookie)
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            raise LoginFailure(LoginFault.EXPIRED, "an answer with the state of another browser, or an old one")
        # The state proves that the cookie is one of ours, so its parts are as `begin` made them.
        ends_ms = int(cookie.split(".")[1]) + LOGIN_ATTEMPT_MS_MAX
        if now_ms >= ends_ms or state in self._used:
            raise LoginFailure(LoginFault.EXPIRED, "an answer that came before, or too late")
        self._remember(state, ends_ms, now_ms)
        return attempt

    def _remember(self, state: str, ends_ms: int, now_ms: int) -> None:
        while self._used and (len(self._used) >= LOGINS_REMEMBERED_MAX or next(iter(self._used.values())) <= now_ms):
            self._used.popitem(last=False)
        self._used[state] = ends_ms

    def _made(self, cookie: str) -> Attempt:
        state, nonce, verifier = (self._of(cookie, name) for name in ("state", "nonce", "verifier"))
        return Attempt(cookie, state, nonce, verifier, _path_of(cookie))

    def _of(self, cookie: str, name: str) -> str:
        return _text(hmac.digest(self._key, f"{name} {cookie}".encode(), "sha256"))


def local_path(path: str) -> str:
    """The path where it is one of the console's pages, else the first page: no login leads to another site."""
    is_plain = path.isascii() and path.isprintable() and "\\" not in path and " " not in path
    # Browsers take "//host" for another site, and "\" for "/".
    is_local = path.startswith("/") and not path.startswith(("//", API))
    return path if is_plain and is_local and len(path) <= LOGIN_PATH_CHARACTERS_MAX else HOME


def _path_of(cookie: str) -> str:
    encoded = cookie.rpartition(".")[2]
    try:
        return local_path(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    except ValueError:
        return HOME


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
