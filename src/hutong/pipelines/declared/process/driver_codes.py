"""Exit codes of a driver process, as its supervisor reads them."""

from hutong.foundation.errors import ExitCode
from hutong.pipelines.declared.process.restarts import Cause

EXIT_PASSING, EXIT_UNKNOWN = ExitCode.TEMPFAIL, ExitCode.SOFTWARE


def cause_of(code: int) -> Cause:
    """Return the cause of a driver's exit code; a code below 0 is a signal that killed it."""
    if code < 0 or code == EXIT_PASSING:
        return Cause.PASSING
    return Cause.UNKNOWN if code == EXIT_UNKNOWN else Cause.LASTING
