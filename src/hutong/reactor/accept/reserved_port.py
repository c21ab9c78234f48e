"""A reserved TCP port, kept while no server listens on it.

Strategy: a socket that is bound and never listens. A connection is refused meanwhile, as by a machine without a server.
The system gives the port to no other process by chance, and a server that sets SO_REUSEADDR, as the acceptor does, may
listen there.

The rules of shared ports are those of Linux; tested there.
"""

import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"


class ReservedPort:
    """A free port of the loopback interface, from `__init__` to `close`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, 0))
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()
