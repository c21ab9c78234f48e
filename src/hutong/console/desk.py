"""The things that all rooms of the console share.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from hutong.console.audit import Audit, AuditRecord
from hutong.console.guard import Guard
from hutong.console.masks import NO_MASKS, Masks
from hutong.console.sessions import BrowserSessions, Session

if TYPE_CHECKING:
    from hutong.console.node_facts import NodeFacts
    from hutong.console.pipelines.pipeline_facts import PipelineFacts
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
        pipelines: PipelineFacts | None = None,
    ) -> None:
        """`pause` waits for milliseconds. `is_secure`: it is served through TLS, as its cookie says."""
        self.clock = clock
        self.pause = pause
        self.version = version
        self.is_secure = is_secure
        self.node = node
        self.masks = masks
        self.pipelines = pipelines
        self.sessions = BrowserSessions()
        self.guard = Guard(self.sessions, clock, is_read_only=is_read_only)
        self.gateway: Gateway
        self._audit: Audit
        self._auditor: Account | None = None
        self._make_token = make_token

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

    def open_session(self, user: str, password: str) -> Session:
        return self.sessions.open(self._make_token(), self._make_token(), user, password, self.clock.monotonic_ms())

    def session(self, request: WebRequest) -> Session:
        """The session of the request, which the guard has let in."""
        return self.guard.session(request)

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
