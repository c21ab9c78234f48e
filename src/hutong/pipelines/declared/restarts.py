"""Whether a pipeline that failed is started again, and after which pause. Pure.

A failure that may pass (a broker is away, a process was killed) is followed by another start up to the pipeline's own
limit; one whose nature is unknown, a few times; one that would come again, such as a record that cannot be read, never.
A batch that was done in between shows that the pipeline works: counting begins anew.
"""

from enum import Enum

PAUSE_S_FIRST = 1.0
PAUSE_S_MAX = 60.0
UNKNOWN_RESTARTS_MAX = 2


class Cause(Enum):
    """Why a driver ended."""

    PASSING = "passing"
    UNKNOWN = "unknown"
    LASTING = "lasting"


class Restarts:
    """Counts the failures in a row of one pipeline."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failures = 0

    def after(self, cause: Cause, *, progressed: bool) -> float | None:
        """The pause in seconds before the next start, None to give up."""
        if progressed:
            self._failures = 0
        self._failures += 1
        most = {Cause.PASSING: self._most, Cause.UNKNOWN: min(UNKNOWN_RESTARTS_MAX, self._most), Cause.LASTING: 0}
        if self._failures > most[cause]:
            return None
        return min(PAUSE_S_FIRST * float(2 ** min(self._failures - 1, 16)), PAUSE_S_MAX)
