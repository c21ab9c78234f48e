"""The one error tree.

    HutongError
    ├── PeerError                 the other side is at fault: it is answered or closed, we go on
    │   ├── ProtocolError         bytes that break the wire format; the connection is closed
    │   └── Refused               a valid request that this node will not do; carries the wire error code
    ├── LimitExceeded             a named bound of ours refused; names it
    ├── WaitError                 a parked continuation ended without its value
    │   ├── Expired               its deadline passed
    │   ├── OwnerGone             the connection or component it belonged to ended
    │   └── CoordinatorUnavailable  the cluster's coordinator does not answer; the outcome is unknown
    ├── StorageError              the disk, or what it holds, is at fault
    │   ├── StorageShortage       out of open files, memory or threads; writes are refused until there are some
    │   │   └── DiskFull          no space, the same
    │   ├── FlushFailed           fsync failed once: the partition group has failed for good
    │   ├── CorruptData           bytes on disk fail their check; names file and position
    │   └── UnknownFormat         written by another version; names it
    └── UsageError                the user's command, setting or path is at fault; one sentence, what to do

Anything else that is raised is our own fault and crashes its owner loudly. Wire error codes are attached where the
fault is known; a package that speaks another protocol translates by table at its boundary.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of commands: the names and numbers of sysexits.h, and two of shells (128 + signal number).

    `os.EX_*` has the same numbers, but only on Unix. Windows lacks those names, and the command line shall run there.
    """

    USAGE = 64
    DATAERR = 65
    NOINPUT = 66
    UNAVAILABLE = 69
    SOFTWARE = 70
    CANTCREAT = 73
    IOERR = 74
    TEMPFAIL = 75
    PROTOCOL = 76
    NOPERM = 77
    CONFIG = 78
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class HutongError(Exception):
    """Root of every error this project raises on purpose."""


class PeerError(HutongError):
    """The other side is at fault."""


class ProtocolError(PeerError):
    """Bytes that break the wire format. The only error a decoder lets out."""


class Refused(PeerError):
    """A request that is well formed but refused.

    `code` is the wire error code (Kafka's numbers, see `hutong.wire.kafka.error_codes`).
    """

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or f"refused with error code {code}")
        self.code = code
        self.message = message


class LimitExceeded(HutongError):
    """A named bound refused to grow.

    `limit` is the name of the bound as in the settings or the module, `maximum` its value.
    """

    def __init__(self, limit: str, maximum: int) -> None:
        super().__init__(f"{limit} is {maximum} and would be exceeded")
        self.limit = limit
        self.maximum = maximum


class WaitError(HutongError):
    """A parked continuation ended without its value."""


class Expired(WaitError):
    """The deadline passed first."""


class OwnerGone(WaitError):
    """The owner (a connection, a component) ended first."""


class NothingSent(OwnerGone):
    """There is no way to the one that was asked, so the question never left: it may be asked again."""


# A wait, not a refusal: a request that was cut off may have been carried out (ZooKeeper's ConnectionLoss).
class CoordinatorUnavailable(WaitError):
    """The service that agrees for the cluster does not answer. What was asked of it may have happened."""


class StorageError(HutongError):
    """The disk, or what it holds, is at fault."""


class StorageShortage(StorageError):
    """The machine is short of something that comes back: writes are refused and tried again, reads go on."""


class DiskFull(StorageShortage):
    """No space is left on the disk."""


class FlushFailed(StorageError):
    """fsync failed once; the kernel may have marked the pages clean, so nothing after it can be trusted (ATC '20)."""


class CorruptData(StorageError):
    """Bytes on disk fail their check. The message names the file and the position."""


class UnknownFormat(StorageError):
    """A file on disk has a format that this version does not read. The message names file and format."""


class UsageError(HutongError):
    """The user's command, setting or path is at fault: one sentence that says what is wrong and what to do.

    `exit_code` ends the command that the error reaches.
    """

    def __init__(self, message: str, exit_code: int = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
