"""Changes that are carried to their end, with their record in the audit, also where the browser has gone.

Strategy: a request's task ends with its connection, and its session with a logout. A change therefore runs as a task of
the console, with the session that began it. Otherwise somebody could change things and leave no trace by leaving early.

Decides nothing about changes.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final

from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from hutong.console.sessions import Session
    from hutong.web.answers import Answer

CHANGING: Final[ContextVar[Session | None]] = ContextVar("changing", default=None)
"""The session of the change that runs."""


class Completion:
    """All changes under way."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Answer], str] = {}  # each with the token of its session
        self._after: dict[str, Callable[[], None]] = {}  # by that token

    async def of(self, change: Coroutine[Any, Any, Answer], session: Session) -> Answer:
        """The outcome of a change. It goes on when the caller is cancelled."""
        context = copy_context()
        context.run(CHANGING.set, session)
        task = asyncio.get_running_loop().create_task(change, context=context)
        self._tasks[task] = session.token
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise

    def after(self, session: Session, call: Callable[[], None]) -> None:
        """Call it once no change of this session is under way: now, or at the end of the last."""
        if session.token in self._tasks.values():
            self._after[session.token] = call
        else:
            call()

    async def close(self) -> None:
        """Wait for all of them."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        token = self._tasks.pop(task)
        if token not in self._tasks.values() and token in self._after:
            self._after.pop(token)()


def _report(task: asyncio.Task[Answer]) -> None:
    """Report a fault that nobody waits for. A refusal is none."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, WebRefusal):
        context = {"message": "fault in a change whose browser has gone", "exception": error}
        task.get_loop().call_exception_handler(context)
