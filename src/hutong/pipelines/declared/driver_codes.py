"""What the exit code of a driver process means to its supervisor."""

from hutong.foundation.errors import ExitCode
from hutong.pipelines.declared.restarts import Cause

EXIT_PASSING, EXIT_UNKNOWN = ExitCode.TEMPFAIL, ExitCode.SOFTWARE


def cause_of(code: int) -> Cause:
    """Why a driver ended with this code; a code below 0 is a signal that killed it."""
    if code < 0 or code == EXIT_PASSING:
        return Cause.PASSING
    return Cause.UNKNOWN if code == EXIT_UNKNOWN else Cause.LASTING
