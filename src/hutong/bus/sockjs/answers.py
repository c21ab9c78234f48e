"""What is said back over HTTP: pages, refusals, and the headers that let browsers of other origins read them.

Knows nothing of sessions or connections.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from hutong.bus.sockjs.http import Fields

TEXT: Final = ("Content-Type", "text/plain; charset=UTF-8")
_JSON: Final = ("Content-Type", "application/json; charset=UTF-8")
_HTML: Final = ("Content-Type", "text/html; charset=UTF-8")
NO_STORE: Final = ("Cache-Control", "no-store, no-cache, no-transform, must-revalidate, max-age=0")
YEAR_S: Final = 31_536_000
CACHED: Final = (
    ("Cache-Control", f"public, max-age={YEAR_S}"),
    ("Expires", "Fri, 01 Jan 2100 00:00:00 GMT"),  # for caches of HTTP/1.0 alone: the age above comes first
)
CLIENT_URL: Final = "https://cdn.jsdelivr.net/npm/sockjs-client@1.6.1/dist/sockjs.min.js"
"""The script that iframes load: it must have the version of the page's own."""

_IFRAME: Final = """<!DOCTYPE html>
<html>
<head>
  <meta http-equiv="X-UA-Compatible" content="IE=edge">
  <meta charset="UTF-8">
  <title>SockJS iframe</title>
  <script src="{url}"></script>
  <script>
    document.domain = document.domain;
    SockJS.bootstrap_iframe();
  </script>
</head>
<body>
  <p>A page of SockJS that other pages use in a frame they do not show.</p>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Fields
    body: bytes = b""


def text(status: int, words: str, headers: Fields = ()) -> Answer:
    return Answer(status, [TEXT, *headers], words.encode())


def not_allowed(methods: tuple[str, ...]) -> Answer:
    return Answer(405, [("Allow", ", ".join(methods))])


def greeting() -> Answer:
    return text(200, "Welcome to SockJS!\n")


def root(prefix: str) -> Answer:
    """For whoever looks what is listening here."""
    return text(200, f"Hutong's event bus for browsers: connect a SockJS client to {prefix}\n")


def not_found(prefix: str) -> Answer:
    return text(404, f"There is nothing here: SockJS is served at {prefix or '/'}\n")


def info(entropy: int, *, cookie_needed: bool, cross_origin: Fields) -> Answer:
    """What a client asks for first. `entropy` makes sessions of clients without good randomness differ."""
    told = {"websocket": True, "origins": ["*:*"], "cookie_needed": cookie_needed, "entropy": entropy}
    return Answer(200, [_JSON, NO_STORE, *cross_origin], msgspec.json.encode(told))


def iframe(url: str, if_none_match: str | None) -> Answer:
    """The page of the iframe transports, to be kept by whoever has it."""
    body = _IFRAME.replace("{url}", url).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if if_none_match == tag:
        return Answer(304, [("ETag", tag), *CACHED])
    return Answer(200, [_HTML, ("ETag", tag), *CACHED], body)


def preflight(methods: tuple[str, ...], cross_origin: Fields) -> Answer:
    """What a browser asks before a request of another origin."""
    allowed = ("Access-Control-Allow-Methods", ", ".join(sorted(methods)))
    return Answer(204, [*CACHED, allowed, ("Access-Control-Max-Age", str(YEAR_S)), *cross_origin])


class Origins:
    """Whose pages may use this server. `*` alone allows all; else `https://host[:port]` as browsers write them."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allows_all = "*" in allowed
        self._allowed = frozenset(allowed)

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Requests without an origin do not come from another page's script."""
        origin = headers.get("origin")
        if self._allows_all or origin is None or origin in self._allowed:
            return True
        return origin.partition("://")[2] == headers.get("host")  # the server's own pages: the iframe

    def cross_origin(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        """The headers that let the script of the asking page read the answer (CORS); cookies go with it.

        A page opened from a file has the origin `null`. SockJS 0.3.4 answers that with `*`, which browsers do not
        accept for requests with cookies, as sockjs-client's are: so it is repeated like any other.
        """
        if not self.allows(headers):
            return [("Vary", "Origin")]
        origin = headers.get("origin")
        if origin is None:
            fields = [("Access-Control-Allow-Origin", "*")]
        else:
            fields = [("Access-Control-Allow-Origin", origin), ("Access-Control-Allow-Credentials", "true")]
        asked = headers.get("access-control-request-headers")
        if asked is not None:
            fields.append(("Access-Control-Allow-Headers", asked))
        return [*fields, ("Vary", "Origin")]
