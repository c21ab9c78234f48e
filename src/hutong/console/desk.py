"""The things that all rooms of the console share.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hutong.console.audit import Audit, AuditRecord
from hutong.console.guard import COOKIE, Guard
from hutong.console.masks import NO_MASKS, Masks
from hutong.console.outer_ports import NO_PORTS, OuterPorts
from hutong.console.sessions import BrowserSessions, Session

if TYPE_CHECKING:
    from hutong.console.node_facts import NodeFacts
    from hutong.console.oidc.tokens import SessionTokens
    from hutong.console.schemas.registry_api import RegistryApi
    from hutong.console.streams import Pause
    from hutong.foundation.clock import Clock
    from hutong.rest.accounts import Account
    from hutong.rest.gateway import Gateway
    from hutong.web.messages import HttpRequest
    from hutong.web.requests import WebRequest

T = TypeVar("T")
MakeToken = Callable[[], str]
"""Makes a token that nobody can guess."""


class ConsoleDesk:
    """`node` are the facts of the node that serves the console; None where it looks at other brokers."""

    def __init__(
        self,
        clock: Clock,
        make_token: MakeToken,
        pause: Pause,
        *,
        version: str,
        is_read_only: bool = False,
        is_secure: bool = False,
        node: NodeFacts | None = None,
        masks: Masks = NO_MASKS,
        outer: OuterPorts = NO_PORTS,
    ) -> None:
        """`pause` waits for milliseconds. `is_secure`: it is served through TLS, as its cookie says."""
        self.clock = clock
        self.pause = pause
        self.version = version
        self.is_secure = is_secure
        self.node = node
        self.masks = masks
        self.outer = outer
        self.named_registry: RegistryApi | None = None  # of the settings
        self.sessions = BrowserSessions()
        self.guard = Guard(self.sessions, clock, is_read_only=is_read_only)
        self.gateway: Gateway
        self._audit: Audit
        self._auditor: Account | None = None
        self.make_token = make_token

    def connect(self, gateway: Gateway, auditor: Account | None = None) -> None:
        """Give it the brokers' clients, and those that write the audit; without an `auditor` each user's do."""
        self.gateway = gateway
        self._audit = Audit(gateway)
        self._auditor = auditor

    @property
    def asks_for_login(self) -> bool:
        return self.gateway.accounts.asks_for_login

    async def close(self) -> None:
        """Close all clients."""
        await self.gateway.close()
        if self._auditor is not None:
            await self.gateway.blocking(self._auditor.close)

    @property
    def takes_passwords(self) -> bool:
        """True where users may sign in by name and password."""
        return self.asks_for_login and self.gateway.accounts.takes_passwords

    def open_session(self, user: str, password: str, tokens: SessionTokens | None = None) -> Session:
        token, csrf = self.make_token(), self.make_token()
        return self.sessions.open(token, csrf, user, password, self.clock.monotonic_ms(), tokens)

    def close_session(self, session: Session) -> None:
        """End it, and the logins of its clients where they have tokens of its own.

        A change that is under way keeps them until its record is in the audit.
        """
        self.sessions.close(session.token)
        if session.tokens is not None:
            self.guard.changes.after(session, partial(self._end_tokens, session.tokens))

    def _end_tokens(self, tokens: SessionTokens) -> None:
        tokens.end()
        self.gateway.accounts.forget(tokens)

    def session_cookie(self, session: Session | None) -> tuple[str, str]:
        """The header that gives a browser its session, or takes it away."""
        secure = "; Secure" if self.is_secure else ""
        value, end = ("", "; Max-Age=0") if session is None else (session.token, "")
        return ("Set-Cookie", f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}")

    def session(self, request: WebRequest) -> Session:
        """The session of the request, which the guard has let in."""
        return self.guard.session(request)

    def tokens(self, request: HttpRequest | WebRequest) -> SessionTokens | None:
        """The tokens of the request's user, None for one with a password. Raises WebRefusal(401)."""
        return self.guard.session(request).tokens

    def credentials(self, request: HttpRequest | WebRequest) -> tuple[str, bytes]:
        """Name and password of the request's user. Raises WebRefusal(401)."""
        session = self.guard.session(request)
        return session.user, session.password.encode()

    async def account(self, request: WebRequest) -> Account:
        """The Kafka clients of the request's user. Raises WebRefusal: 401, 429, 503."""
        return await self.gateway.account(request)

    async def blocking(self, call: Callable[[], T]) -> T:
        """The outcome of a call on another thread. Raises WebRefusal for an error of the client library."""
        return await self.gateway.blocking(call)

    async def record(
        self, request: WebRequest, change: str, target: str, before: Any = None, after: Any = None
    ) -> None:
        """Write a change that was done to the audit."""
        who = self.session(request).user or str(request.principal)
        account = self._auditor or await self.account(request)
        record = AuditRecord(self.clock.wall_ms(), who, request.address, change, target, before, after)
        await self._audit.record(account, record)
