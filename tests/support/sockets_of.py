"""The sockets of another process, to see how it has set them: Linux gives a parent duplicates of its child's.

Raises PermissionError where the system forbids that. Knows nothing of what they are for.
"""

import ctypes
import os
import socket
from collections.abc import Iterator
from typing import Final

_PIDFD_OPEN: Final = 434
_PIDFD_GETFD: Final = 438
_libc = ctypes.CDLL(None, use_errno=True)


def connection_of(pid: int, peer: tuple[str, int]) -> socket.socket:
    """The process's own end of the connection whose other end is `peer`, which is closed with what is returned."""
    for each in _sockets(pid):
        try:
            if each.getpeername()[:2] == peer:
                return each
        except OSError:
            pass  # one that listens
        each.close()
    raise LookupError(f"process {pid} has no connection to {peer}")


def _sockets(pid: int) -> Iterator[socket.socket]:
    process = _call(_PIDFD_OPEN, pid, 0)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                number = _call(_PIDFD_GETFD, process, int(name), 0)
            except FileNotFoundError:
                continue
            try:
                yield socket.socket(fileno=number)
            except OSError:
                os.close(number)  # no socket
    finally:
        os.close(process)


def _call(number: int, *arguments: int) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise FileNotFoundError(code, os.strerror(code)) if code == 9 else PermissionError(code, os.strerror(code))
    return result
