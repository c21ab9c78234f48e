"""The entry point `hutong`: choose the path, turn errors into one sentence and an exit code.

Strategy: `hutong serve` must answer its first client within half a second of being typed, so it leaves here before the
command framework (typer and rich, about 0.15 s) is imported. Every other command goes through `app`.

Knows nothing of what the commands do.
"""

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from hutong.foundation.errors import (
    CorruptData,
    DiskFull,
    ExitCode,
    HutongError,
    LimitExceeded,
    StorageError,
    UnknownFormat,
    UsageError,
)

if TYPE_CHECKING:
    from hutong.server.broker.system_ports import SystemPorts

COMMAND_PACKAGES = ("confluent_kafka", "psutil", "rich", "typer")  # of the extra `cli`; `hutong serve` needs none

EXIT_CODES: tuple[tuple[type[HutongError], int], ...] = (  # the first that fits wins, so the narrow ones come first
    (CorruptData, ExitCode.DATAERR),
    (UnknownFormat, ExitCode.DATAERR),
    (DiskFull, ExitCode.CANTCREAT),
    (StorageError, ExitCode.IOERR),
    (LimitExceeded, ExitCode.UNAVAILABLE),
)


def main() -> NoReturn:
    """Run the command in `sys.argv` and exit: 0, or a code of sysexits.h after one sentence on standard error."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _quiet_broken_pipe()
    sys.exit(code)


def run(arguments: list[str], ports: "SystemPorts | None" = None) -> int:
    """Run a command line and return its exit code. Errors of ours print a sentence; any other is a bug, and raised.

    A node touches its machine through `ports`, if they are given.
    """
    try:
        if arguments[:1] == ["serve"]:
            from hutong.cli.node.serve import serve

            return serve(arguments[1:], ports)
        from hutong.cli.app import run_app

        return run_app(arguments)
    except HutongError as error:
        print(f"hutong: {error}", file=sys.stderr)
        return _exit_code(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in COMMAND_PACKAGES:
            raise
        print(
            f"hutong: This command needs the package {package}, which is not installed: pip install 'hutong[cli]'.",
            file=sys.stderr,
        )
        return ExitCode.UNAVAILABLE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        return _quiet_broken_pipe()


def _exit_code(error: HutongError) -> int:
    if isinstance(error, UsageError):
        return error.exit_code
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), ExitCode.SOFTWARE)


def _quiet_broken_pipe() -> int:
    """Give the interpreter's own flush at exit somewhere to write to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE
