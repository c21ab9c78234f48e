"""A bound on lines in the log: clients cause them, so a client could fill the disk with them.

Knows nothing of what is logged. Time arrives with each call.
"""

from typing import Final

LOG_INTERVAL_MS: Final = 1_000


class LogLimit:
    """A bound on log lines: at most one in each interval."""

    __slots__ = ("_logged_at_ms", "_skipped")

    def __init__(self) -> None:
        self._logged_at_ms = -LOG_INTERVAL_MS
        self._skipped = 0

    def admit(self, now_ms: int) -> int | None:
        """The number of lines skipped since the last one; None if this line must be skipped, too."""
        if now_ms - self._logged_at_ms < LOG_INTERVAL_MS:
            self._skipped += 1
            return None
        skipped, self._skipped = self._skipped, 0
        self._logged_at_ms = now_ms
        return skipped
