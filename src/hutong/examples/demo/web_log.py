"""A real access log made on the spot: a web server serves the standard library's sources and someone fetches them.

Strategy: Python's own HTTP server on a free loopback port, one connection a request, each answered request logged as a
line in Apache's combined format. The visitor asks for the pages in its list, so the list decides which are popular. A
missing page is answered with 404.

Knows nothing of topics.
"""

import functools
import http.client
import http.server
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

REQUEST_TIMEOUT_SECONDS = 10
USER_AGENT = "hutong-demo/1"


class _Handler(http.server.SimpleHTTPRequestHandler):
    lines: list[str]

    def __init__(self, *arguments: object, lines: list[str], directory: str) -> None:
        self.lines = lines
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def send_header(self, keyword: str, value: str) -> None:
        if keyword.lower() == "content-length":
            self.sent_bytes = value
        super().send_header(keyword, value)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.status = int(code)
        self.sent_bytes = "-"

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing: the visitor gets the errors, and the access log is the only log."""

    def handle_one_request(self) -> None:
        super().handle_one_request()
        if hasattr(self, "status"):
            moment = datetime.now(UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
            agent = self.headers.get("User-Agent", "-")
            what = f'"{self.requestline}" {self.status} {self.sent_bytes}'
            self.lines.append(f'{self.client_address[0]} - - [{moment}] {what} "-" "{agent}"')


@contextmanager
def serving(folder: Path, lines: list[str]) -> Iterator[int]:
    """Yield the port of a server for `folder`; it appends a line per request and is gone afterwards."""
    handler = functools.partial(_Handler, lines=lines, directory=str(folder))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="demo-web-server", kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def visit(folder: Path, paths: Iterable[str]) -> list[str]:
    """Fetch each of `paths` from a server for `folder`, in order; returns the access log."""
    lines: list[str] = []
    with serving(folder, lines) as port:
        for path in paths:
            _fetch(port, path)
    return lines


def _fetch(port: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path, headers={"User-Agent": USER_AGENT})
        connection.getresponse().read()
    finally:
        connection.close()
