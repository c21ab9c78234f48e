"""Refused groups in the log: one line for each interval, since a refused client tries again and again."""

import logging
from typing import Final

from hutong.foundation.clock import Clock

LOG_INTERVAL_MS: Final = 10_000
_log = logging.getLogger("hutong.groups")


class GroupRefusals:
    """Logs groups that are refused for want of room."""

    __slots__ = ("_clock", "_logged_at_ms", "_skipped")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_at_ms: int | None = None
        self._skipped = 0

    def log_refusal(self, group_id: str, holder: str, why: str) -> None:
        """Log the refusal, unless another one was logged just now."""
        now_ms = self._clock.monotonic_ms()
        if self._logged_at_ms is not None and now_ms - self._logged_at_ms < LOG_INTERVAL_MS:
            self._skipped += 1
            return
        _log.warning(
            "group %s is refused to %s: %s (%d more refused before)", group_id[:100], holder, why, self._skipped
        )
        self._logged_at_ms, self._skipped = now_ms, 0
