"""Sessions of browsers: who logged in, and the tokens that prove it.

Strategy: a session has two random tokens. The cookie carries one, which scripts cannot read. Scripts send the other in
a header, which a foreign page can neither read nor send: so a change needs both (OWASP's sheet on CSRF, synchronizer
token).

Decides without clock or randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hutong.console.limits import SESSION_IDLE_MS, SESSION_MS_MAX, SESSIONS_MAX
from hutong.security.principals import ANONYMOUS, USER, Principal

if TYPE_CHECKING:
    from hutong.console.oidc.tokens import SessionTokens

NOBODY: Final = ""


@dataclass(slots=True)
class Session:
    """One browser's. `user` is empty where the console asks for no login. `undo` and the like belong to rooms."""

    token: str = field(repr=False)
    csrf: str = field(repr=False)
    user: str
    password: str = field(repr=False)  # the clients of its user are made again when they were idle
    opened_ms: int
    used_ms: int
    tokens: SessionTokens | None = None  # of a login at a provider, which has no password

    @property
    def principal(self) -> Principal:
        return Principal(USER, self.user) if self.user else ANONYMOUS


class BrowserSessions:
    """All sessions, by the token of the cookie."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, token: str, csrf: str, user: str, password: str, now_ms: int, tokens: SessionTokens | None = None
    ) -> Session:
        """Begin a session. Above the bound the one that was used least recently ends."""
        self._end_expired(now_ms)
        while len(self._sessions) >= SESSIONS_MAX:
            oldest = min(self._sessions.values(), key=lambda session: session.used_ms)
            del self._sessions[oldest.token]
        session = Session(token, csrf, user, password, opened_ms=now_ms, used_ms=now_ms, tokens=tokens)
        self._sessions[token] = session
        return session

    def find(self, token: str, now_ms: int) -> Session | None:
        """The session of a cookie, which is in use now; None for one that has ended."""
        session = self._sessions.get(token)
        if session is None:
            return None
        if _has_expired(session, now_ms):
            del self._sessions[token]
            return None
        session.used_ms = now_ms
        return session

    def is_open(self, token: str, now_ms: int) -> bool:
        """The same question without using it."""
        session = self._sessions.get(token)
        return session is not None and not _has_expired(session, now_ms)

    def close(self, token: str) -> None:
        """End a session."""
        self._sessions.pop(token, None)

    def _end_expired(self, now_ms: int) -> None:
        self._sessions = {
            token: session for token, session in self._sessions.items() if not _has_expired(session, now_ms)
        }


def _has_expired(session: Session, now_ms: int) -> bool:
    if session.tokens is not None and now_ms >= session.tokens.ends_ms:
        return True
    return now_ms - session.used_ms > SESSION_IDLE_MS or now_ms - session.opened_ms > SESSION_MS_MAX
