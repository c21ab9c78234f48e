"""Renews the tokens of sessions before they end, and ends the sessions whose provider gives no more.

Strategy: one task for each session, which sleeps for most of a token's life. A provider that does not answer is asked
again until the token ends. One that refuses has ended the session itself: a user was locked out, or logged out
elsewhere.

Decides nothing about tokens.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from hutong.console.oidc.outcomes import LoginFailure, LoginFault

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.console.oidc.asking import ProviderClient
    from hutong.console.oidc.tokens import SessionTokens
    from hutong.console.sessions import Session

_log: Final = logging.getLogger("hutong.console.oidc")


class TokenRenewals:
    """Of all sessions of a console."""

    def __init__(self, provider: ProviderClient, desk: ConsoleDesk) -> None:
        self._provider = provider
        self._desk = desk
        self._clock = desk.clock
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, session: Session, tokens: SessionTokens) -> None:
        """Renew them as long as their session lasts."""
        task = asyncio.get_running_loop().create_task(self._kept(session, tokens))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _kept(self, session: Session, tokens: SessionTokens) -> None:
        while True:
            due_ms = tokens.ends_ms if tokens.refresh_token is None else tokens.renewal_ms
            await self._desk.pause(max(1, min(due_ms, tokens.ends_ms) - self._clock.monotonic_ms()))
            now_ms = self._clock.monotonic_ms()
            # It may have ended meanwhile: unused, by a logout, or because there were too many.
            if now_ms >= tokens.ends_ms or not self._desk.sessions.is_open(session.token, now_ms):
                break
            if now_ms >= tokens.renewal_ms and not await self._renew(session, tokens):
                break
        self._desk.close_session(session)

    async def _renew(self, session: Session, tokens: SessionTokens) -> bool:
        """False where there are no tokens any more."""
        assert tokens.refresh_token is not None, "without one a session ends with its token"
        try:
            answer = await self._provider.renewed(tokens.refresh_token, tokens.user)
        except LoginFailure as failure:
            _log.warning("the tokens of %s were not renewed: %s", tokens.user, failure.detail)
            tokens.retry(self._clock.monotonic_ms())
            return failure.fault is not LoginFault.REFUSED
        # A logout meanwhile took the tokens away: new ones must not bring them back.
        if not self._desk.sessions.is_open(session.token, self._clock.monotonic_ms()):
            return False
        tokens.take(answer, self._clock.monotonic_ms(), self._clock.wall_ms())
        return True
