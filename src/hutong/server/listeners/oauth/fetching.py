"""One GET request, for a key set. Blocks: for a thread alone.

Strategy: the whole exchange has one deadline, whatever pieces the answer comes in, and one bound of its size. A
redirection is refused, so that the URL of the settings is the only address that is ever asked. Variables for proxies
are not read.

Knows nothing of keys. Raises ProtocolError for whatever is no such answer in time.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import h11

from hutong.foundation.errors import ProtocolError

FETCH_MS_MAX: Final = 5_000
"""A node that stops waits for the fetch that is under way."""
_PIECE_BYTES: Final = 64 * 1024
_SECOND_MS: Final = 1000
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """A parsed URL. `target` is its path and query."""

    host: str
    port: int
    target: str
    has_tls: bool

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def fetch(address: HttpAddress, authorities: Path | None, bytes_max: int, monotonic_ms: Callable[[], int]) -> bytes:
    """The body of the answer. Raises ProtocolError."""
    deadline_ms = monotonic_ms() + FETCH_MS_MAX

    def left_s() -> float:
        left_ms = deadline_ms - monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("no answer in time")
        return left_ms / _SECOND_MS

    try:
        with closing(_connected(address, authorities, left_s)) as line:
            request = h11.Request(
                method="GET",
                target=address.target,
                headers=[("Host", address.authority), ("Accept", "application/json"), ("Connection", "close")],
            )
            return b"".join(_body(line, h11.Connection(h11.CLIENT), request, bytes_max, left_s))
    # ssl.SSLError is an OSError. UnicodeError and ValueError: a host name that is none, or NUL in it.
    except (OSError, h11.ProtocolError, ValueError) as error:
        raise ProtocolError(f"{address.authority} gave no key set: {error}") from None


def _connected(address: HttpAddress, authorities: Path | None, left_s: Callable[[], float]) -> socket.socket:
    line = socket.create_connection((address.host, address.port), timeout=left_s())
    if not address.has_tls:
        return line
    try:
        context = ssl.create_default_context(cafile=None if authorities is None else str(authorities))
        line.settimeout(left_s())
        return context.wrap_socket(line, server_hostname=address.host)
    except (OSError, ValueError):
        line.close()
        raise


def _body(
    line: socket.socket, engine: h11.Connection, request: h11.Request, bytes_max: int, left_s: Callable[[], float]
) -> Iterator[bytes]:
    line.sendall((engine.send(request) or b"") + (engine.send(h11.EndOfMessage()) or b""))
    size = 0
    while True:
        event = engine.next_event()
        if event is h11.NEED_DATA:
            line.settimeout(left_s())
            engine.receive_data(line.recv(_PIECE_BYTES))
        elif isinstance(event, h11.Response) and event.status_code != _OK:
            raise ValueError(f"the status is {event.status_code}")
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size > bytes_max:
                raise ValueError(f"more than {bytes_max} bytes")
            yield bytes(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return
