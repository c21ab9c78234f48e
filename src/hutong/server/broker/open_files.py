"""Open files of the process: how many there may be, how many journals keep for themselves, how many clients may take.

Strategy: the soft limit is raised to the hard one by a process that is ours. Of what there is, the journals have a
reserve: a connection that is refused comes again, a segment without a file takes no records. Closed segments are kept
open for readers only as far as a quarter of the limit goes; the rest of the reserve is what journals need to write.

Knows nothing of connections or journals: it has numbers.
"""

import contextlib
import os
import resource
from typing import Final

_DESCRIPTORS: Final = "/dev/fd"
_WRITING_FILES: Final = 8  # of one journal: active, prepared, checkpoint, index, cleaning's two, their folder
_OTHER_FILES: Final = 64  # the loop's, certificates', scrapers' (16), standard streams, the data folder's lock
_SEGMENTS_OPEN_MIN: Final = 4


def raise_limit() -> None:
    """Let the process have as many open files as it may. A system that refuses leaves it as it is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # macOS takes no soft limit without bound
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """How many files the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def open_now() -> int:
    """How many it has; a system that does not say is taken to have few."""
    try:
        return len(os.listdir(_DESCRIPTORS))
    except OSError:
        return _OTHER_FILES


def segments_open_max(files_max: int, journals: int, wanted: int) -> int:
    """How many closed segments each journal may keep open: at most `wanted`, and together a quarter of `files_max`."""
    return min(wanted, max(_SEGMENTS_OPEN_MIN, files_max // 4 // journals - _WRITING_FILES))


def connections_max(files_max: int, open_files: int, journals: int, segments_open: int) -> int:
    """How many connections leave the journals their reserve, which is at most half of all; at least one."""
    reserve = min(journals * (_WRITING_FILES + segments_open) + _OTHER_FILES, files_max // 2)
    return max(1, files_max - reserve - open_files)
