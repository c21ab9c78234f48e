"""Callers that wait until a state topic has applied an offset: at a node's start, and to read what they have written.

Knows nothing of logs.
"""

from __future__ import annotations

from typing import Final

from hutong.foundation.errors import HutongError, LimitExceeded
from hutong.foundation.waiting.pending import Continuation

WAITS_MAX: Final = 100_000


class AppliedWaits:
    """Waits for offsets, which rise. Few at a time, so each advance looks at all of them."""

    def __init__(self) -> None:
        self._waits: list[tuple[int, Continuation[None]]] = []

    def __len__(self) -> int:
        return len(self._waits)

    def park(self, offset: int, then: Continuation[None]) -> None:
        """Call `then` once everything before `offset` is applied; at once with LimitExceeded where too many wait."""
        if len(self._waits) >= WAITS_MAX:
            then(LimitExceeded("WAITS_MAX", WAITS_MAX))
        else:
            self._waits.append((offset, then))

    def advanced(self, offset: int) -> None:
        """Resume those that waited for no more than this."""
        if not self._waits:
            return
        due = [then for wanted, then in self._waits if wanted <= offset]
        if due:
            self._waits = [each for each in self._waits if each[0] > offset]
        for then in due:
            then(None)

    def fail_all(self, error: HutongError) -> None:
        waits, self._waits = self._waits, []
        for _, then in waits:
            then(error)
