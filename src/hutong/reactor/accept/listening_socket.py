"""One socket that listens: takes connections from the kernel's queue, or leaves them there.

Strategy: connections are accepted here, a bounded number in each loop iteration, and none while it is paused. The
loops' own servers accept every connection. Here connections without room stay in the kernel's queue, whose length is
bounded too, as in Kafka's acceptor. A connection that would take the process's last descriptors is closed: those are
for files. The kernel assigns the lowest free descriptor, so the number of a new one shows how many are in use.

Knows nothing of limits, TLS or clients.
"""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

with contextlib.suppress(ImportError):  # Windows has none
    import resource

UNBOUNDED: Final = 1 << 30  # descriptors, where the system has no limit
ACCEPTED_PER_TURN: Final = 64
DESCRIPTORS_KEPT: Final = 128
"""Of the process, for files; of a process that may have few, a quarter."""

Take = Callable[[socket.socket, str], None]
"""Is given a connection that does not block, and the address it comes from."""


def descriptors_max() -> int:
    """The number of descriptors that the process may have."""
    if "resource" not in globals():
        return UNBOUNDED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNBOUNDED if soft == resource.RLIM_INFINITY else soft


def descriptors_for_connections() -> int:
    """The descriptor from which on connections are refused."""
    soft = descriptors_max()
    return soft - min(DESCRIPTORS_KEPT, soft // 4)


class ListeningSocket:
    """Asks `has_room` before each accept; False pauses it. `failed` gets the error of an accept."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        has_room: Callable[[], bool],
        take: Take,
        failed: Callable[[OSError], None],
        descriptors_max: int | None = None,
    ) -> None:
        """`listener` is bound, does not block, and is this object's from now on.

        No connection has a descriptor from `descriptors_max` on: the default is what the process may have now, less
        what is kept for files.
        """
        self._loop = loop
        self._listener = listener
        self._has_room = has_room
        self._take = take
        self._failed = failed
        self._descriptors_max = descriptors_for_connections() if descriptors_max is None else descriptors_max

    def start(self, backlog: int) -> None:
        self._listener.listen(backlog)
        self.resume()

    def pause(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)

    def resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """A second call does nothing."""
        self.pause()
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            if not self._has_room():
                return
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue  # it went while it waited
            except OSError as error:
                self._failed(error)
                return
            if connection.fileno() >= self._descriptors_max:
                connection.close()
                self._failed(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
                return
            connection.setblocking(False)
            self._take(connection, address[0])
