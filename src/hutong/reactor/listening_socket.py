"""One socket that listens: takes connections from the kernel's queue, or leaves them there.

Strategy: accepted by hand, a bounded number in each turn of the loop, and not watched while it is paused. The loops'
own servers accept whatever comes; here those for whom there is no room stay in the kernel's queue, whose length is
bounded too, as Kafka's acceptor has it.

Knows nothing of limits, TLS or who is served.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

ACCEPTED_PER_TURN: Final = 64

Take = Callable[[socket.socket, str], None]
"""Is given a connection that does not block, and the address it comes from."""


class ListeningSocket:
    """Asks `has_room` before each connection; who says no has paused it. `failed` is told of an accept that fails."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        has_room: Callable[[], bool],
        take: Take,
        failed: Callable[[OSError], None],
    ) -> None:
        """`listener` is bound, does not block, and is this object's from now on."""
        self._loop = loop
        self._listener = listener
        self._has_room = has_room
        self._take = take
        self._failed = failed

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
            connection.setblocking(False)
            self._take(connection, address[0])
