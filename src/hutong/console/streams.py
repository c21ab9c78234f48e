"""Server-sent events (HTML, 9.2) of the console: a round every so often, until the browser goes.

Knows nothing of what is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from hutong.web.answers import StreamedAnswer

EVENTS: Final = "text/event-stream"
QUIET_ROUNDS_MAX: Final = 20
_COMMENT: Final = b": nothing new\n\n"  # so that the server notices a browser that has gone
Pause = Callable[[int], Awaitable[None]]
"""Waits for milliseconds."""


def event(name: str, value: Any) -> bytes:
    """One event, whose data is JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


class Rounds:
    """The parts of an answer: all events of a round at once, then a pause. `make` gives None at the end.

    `close` is called once.

    A class in the place of a generator: one that is closed before its first part never runs, and would never close.
    """

    def __init__(
        self,
        make: Callable[[], Awaitable[Iterable[bytes] | None]],
        pause: Pause,
        interval_ms: int,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._make = make
        self._pause = pause
        self._interval_ms = interval_ms
        self._close: Callable[[], None] | None = close
        self._ready: deque[bytes] = deque()
        self._is_first = True

    def __aiter__(self) -> Rounds:
        return self

    async def __anext__(self) -> bytes:
        quiet = 0
        while not self._ready:
            if not self._is_first and self._interval_ms:
                await self._pause(self._interval_ms)
            self._is_first = False
            made = await self._make()
            if made is None:
                raise StopAsyncIteration
            self._ready.extend(made)
            quiet += 1
            if quiet >= QUIET_ROUNDS_MAX and not self._ready:
                return _COMMENT
        return self._ready.popleft()

    async def aclose(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()


def streamed(rounds: Rounds) -> StreamedAnswer:
    return StreamedAnswer(rounds, EVENTS)
