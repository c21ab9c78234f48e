"""Refused groups in the log: one line in a while is enough, since a refused client tries again and again."""

import logging
from typing import Final

from hutong.foundation.clock import Clock

TELL_INTERVAL_MS: Final = 10_000
_log = logging.getLogger("hutong.groups")


class GroupRefusals:
    """Tells of groups that find no room."""

    __slots__ = ("_clock", "_logged_at_ms", "_untold")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_at_ms: int | None = None
        self._untold = 0

    def log_refusal(self, group_id: str, holder: str, why: str) -> None:
        """Log the refusal, unless another one was logged just now."""
        now_ms = self._clock.monotonic_ms()
        if self._logged_at_ms is not None and now_ms - self._logged_at_ms < TELL_INTERVAL_MS:
            self._untold += 1
            return
        _log.warning(
            "group %s is refused to %s: %s (%d more refused before)", group_id[:100], holder, why, self._untold
        )
        self._logged_at_ms, self._untold = now_ms, 0
