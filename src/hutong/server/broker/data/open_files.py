"""Open files of the process: their limit, the reserve of the journals, and the share of the clients.

Strategy: a process of our own raises its soft limit to the hard one. The journals have a reserve, because a refused
connection is retried, but a segment without a file takes no records. At most a quarter of the limit keeps closed
segments open for readers; journals need the rest of the reserve to write.

Knows nothing of connections or journals: it has numbers.
"""

import contextlib
import os
from typing import Final

from hutong.reactor.accept.listening_socket import descriptors_max

with contextlib.suppress(ImportError):  # Windows has none
    import resource

_DESCRIPTORS: Final = "/dev/fd"
_WRITING_FILES: Final = 8  # of one journal: active, prepared, checkpoint, index, cleaning's two, their folder
_OTHER_FILES: Final = 64  # the loop's, certificates', scrapers' (16), standard streams, the data folder's lock
_SEGMENTS_OPEN_MIN: Final = 4


def raise_limit() -> None:
    """Let the process have as many open files as it may. A system that refuses leaves it as it is."""
    if "resource" not in globals():
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS takes no soft limit without bound
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """The number of files that the process may have open."""
    return descriptors_max()


def open_now() -> int:
    """The number of files that are open; a small guess on systems that do not say."""
    try:
        return len(os.listdir(_DESCRIPTORS))
    except OSError:
        return _OTHER_FILES


def segments_open_max(files_max: int, journals: int, wanted: int) -> int:
    """Closed segments that each journal may keep open: at most `wanted`, and together a quarter of `files_max`."""
    return min(wanted, max(_SEGMENTS_OPEN_MIN, files_max // 4 // journals - _WRITING_FILES))


def connections_max(files_max: int, open_files: int, journals: int, segments_open: int) -> int:
    """Connections that leave the journals their reserve, which is at most half of all files; at least one."""
    reserve = min(journals * (_WRITING_FILES + segments_open) + _OTHER_FILES, files_max // 2)
    return max(1, files_max - reserve - open_files)
