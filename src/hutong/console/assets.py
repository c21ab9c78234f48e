"""The files of the pages: compressed once, with a tag for each, under a strict policy.

Strategy: only files that are in the package are known, by name, so no path of a request reaches the disk. The policy
lets scripts, styles and connections of this server alone: a record's value that was drawn as HTML would run nothing.
Each file has an address with the version of all of them, which a browser keeps for good. Style sheets are sent as one,
and the index names the modules of the page that its path opens: so everything is asked for at once.

Knows nothing of what pages show.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from hutong.console.modules import PageModules
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
_STYLES: Final = "styles.css"
_PRELOADS: Final = "    <!-- the modules of the page -->\n"
_SHEET: Final = re.compile(r'<link rel="stylesheet" href="/assets/([^"]+)">')
_SHEETS: Final = re.compile(rf"(?: *{_SHEET.pattern}\n)+")


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
        texts = {name: asset.plain.decode() for name, asset in self._assets.items() if name.endswith(".js")}
        self._modules = PageModules(texts)
        template = self._assets.pop(_INDEX).plain.decode()
        sheets = _SHEET.findall(template)
        self._assets[_STYLES] = _Asset(_TYPES[".css"], b"".join(self._assets[name].plain for name in sheets))
        self.version = hashlib.sha256("".join(each.tag for each in self._assets.values()).encode()).hexdigest()[:16]
        self._template = _SHEETS.sub(f'    <link rel="stylesheet" href="/assets/{_STYLES}">\n', template, count=1)
        self._indexes: dict[tuple[str, ...], _Asset] = {}  # by the modules that they name

    def routes(self) -> list[WebRoute]:
        found = [
            WebRoute("GET", pattern, _AssetHandler(asset, self.version), is_public=True)
            for name, asset in self._assets.items()
            for pattern in (f"/assets/{name}", f"/assets/{{version}}/{name}")
        ]
        depths = ["/", *("/" + "/".join([f"{{p{i}}}" for i in range(depth)]) for depth in range(1, DEPTH_MAX + 1))]
        return [*found, *(WebRoute("GET", pattern, self._index, is_public=True) for pattern in depths)]

    def _index(self, request: WebRequest) -> WebAnswer:
        # A name in a page's path may have dots (`/topics/orders.eu`); in the root they are those of a file.
        is_file = "." in request.path and request.path.count("/") == 1
        # A path of the API that is not there must not look as if it were.
        if request.path.startswith(("/api/", "/assets/")) or is_file:
            raise WebRefusal(404, f"There is nothing at {request.path[:200]}.")
        return _AssetHandler(self._index_of(request.path), self.version)(request)

    def _index_of(self, path: str) -> _Asset:
        """The index that names the modules of this page: one for each page that there is."""
        modules = tuple(self._modules.of_path(path))
        index = self._indexes.get(modules)
        if index is None:
            links = "".join(f'    <link rel="modulepreload" href="/assets/{name}">\n' for name in modules)
            text = self._template.replace(_PRELOADS, links).replace('"/assets/', f'"/assets/{self.version}/')
            index = self._indexes[modules] = _Asset(_TYPES[".html"], text.encode())
        return index


class _AssetHandler:
    """The handler of one file."""

    def __init__(self, asset: _Asset, version: str) -> None:
        self._asset = asset
        self._version = version

    def __call__(self, request: WebRequest) -> WebAnswer:
        asset = self._asset
        # Under the version of all files a browser asks once, ever. Elsewhere, and for the index, "no-cache" lets it
        # keep the file and compare the tag: an upgrade shows at once.
        is_of_version = request.parameters.get("version") == self._version
        kept = "public, max-age=31536000, immutable" if is_of_version else "no-cache"
        headers = [("Cache-Control", kept), ("ETag", asset.tag), ("Vary", "Accept-Encoding"), *_HEADERS]
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
