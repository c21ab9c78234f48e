"""Look-ups of hosts' names, on threads that neither a stopping process nor another connection waits for.

A look-up takes as long as the machine's resolver: 20 s were seen for a name that no DNS server knew. Two things are
wrong with the loops' own look-ups. The end of the process waits for their threads (asyncio's executor, libuv's pool),
and uvloop logs the error of one whose waiter has gone.

Knows nothing of connections.
"""

import asyncio
import ipaddress
import socket
from functools import partial

from hutong.runtime.threads.offload import perform, settle
from hutong.runtime.threads.pools import WorkerPool

THREADS_MAX = 8
"""Names looked up at a time. One that hangs must not delay the others; libuv has 4 threads for all."""


class NameLookups:
    """The look-ups of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = WorkerPool(THREADS_MAX, "names")

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """The numeric addresses of a host in the resolver's order, at least one; a numeric one is its own.

        Raises OSError (`socket.gaierror`) for a name that is unknown, LimitExceeded for too many at a time.
        """
        if _is_numeric(host):
            return [host]
        future: asyncio.Future[list[str]] = self._loop.create_future()
        self._pool.execute(partial(perform, partial(_look_up, host, port), partial(settle, future), self._loop))
        return await future

    def close(self) -> None:
        """Let the threads end, each after what it looks up now. Does not wait."""
        self._pool.begin_close()


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A label is empty or longer than 63 bytes: Python's codec `idna` says so before any resolver is asked.
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, f"{host[:80]!r} is no host name: {error}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
