"""The restart policy for a failed pipeline: restart or not, and after which pause. Pure.

A failure that may pass (an unavailable broker, a killed process) is followed by restarts up to the pipeline's limit; an
unknown failure, by a few; a permanent one, such as an unreadable record, by none. A completed batch in between shows
that the pipeline works and resets the count.
"""

from enum import Enum

from hutong.foundation.errors import ExitCode

EXIT_PASSING, EXIT_UNKNOWN = ExitCode.TEMPFAIL, ExitCode.SOFTWARE
"""Exit codes of a driver process, as its supervisor reads them; any other failure is a lasting one."""
PAUSE_S_FIRST = 1.0
PAUSE_S_MAX = 60.0
UNKNOWN_RESTARTS_MAX = 2


class Cause(Enum):
    """Causes of a driver's exit."""

    PASSING = "passing"
    UNKNOWN = "unknown"
    LASTING = "lasting"


def cause_of(code: int) -> Cause:
    """Return the cause of a driver's exit code; a code below 0 is a signal that killed it."""
    if code < 0 or code == EXIT_PASSING:
        return Cause.PASSING
    return Cause.UNKNOWN if code == EXIT_UNKNOWN else Cause.LASTING


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
