"""One HTTP request. Blocks: for a thread alone.

Strategy: the whole exchange has one deadline, however slowly the answer comes, and one bound of its size. A
redirection is refused, so that the URL of the settings is the only address that is ever asked. Variables for proxies
are not read.

Knows nothing of what is asked for. Raises ProtocolError where no such answer comes in time.
"""

import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import h11

from hutong.foundation.errors import ProtocolError

ASKING_MS_MAX: Final = 5_000
"""A node that stops waits for the request that is under way."""
_PIECE_BYTES: Final = 64 * 1024
_SECOND_MS: Final = 1000
_GOOD: Final = range(200, 300)


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


@dataclass(frozen=True, slots=True)
class Asker:
    """Sends requests to one address. `authorities` of its certificate, by default the system's."""

    address: HttpAddress
    authorities: Path | None
    answer_bytes_max: int
    monotonic_ms: Callable[[], int] = field(repr=False)

    def get(self) -> bytes:
        """The body of the answer. Raises ProtocolError."""
        return self._ask("GET", [("Accept", "application/json")], b"")

    def post(self, content_type: str, body: bytes) -> bytes:
        """The body of the answer. Raises ProtocolError."""
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        return self._ask("POST", headers, body)

    def exchange(self, content_type: str, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> tuple[int, bytes]:
        """Post, and return the status, an error's as well, with the answer's body. Raises ProtocolError."""
        own = [("Content-Type", content_type), ("Content-Length", str(len(body))), ("Accept", "application/json")]
        return self.request("POST", [*own, *headers], body)

    def _ask(self, method: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
        status, answer = self.request(method, headers, body)
        if status not in _GOOD:
            raise ProtocolError(f"{self.address.authority} did not answer as it should: the status is {status}")
        return answer

    def request(self, method: str, headers: Sequence[tuple[str, str]], body: bytes = b"") -> tuple[int, bytes]:
        """Send it with these headers, and return the status, an error's as well, and the body. Raises ProtocolError."""
        address, deadline_ms = self.address, self.monotonic_ms() + ASKING_MS_MAX

        def left_s() -> float:
            left_ms = deadline_ms - self.monotonic_ms()
            if left_ms <= 0:
                raise TimeoutError("no answer in time")
            return left_ms / _SECOND_MS

        usual = [("Host", address.authority), ("Connection", "close")]
        request = h11.Request(method=method, target=address.target, headers=[*usual, *headers])
        try:
            with closing(_connected(address, self.authorities, left_s)) as line:
                line.settimeout(left_s())
                line.sendall(_sent(engine := h11.Connection(h11.CLIENT), request, body))
                status, pieces = 0, list[bytes]()
                for piece in _answer(line, engine, self.answer_bytes_max, left_s):
                    if isinstance(piece, int):
                        status = piece
                    else:
                        pieces.append(piece)
                return status, b"".join(pieces)
        # ssl.SSLError is an OSError. UnicodeError and ValueError: a host name that is none, or NUL in it.
        except (OSError, h11.ProtocolError, ValueError) as error:
            raise ProtocolError(f"{address.authority} did not answer as it should: {error}") from None


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


def _sent(engine: h11.Connection, request: h11.Request, body: bytes) -> bytes:
    events = (request, *((h11.Data(data=body),) if body else ()), h11.EndOfMessage())
    return b"".join(engine.send(event) or b"" for event in events)


def _answer(
    line: socket.socket, engine: h11.Connection, bytes_max: int, left_s: Callable[[], float]
) -> Iterator[int | bytes]:
    """The status, then pieces of the body."""
    size = 0
    while True:
        event = engine.next_event()
        if event is h11.NEED_DATA:
            line.settimeout(left_s())
            engine.receive_data(line.recv(_PIECE_BYTES))
        elif isinstance(event, h11.Response):
            yield event.status_code
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size > bytes_max:
                raise ValueError(f"more than {bytes_max} bytes")
            yield bytes(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return
