"""A caller's session with one service: which of its calls is which, and below which number all are done with.

A call is done with when it was answered or given up: it is not asked again, so the service may forget it. A session
that has been idle for long is left for a new one, since the service may have forgotten it; calls that are still open in
it keep their ids.

Knows no transport. Time arrives with each call, names of sessions by constructor.
"""

from collections.abc import Callable
from typing import Final

from hutong.rpc.delivery.ids import SEQUENCE_MAX, CallId

IDLE_MS_MAX: Final = 300_000  # a service keeps for at least twice as long what it has heard: KEEP_FOR_S_MIN


class CallerSession:
    def __init__(self, make_session: Callable[[], str]) -> None:
        self._make_session = make_session
        self._session = ""
        self._next = 0
        self._open: dict[int, None] = {}  # in order, so that the first is the least
        self._used_ms = 0

    @property
    def is_idle(self) -> bool:
        return not self._open

    def next_call_id(self, now_ms: int) -> CallId:
        """A new call; `end` follows."""
        is_stale = now_ms - self._used_ms > IDLE_MS_MAX
        if not self._session or is_stale or self._next > SEQUENCE_MAX:
            self._session, self._next, self._open = self._make_session(), 0, {}
        self._used_ms = now_ms
        call = CallId(self._session, self._next)
        self._open[call.sequence] = None
        self._next += 1
        return call

    def end(self, call: CallId) -> None:
        """It is not asked again."""
        if call.session == self._session:
            self._open.pop(call.sequence, None)

    def leave(self, call: CallId) -> None:
        """The service has forgotten the session of this call: the next call begins another."""
        if call.session == self._session:
            self._session = ""

    def acked_below(self, call: CallId) -> int:
        """Return the sequence below which an attempt of `call` acknowledges.

        Never above the call itself, so a late one is harmless.
        """
        return next(iter(self._open), call.sequence) if call.session == self._session else 0
