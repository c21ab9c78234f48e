"""Streams of an implementation, one item at a time: requested on the server's loop, produced in the service's context.

Strategy: a step in the service's context takes the next item and delivers it. Nothing is produced ahead, so the
generator pauses while its reader is slow. A reader that stops closes it: a running step is cancelled, and the generator
cleans up.

Knows no gRPC.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, Protocol

from hutong.rpc.call import Done, Outcome
from hutong.rpc.errors import OUTCOME_UNKNOWN_CODE, Failure
from hutong.runtime.contexts.contexts import Context

END: Final = Outcome()
"""The sentinel after the last item."""


class Streaming(Protocol):
    """A dispatcher, as the stream's owner."""

    context: Context

    def failure_of(self, error: BaseException, where: str) -> Failure:
        """Convert an error to a failure."""


class Pulling:
    """One stream. `ask` and `close` from one thread; `ask` again only after the previous item."""

    __slots__ = ("_action", "_is_closed", "_items", "_owner", "_task")

    def __init__(self, items: AsyncIterator[Any], owner: Streaming, action: str) -> None:
        self._items = items
        self._owner = owner
        self._action = action
        self._task: asyncio.Task[Any] | None = None
        self._is_closed = False

    def ask(self, done: Done) -> None:
        """Deliver the next item, END, or a failure, on any thread. Raises LimitExceeded."""
        try:
            self._owner.context.run(self._step, done)
        except RuntimeError:
            done(Outcome(failure=Failure(OUTCOME_UNKNOWN_CODE, f"the service of {self._action!r} has been closed")))

    def close(self) -> None:
        """Nothing more is wanted. Harmless at the end of the stream, and where the context has ended."""
        with suppress(RuntimeError):
            self._owner.context.run(self._end, None)

    async def _step(self, done: Done) -> None:
        if self._is_closed:
            return
        self._task = asyncio.current_task()
        try:
            item = await self._items.__anext__()
        except StopAsyncIteration:
            done(END)
        except asyncio.CancelledError as error:
            done(Outcome(failure=self._owner.failure_of(error, self._action)))
            raise
        except Exception as error:  # noqa: BLE001  # a supervisor: implementations are other people's code
            done(Outcome(failure=self._owner.failure_of(error, self._action)))
        else:
            done(Outcome(item))
        finally:
            self._task = None

    async def _end(self, _: None) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()
