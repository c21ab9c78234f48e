"""HTTP as far as a scraper needs it: GET and HEAD of a few pages, on the reactor, with every bound named.

Strategy: a framing cuts the stream at the empty line that ends a request's head, and a handler answers with a page. A
request with a body is not one of ours: it is refused and its connection ends, so that a body can never be taken for a
second request. Connections are kept open unless the client asks otherwise (RFC 9112, 9.3); how many, how long and
how slowly they may send are the reactor's limits. A connection ends once all its requests are answered; a page may take
several loop iterations.

Knows no page's content: each is a function that is called when it is asked for.
"""

import base64
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.reactor.connections.channel import PendingResponse
from hutong.reactor.connections.handler import Peer
from hutong.reactor.limits import ReactorLimits
from hutong.server.monitoring.slices import SlicedPage
from hutong.wire.buffer import Buffer

HEAD_BYTES_MAX: Final = 8 * 1024
LIMITS: Final = ReactorLimits(
    connections_max=16,  # each may keep its pages from being forgotten, by not reading them
    connections_per_ip_max=16,
    frame_bytes_max=HEAD_BYTES_MAX,
    receiving_bytes_max=1024 * 1024,
    requests_in_flight_max=4,
    idle_ms_max=120_000,
    frame_ms_max=5_000,
    closing_ms_max=2_000,
    drain_ms_max=1_000,
)
TEXT: Final = "text/plain; charset=utf-8"
_CHALLENGE: Final = 'Basic realm="hutong", charset="UTF-8"'
_END: Final = b"\r\n\r\n"
_TOO_LONG: Final = b""  # what the framing hands out for a head above the limit


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: its status, type and body, which may be followed by further pieces of it."""

    status: int
    body: bytes
    content_type: str = TEXT
    pieces: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class ScrapeRequest:
    """The head of a request, as far as it matters here. `is_last`: the connection ends with its answer."""

    method: str
    path: str
    has_body: bool
    is_last: bool
    authorization: str = field(default="", repr=False)


def parse_head(head: bytes) -> ScrapeRequest | None:
    """The request whose head, without the empty line, is given; None for one that breaks the format."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1") or not parts[1].startswith("/"):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        # RFC 9112, 5.1 and 5.2: no white space before the colon, and no folded lines.
        if not colon or not name or name != name.strip():
            return None
        headers[name.lower()] = value.strip()
    # Whatever the number is: any body but an empty one is refused.
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    tokens = [word.strip() for word in headers.get("connection", "").lower().split(",")]
    # A body is never read: its bytes would be taken for the next request, so the connection ends. HTTP/1.0 closes by
    # default, HTTP/1.1 keeps open (RFC 9112, 9.3).
    is_last = has_body or "close" in tokens or (parts[2] == "HTTP/1.0" and "keep-alive" not in tokens)
    return ScrapeRequest(parts[0], parts[1].partition("?")[0], has_body, is_last, headers.get("authorization", ""))


_FAILED: Final = Page(500, b"the page could not be made; the log says why\n")
_UNREADABLE: Final = ScrapeRequest("", "", has_body=False, is_last=True)


class HeadFraming:
    """Cuts a stream into heads of requests. What follows one that is the last is dropped."""

    __slots__ = ("_held", "_is_finished", "bytes_held", "failure", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.bytes_held = 0
        self.failure: ProtocolError | None = None
        self._held = b""
        self._is_finished = False

    def receive_data(self, data: Buffer) -> list[Buffer]:
        heads: list[Buffer] = []
        rest = self._held + bytes(data)
        while not self._is_finished:
            rest = rest.lstrip(b"\r\n")  # RFC 9112, 2.2: empty lines before a request are ignored
            head, end, following = rest.partition(_END)
            # A marker instead of the head: the answer 431 must follow those to earlier requests of this connection.
            if len(head) > self.frame_bytes_max:
                heads.append(_TOO_LONG)
                self._is_finished = True
            elif not end:
                break
            else:
                heads.append(head)
                rest = following
                request = parse_head(head)
                self._is_finished = request is None or request.is_last
        # What follows a last request must not be kept: the client could fill memory until the answer is sent.
        self._held = b"" if self._is_finished else rest
        self.bytes_held = len(self._held)
        return heads


class MetricsCredentials:
    """One user of HTTP's Basic scheme (RFC 7617). Raises UsageError for a name that cannot be one of its users."""

    __slots__ = ("_token",)

    def __init__(self, user: str, password: str) -> None:
        if not user or ":" in user:
            raise UsageError(
                "metrics.user must be a name without a colon where metrics.password is set.", ExitCode.CONFIG
            )
        self._token = base64.b64encode(f"{user}:{password}".encode())

    def admit(self, authorization: str) -> bool:
        """Compare an Authorization header with the user's, in constant time."""
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("latin-1", "replace")
        return hmac.compare_digest(given, self._token) and scheme.lower() == "basic"


PageSource = Callable[[], Page] | SlicedPage
"""Makes a page at once, or in steps."""


class _Visit:
    """One connection: how many of its answers are still being made, and whether it ends with the last of them."""

    __slots__ = ("in_making", "is_last")

    def __init__(self) -> None:
        self.in_making = 0
        self.is_last = False


class Pages:
    """The reactor's handler: a page for each path. Those that are made in steps are for who has the credentials."""

    def __init__(
        self,
        pages: Mapping[str, PageSource],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], object],
        credentials: MetricsCredentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._pages = pages
        self._clock = clock
        self._call_soon = call_soon

    def connection_opened(self, peer: Peer) -> None:
        peer.session = _Visit()

    def connection_closed(self, peer: Peer) -> None:
        """Nothing of it is left."""

    def request_received(self, frame: Buffer, peer: Peer) -> list[Buffer] | PendingResponse:
        head = bytes(frame)
        request = None if head == _TOO_LONG else parse_head(head)
        page = self._pages.get(request.path) if request is not None else None
        # In this order the first error of a request is the one that is answered; nothing but the head is known.
        if head == _TOO_LONG:
            shown: Page | SlicedPage = Page(431, b"the head of the request is too long\n")
        elif request is None:
            shown = Page(400, b"not a request that is served here\n")
        elif request.method not in ("GET", "HEAD"):
            shown = Page(405, b"only GET and HEAD are served here\n")
        elif request.has_body:
            shown = Page(400, b"no request with a body is served here\n")
        elif page is None:
            shown = Page(404, f"there are {', '.join(self._pages)}\n".encode())
        # Health pages need no credentials: orchestrators probe without any, and the pages show no data.
        elif not isinstance(page, SlicedPage):
            shown = page()
        elif self._credentials is None or self._credentials.admit(request.authorization):
            shown = page
        else:
            shown = Page(401, b"user and password, please\n")
        return self._shown(shown, request or _UNREADABLE, peer)

    def _shown(self, shown: Page | SlicedPage, request: ScrapeRequest, peer: Peer) -> list[Buffer] | PendingResponse:
        with_body = request.method != "HEAD"
        if isinstance(shown, Page) and not request.is_last:
            return self._answer(shown, is_last=False, with_body=with_body)
        # The last answer is given later even if it is ready: `peer.close` must come after it was handed over.
        visit: _Visit = peer.session
        visit.in_making += 1
        visit.is_last = request.is_last
        pending = PendingResponse()

        def made(page: Page) -> None:
            pending.complete(self._answer(page, is_last=request.is_last, with_body=with_body))
            visit.in_making -= 1
            # Pages of earlier requests on this connection may not be complete.
            if visit.is_last and not visit.in_making:
                peer.close()

        if isinstance(shown, Page):
            self._call_soon(lambda: made(shown))
        else:
            content_type = shown.content_type
            shown.ask(lambda pieces: made(_FAILED if pieces is None else Page(200, b"", content_type, pieces)))
        return pending

    def _answer(self, page: Page, *, is_last: bool, with_body: bool = True) -> list[Buffer]:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self._clock.wall_ms() // 1000))
        lines = [
            f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
            f"Date: {date}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(page.body) + sum(map(len, page.pieces))}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *([f"WWW-Authenticate: {_CHALLENGE}"] if page.status == 401 else []),
            *(["Allow: GET, HEAD"] if page.status == 405 else []),
            *(["Connection: close"] if is_last else []),
            "\r\n",
        ]
        head = "\r\n".join(lines).encode()  # also for HEAD with the length of the body (RFC 9110, 9.3.2)
        return [head, page.body, *page.pieces] if with_body else [head]
