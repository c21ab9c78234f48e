"""Decides when a provider's keys are fetched: periodically, after a failure, and for a token whose key is unknown.

Strategy: one fetch at a time. What was fetched last stays in use while later fetches fail, which are repeated with
growing pauses. Clients can name any key id, so an unknown one brings a fetch only if the last began long enough ago.

Knows nothing of keys, clocks or how they are fetched: time arrives with each event.
"""

from __future__ import annotations

from typing import Final

RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 60_000
_DOUBLINGS_MAX: Final = 10


class KeyFetches:
    """Of one provider. Invariant: `due_at_ms` is None exactly while a fetch is under way."""

    __slots__ = ("_began_at_ms", "_failures", "_interval_ms", "_unknown_interval_ms", "due_at_ms")

    def __init__(self, interval_ms: int, unknown_interval_ms: int, now_ms: int) -> None:
        """Fetch every `interval_ms`; for an unknown key not sooner than `unknown_interval_ms` after the last."""
        self._interval_ms = interval_ms
        self._unknown_interval_ms = unknown_interval_ms
        self._began_at_ms: int | None = None
        self._failures = 0
        self.due_at_ms: int | None = now_ms

    @property
    def is_fetching(self) -> bool:
        return self.due_at_ms is None

    def begin(self, now_ms: int) -> None:
        assert not self.is_fetching, "one fetch at a time"
        self._began_at_ms, self.due_at_ms = now_ms, None

    def ended(self, now_ms: int, *, is_good: bool) -> None:
        """Plan the next fetch."""
        assert self.is_fetching, "a fetch ended that had not begun"
        self._failures = 0 if is_good else self._failures + 1
        self.due_at_ms = now_ms + (self._interval_ms if is_good else self._retry_ms())

    def key_is_unknown(self, now_ms: int) -> bool:
        """Return True if a token of an unknown key shall wait for a fetch, which is under way or may begin now."""
        if self.is_fetching or self._began_at_ms is None:
            return True
        return now_ms - self._began_at_ms >= self._unknown_interval_ms

    def _retry_ms(self) -> int:
        pause_ms = RETRY_MS_MIN << min(self._failures - 1, _DOUBLINGS_MAX)
        return min(pause_ms, RETRY_MS_MAX, self._interval_ms)
