"""The routes of a browser's session: begin, look, end.

Strategy: a login is one at the broker, by the user's name and password, so the console has no users of its own. A login
always begins a new session with new tokens: a token from before it is worth nothing (session fixation).

Decides nothing about sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hutong.console.limits import PASSWORD_CHARACTERS_MAX, USER_CHARACTERS_MAX
from hutong.console.routes import UNAUTHENTICATED, ConsoleRoute
from hutong.console.sessions import NOBODY, Session
from hutong.web.answers import WebAnswer, WebRefusal, json

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.oidc.signing_on import SigningOn
    from hutong.web.requests import WebRequest


class SignInBody(msgspec.Struct, frozen=True):
    user: str
    password: str


class SigningIn:
    """The routes of `/api/session`."""

    def __init__(self, desk: ConsoleDesk, provider: SigningOn | None = None) -> None:
        self._desk = desk
        self._provider = provider

    def routes(self) -> list[ConsoleRoute]:
        return [
            ConsoleRoute("GET", "/api/session", self.show, needs_session=False),
            ConsoleRoute("POST", "/api/session", self.begin, needs_session=False),
            ConsoleRoute("DELETE", "/api/session", self.end),
        ]

    async def show(self, request: WebRequest) -> WebAnswer:
        """The session. One of nobody begins where the console asks for no login."""
        desk = self._desk
        session = desk.guard.find(request)
        if session is not None or desk.asks_for_login:
            return json(await self._shown(session, request))
        session = desk.open_session(NOBODY, "")
        return json(await self._shown(session, request), headers=[self._desk.session_cookie(session)])

    async def begin(self, request: WebRequest) -> WebAnswer:
        """Log in at the broker. Raises WebRefusal: 401, and 429 or 503 of the broker."""
        body = request.json(SignInBody)
        if not self._desk.asks_for_login:
            raise WebRefusal(400, "This console asks for no login.")
        if not self._desk.takes_passwords:
            raise WebRefusal(400, "This console takes no passwords: sign in with its provider.")
        if not 0 < len(body.user) <= USER_CHARACTERS_MAX or len(body.password) > PASSWORD_CHARACTERS_MAX:
            raise _wrong()
        try:
            await self._desk.gateway.accounts.of(body.user, body.password)
        except WebRefusal as refusal:
            # The header of a gateway's refusal would make the browser ask by a dialog of its own.
            raise _wrong() if refusal.status == 401 else refusal from None
        before = self._desk.guard.find(request)
        if before is not None:
            self._desk.close_session(before)
        session = self._desk.open_session(body.user, body.password)
        return json(await self._shown(session, request), headers=[self._desk.session_cookie(session)])

    async def end(self, request: WebRequest) -> WebAnswer:
        """End the session. The answer has the address at which the provider ends its own, where it has one."""
        session = self._desk.guard.session(request)
        self._desk.close_session(session)
        url = None
        if self._provider is not None and session.tokens is not None:
            url = await self._provider.logout_url(session.tokens.id_token, request)
        headers = [self._desk.session_cookie(None)]
        return WebAnswer(204, headers=headers) if url is None else json({"logout_url": url}, headers=headers)

    async def _shown(self, session: Session | None, request: WebRequest) -> dict[str, Any]:
        desk = self._desk
        return {
            "user": session.user or None if session is not None else None,
            "needs_login": desk.asks_for_login and session is None,
            "takes_passwords": desk.takes_passwords,
            "provider": None if self._provider is None else self._provider.name,
            "csrf": None if session is None else session.csrf,
            "read_only": desk.guard.is_read_only,
            "has_node": desk.node is not None,
            "version": desk.version,
        }


def _wrong() -> WebRefusal:
    """The same for a user that is not there and for a wrong password."""
    return WebRefusal(401, "The brokers do not accept this name and password.", UNAUTHENTICATED)
