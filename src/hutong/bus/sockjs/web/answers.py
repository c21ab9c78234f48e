"""HTTP responses: pages, refusals, and the headers that let browsers of other origins read them.

Knows nothing of sessions or connections.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

from hutong.web.messages import Fields

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
class HttpAnswer:
    status: int
    headers: Fields
    body: bytes = b""


def text(status: int, words: str, headers: Fields = ()) -> HttpAnswer:
    return HttpAnswer(status, [TEXT, *headers], words.encode())


def not_allowed(methods: tuple[str, ...]) -> HttpAnswer:
    return HttpAnswer(405, [("Allow", ", ".join(methods))])


def greeting() -> HttpAnswer:
    return text(200, "Welcome to SockJS!\n")


def root(prefix: str) -> HttpAnswer:
    """The greeting page at the prefix."""
    return text(200, f"Hutong's event bus for browsers: connect a SockJS client to {prefix}\n")


def not_found(prefix: str) -> HttpAnswer:
    return text(404, f"There is nothing here: SockJS is served at {prefix or '/'}\n")


def info(entropy: int, *, cookie_needed: bool, cross_origin: Fields) -> HttpAnswer:
    """The info document, asked for first. `entropy` makes sessions of clients without good randomness differ."""
    facts = {"websocket": True, "origins": ["*:*"], "cookie_needed": cookie_needed, "entropy": entropy}
    return HttpAnswer(200, [_JSON, NO_STORE, *cross_origin], msgspec.json.encode(facts))


def iframe(url: str, if_none_match: str | None, frame_ancestors: str | None) -> HttpAnswer:
    """The page of the iframe transports, cacheable for ever."""
    body = _IFRAME.replace("{url}", url).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    fields = [("ETag", tag), *CACHED]
    if frame_ancestors is not None:
        fields.append(("Content-Security-Policy", f"frame-ancestors {frame_ancestors}"))
    if if_none_match == tag:
        return HttpAnswer(304, fields)
    return HttpAnswer(200, [_HTML, *fields], body)


def preflight(methods: tuple[str, ...], cross_origin: Fields) -> HttpAnswer:
    """The answer to a browser's preflight request."""
    allowed = ("Access-Control-Allow-Methods", ", ".join(sorted(methods)))
    return HttpAnswer(204, [*CACHED, allowed, ("Access-Control-Max-Age", str(YEAR_S)), *cross_origin])
