"""The guard of all routes: a session for every request, its second token for each one that is not a GET.

Decides nothing about applications.
"""

import hmac
from collections.abc import Awaitable, Coroutine
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from hutong.console.completion import CHANGING, Completion
from hutong.console.routes import FORGED, READ_ONLY, UNAUTHENTICATED, ConsoleRoute
from hutong.console.sessions import BrowserSessions, Session
from hutong.console.signed_in_stream import SignedInStream
from hutong.foundation.clock import Clock
from hutong.web.answers import Answer, StreamedAnswer, WebRefusal
from hutong.web.messages import HttpRequest
from hutong.web.requests import WebRequest
from hutong.web.routes import WebRoute

COOKIE: Final = "hutong_console"
CSRF_HEADER: Final = "x-hutong-csrf"
_SAFE: Final = frozenset({"GET", "HEAD"})


class Guard:
    """Finds the session of a request, and refuses what has none."""

    def __init__(self, sessions: BrowserSessions, clock: Clock, *, is_read_only: bool) -> None:
        self.is_read_only = is_read_only
        self.changes = Completion()
        self._sessions = sessions
        self._clock = clock

    def find(self, request: HttpRequest | WebRequest) -> Session | None:
        """The session of the request's cookie; None without one that is valid."""
        token = cookie_of(request.headers.get("cookie", ""))
        return None if token is None else self._sessions.find(token, self._clock.monotonic_ms())

    def session(self, request: HttpRequest | WebRequest) -> Session:
        """The same; for a change the one that began it. Raises WebRefusal(401)."""
        session = CHANGING.get() or self.find(request)
        if session is None:
            raise WebRefusal(401, "Sign in first.", UNAUTHENTICATED)
        return session

    def check_unforged(self, request: WebRequest, session: Session) -> None:
        """Raises WebRefusal(403) for a request that a page of ours did not make."""
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), session.csrf.encode()):
            raise WebRefusal(403, "The request lacks this session's token. Load the page again.", FORGED)

    def guarded(self, route: ConsoleRoute) -> WebRoute:
        """The route as the web server has it."""
        return WebRoute(route.method, route.pattern, _Guarded(self, route), takes=route.takes, is_public=True)


class _Guarded:
    """A handler behind the guard."""

    __slots__ = ("__name__", "_guard", "_route")

    def __init__(self, guard: Guard, route: ConsoleRoute) -> None:
        self.__name__ = getattr(route.handler, "__name__", "")  # the description of the API has it
        self._guard = guard
        self._route = route

    def __call__(self, request: WebRequest) -> Any:
        route = self._route
        if not route.needs_session:
            return route.handler(request)
        session = self._guard.session(request)
        if request.method not in _SAFE:
            self._guard.check_unforged(request, session)
        if route.changes is not None and self._guard.is_read_only:
            raise WebRefusal(403, "This console is read-only.", READ_ONLY)
        answer = route.handler(request.by(session.principal))
        if route.changes is not None and isinstance(answer, Coroutine):
            return self._guard.changes.of(answer, session)
        return self._until_signed_out(request, answer) if request.method in _SAFE else answer

    async def _until_signed_out(self, request: WebRequest, answer: "Answer | Awaitable[Answer]") -> Answer:
        """The answer; one that is streamed ends with the session."""
        made = await answer if isinstance(answer, Awaitable) else answer
        if not isinstance(made, StreamedAnswer):
            return made
        chunks = SignedInStream(made.chunks, lambda: self._guard.find(request) is not None)
        return replace(made, chunks=chunks)


def cookie_of(header: str, name: str = COOKIE) -> str | None:
    """The console's token in a Cookie header (RFC 6265, 4.2), None where it is missing."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value
