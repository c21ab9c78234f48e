"""The files of the pages: compressed once, with a tag for each, under a strict policy.

Strategy: only files that are in the package are known, by name, so no path of a request reaches the disk. The policy
lets scripts, styles and connections of this server alone: a record's value that was drawn as HTML would run nothing.

Knows nothing of what pages show.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from hutong.web.answers import WebAnswer, WebRefusal
from hutong.web.routes import WebRoute

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from hutong.web.requests import WebRequest

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DEPTH_MAX: Final = 8
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS: Final = [
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),  # for browsers that do not know frame-ancestors
]
_INDEX: Final = "index.html"


class _Asset:
    def __init__(self, content_type: str, plain: bytes) -> None:
        self.content_type = content_type
        self.plain = plain
        self.tag = f'"{hashlib.sha256(plain).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes:
        """Compressed when it is first asked for, so that a start does not wait; without a time, so always the same."""
        return gzip.compress(self.plain, 9, mtime=0)


class Assets:
    """The routes to the pages' files. Every path that is no file and not the API's is the index."""

    def __init__(self) -> None:
        self._assets = dict(_read(files("hutong.console") / "pages", ""))

    def routes(self) -> list[WebRoute]:
        found = [
            WebRoute("GET", f"/assets/{name}", _AssetHandler(asset), is_public=True)
            for name, asset in self._assets.items()
        ]
        depths = ["/", *("/" + "/".join([f"{{p{i}}}" for i in range(depth)]) for depth in range(1, DEPTH_MAX + 1))]
        return [*found, *(WebRoute("GET", pattern, self._index, is_public=True) for pattern in depths)]

    def _index(self, request: WebRequest) -> WebAnswer:
        # A name in a page's path may have dots (`/topics/orders.eu`); in the root they are those of a file.
        is_file = "." in request.path and request.path.count("/") == 1
        # A path of the API that is not there must not look as if it were.
        if request.path.startswith(("/api/", "/assets/")) or is_file:
            raise WebRefusal(404, f"There is nothing at {request.path[:200]}.")
        return _AssetHandler(self._assets[_INDEX])(request)


class _AssetHandler:
    """The handler of one file."""

    def __init__(self, asset: _Asset) -> None:
        self._asset = asset

    def __call__(self, request: WebRequest) -> WebAnswer:
        asset = self._asset
        # "no-cache" lets a browser keep the file, and asks it to compare the tag: an upgrade shows at once.
        headers = [("Cache-Control", "no-cache"), ("ETag", asset.tag), ("Vary", "Accept-Encoding"), *_HEADERS]
        if asset.tag in request.headers.get("if-none-match", ""):
            return WebAnswer(304, headers=headers)
        encodings = request.headers.get("accept-encoding", "")
        if "gzip" in encodings:
            return WebAnswer(200, asset.packed, asset.content_type, [*headers, ("Content-Encoding", "gzip")])
        return WebAnswer(200, asset.plain, asset.content_type, headers)


def _read(folder: Traversable, prefix: str) -> list[tuple[str, _Asset]]:
    found: list[tuple[str, _Asset]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        elif suffix in _TYPES:
            found.append((f"{prefix}{entry.name}", _Asset(_TYPES[suffix], entry.read_bytes())))
    return found
