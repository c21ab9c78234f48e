"""The routes of a login at the provider: to it, back from it, and out.

Strategy: the authorization code flow with PKCE (RFC 6749, RFC 7636). The browser comes back with a code, which this
server alone turns into tokens; no token is ever in a page. Each login begins a new session. What goes wrong sends the
browser to the login page with one word, for which the page has a sentence: nothing of a foreign link is shown.

Decides nothing about tokens.
"""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from hutong.console.guard import cookie_of
from hutong.console.limits import CODE_CHARACTERS_MAX, LOGIN_ATTEMPT_MS_MAX
from hutong.console.oidc.messages import login_url, logout_url
from hutong.console.oidc.outcomes import LoginFailure, LoginFault
from hutong.console.oidc.tokens import SessionTokens
from hutong.console.routes import ConsoleRoute
from hutong.web.answers import WebAnswer, WebRefusal

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.oidc.asking import ProviderClient
    from hutong.console.oidc.attempts import Attempt, LoginAttempts
    from hutong.console.oidc.provider import Provider
    from hutong.console.oidc.renewing import TokenRenewals
    from hutong.console.sessions import Session
    from hutong.web.requests import WebRequest

BEGIN: Final = "/api/session/provider"
RETURN: Final = "/api/session/provider/return"
COOKIE: Final = "hutong_console_login"
_log: Final = logging.getLogger("hutong.console.oidc")


class SigningOn:
    """Logins at one provider."""

    def __init__(
        self, desk: ConsoleDesk, provider: ProviderClient, attempts: LoginAttempts, renewals: TokenRenewals
    ) -> None:
        self._desk = desk
        self._provider = provider
        self._attempts = attempts
        self._renewals = renewals

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", BEGIN, self.begin, needs_session=False),
            ConsoleRoute("GET", RETURN, self.come_back, needs_session=False),
        ]

    @property
    def name(self) -> str:
        """The provider as users know it: the name of its host."""
        return urlsplit(self._provider.client.issuer).netloc

    async def begin(self, request: WebRequest) -> WebAnswer:
        """Send the browser to the provider."""
        path = request.query.get("path", "/")
        attempt = self._attempts.begin(self._desk.make_token(), path, self._desk.clock.monotonic_ms())
        try:
            provider = await self._provider.provider()
        except LoginFailure as failure:
            return self._failed(failure, attempt.path)
        url = login_url(provider, self._provider.client, attempt, self._redirect_url(request))
        return _to(url, self._cookie(attempt.cookie, LOGIN_ATTEMPT_MS_MAX // 1_000))

    async def come_back(self, request: WebRequest) -> WebAnswer:
        """Begin a session by the code that the provider gave the browser."""
        path, gone = "/", self._cookie("", 0)
        cookie = cookie_of(request.headers.get("cookie", ""), COOKIE)
        try:
            attempt = self._attempts.take(cookie, request.query.get("state", ""), self._desk.clock.monotonic_ms())
            path = attempt.path
            session = await self._signed_in(request, attempt)
        except LoginFailure as failure:
            return self._failed(failure, path, gone)
        before = self._desk.guard.find(request)
        if before is not None:
            self._desk.close_session(before)
        return _to(path, gone, self._desk.session_cookie(session))

    async def logout_url(self, id_token: str, request: WebRequest) -> str | None:
        """The address at which the provider ends its own session; None where it names none."""
        try:
            provider = await self._provider.provider()
        except LoginFailure:
            return None
        return logout_url(
            provider, self._provider.client, id_token, self._redirect_url(request).removesuffix(RETURN) + "/"
        )

    async def close(self) -> None:
        await self._renewals.close()
        await self._provider.close()

    async def _signed_in(self, request: WebRequest, attempt: Attempt) -> Session:
        desk, query = self._desk, request.query
        provider = await self._provider.provider()
        _check_issuer(provider, query.get("iss"))
        if "error" in query:
            raise LoginFailure(LoginFault.DENIED, f"the provider said {query['error'][:100]!r}")
        code = query.get("code", "")
        if not 0 < len(code) <= CODE_CHARACTERS_MAX:
            raise LoginFailure(LoginFault.REFUSED, "an answer without a code")
        user, answer = await self._provider.of_code(code, attempt.verifier, attempt.nonce, self._redirect_url(request))
        tokens = SessionTokens(desk.make_token(), user, answer, desk.clock.monotonic_ms(), desk.clock.wall_ms())
        try:
            await desk.gateway.accounts.of_tokens(tokens)
        except WebRefusal as refusal:
            tokens.end()
            detail = f"the brokers did not let {user!r} in: {refusal.message}"
            raise LoginFailure(LoginFault.BROKERS if refusal.status == 401 else LoginFault.BUSY, detail) from None
        session = desk.open_session(user, "", tokens)
        self._renewals.keep(session, tokens)
        return session

    def _redirect_url(self, request: WebRequest) -> str:
        """As the settings say, or by the name in the browser's address, which the server knows to be its own."""
        named = self._provider.client.redirect_url
        scheme = "https" if self._desk.is_secure else "http"
        return named or f"{scheme}://{request.headers.get('host', '')}{RETURN}"

    def _cookie(self, value: str, life_s: int) -> tuple[str, str]:
        # Lax: the provider's page leads back here, and a strict cookie would not come with that.
        secure = "; Secure" if self._desk.is_secure else ""
        return ("Set-Cookie", f"{COOKIE}={value}; Path={BEGIN}; HttpOnly; SameSite=Lax; Max-Age={life_s}{secure}")

    def _failed(self, failure: LoginFailure, path: str, *headers: tuple[str, str]) -> WebAnswer:
        _log.warning("a login at %s failed: %s", self.name, failure.detail)
        base = path.partition("?")[0]
        return _to(f"{base}?{urlencode({'login': failure.fault.value})}", *headers)


def _check_issuer(provider: Provider, named: str | None) -> None:
    """RFC 9207: an answer of another provider brings its code to ours, or ours to it. Raises LoginFailure."""
    if named is None and not provider.names_itself:
        return
    if named is None or not hmac.compare_digest(named.encode(), provider.issuer.encode()):
        raise LoginFailure(LoginFault.REFUSED, "an answer of another issuer")


def _to(url: str, *headers: tuple[str, str]) -> WebAnswer:
    """See Other: always a GET."""
    return WebAnswer(303, headers=[("Location", url), ("Referrer-Policy", "no-referrer"), *headers])
