"""Faults of a disk by plan: which call, on which file, fails how, or takes how long.

Strategy: a plan is a list of faults; each says which operation of the disk port on which paths it meets, which of these
calls it lets pass first and how many it meets then. A disk asks its plan before every call. Nothing happens by chance,
and a plan may be changed while the disk is in use, from another thread too.

Knows nothing of how a disk carries a call out.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from hutong.foundation.errors import FlushFailed, StorageError
from hutong.journal.files.disk import error_for

ACTIONS: Final = {  # operation of the port -> its words in the real disk's errors
    "open": "open",
    "create": "create",
    "rename": "rename",
    "link": "link",
    "unlink": "remove",
    "list": "list",
    "make_directory": "create",
    "sync_directory": "flush",
    "free_bytes": "examine",
    "write": "write",
    "read": "read",  # also into memory that is given
    "read_cached": "read",
    "flush": "flush",
    "preallocate": "reserve space in",
    "truncate": "truncate",
    "size": "examine",
}
FLUSHES: Final = frozenset({"flush", "sync_directory"})


@dataclass(slots=True)
class DiskFault:
    """One fault. Without an error it only takes time. Raises ValueError for an operation that no disk has."""

    operation: str  # of the disk port, `*` for any
    pattern: str = "*"  # of the whole path, as fnmatch has it
    error: int | None = None  # an errno
    after: int = 0  # calls that pass before the first one it meets
    times: int | None = None  # calls that it meets; None: every one from then on
    latency_ms: int = 0
    lands_bytes: int = 0  # of a write that fails, how much reaches the file all the same
    seen: int = 0  # calls that were its concern so far

    def __post_init__(self) -> None:
        if self.operation != "*" and self.operation not in ACTIONS:
            raise ValueError(f"no disk has an operation {self.operation}")

    def meets(self, operation: str, path: Path) -> bool:
        """Count the call if it is of this fault's kind; whether the fault strikes it."""
        if self.operation not in ("*", operation) or not fnmatchcase(str(path), self.pattern):
            return False
        self.seen += 1
        number = self.seen - self.after
        return number > 0 and (self.times is None or number <= self.times)


class FaultPlan:
    """The faults of one disk. `slept_ms` sums the latencies; unless given a `sleep` nobody really waits for them."""

    def __init__(
        self, faults: Iterable[DiskFault] = (), sleep: Callable[[float], None] = lambda _seconds: None
    ) -> None:
        self.faults = list(faults)
        self.slept_ms = 0
        self._sleep = sleep
        self._lock = threading.Lock()  # workers call at once, and every call counts

    def add(self, operation: str, error: int | None = None, **more: object) -> DiskFault:
        """Let a further fault strike from now on; see `Fault` for what it takes."""
        fault = DiskFault(operation, error=error, **more)  # type: ignore[arg-type]
        with self._lock:
            self.faults.append(fault)
        return fault

    def replace(self, faults: Iterable[DiskFault]) -> None:
        """Let these faults strike from now on, and none of those before."""
        with self._lock:
            self.faults[:] = faults

    def heal(self) -> None:
        """No fault strikes any more."""
        self.replace(())

    def strike(self, operation: str, path: Path) -> DiskFault | None:
        """Called before each call: takes its time, and returns the fault that makes it fail."""
        with self._lock:
            struck = [fault for fault in self.faults if fault.meets(operation, path)]
        latency_ms = sum(fault.latency_ms for fault in struck)
        if latency_ms:
            self.slept_ms += latency_ms
            self._sleep(latency_ms / 1000)
        return next((fault for fault in struck if fault.error is not None), None)


def raised_by(fault: DiskFault, operation: str, path: Path) -> StorageError:
    """The error that the real disk raises for a system call that fails in that way."""
    code = fault.error or errno.EIO
    if operation in FLUSHES:
        return FlushFailed(f"cannot flush {path}: {os.strerror(code)}")
    return error_for(ACTIONS[operation], path, OSError(code, os.strerror(code)))
