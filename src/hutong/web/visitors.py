"""Access to a server over HTTP: the host names it answers to, and the origins of pages that may connect.

Strategy: a browser sends the name that its page asked for (Host) and, for most requests, the page's origin (Origin).
A page of a stranger whose name was rebound to this server's address has one name in both, its own; so equal names prove
nothing, and the name itself must be one of the server's. An address instead of a name cannot be rebound.

What a browser sends without an Origin to another site (a script, a frame) it marks by Sec-Fetch-Site (W3C Fetch
Metadata); then the Referer has the origin. Older browsers do not mark it. A session that is opened that way can hear
what it asked for, and it can ask nothing, since that takes a POST, which has an Origin.

Knows nothing of connections.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

EVERYBODY: Final = "*"
_PORTS: Final = {"http": "80", "https": "443"}
_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([^\s:/@\[\]]{1,253}))(?::([0-9]{1,5}))?")
_LOCALHOST: Final = "localhost"  # and all under it: RFC 6761, 6.3


class Visitors:
    """`origins` are allowed as browsers write them: `https://host[:port]`, `null` for pages of files, `*` for all.

    With no origin given, pages of this server itself are allowed. `hosts` are names of this server in addition to
    addresses, `localhost` and the names in `origins`; `*` is every name. Where pages of every origin are allowed, so is
    every name. `is_secure`: browsers reach the server by https alone.
    """

    def __init__(self, origins: Iterable[str] = (), hosts: Iterable[str] = (), *, is_secure: bool = False) -> None:
        self._origins = frozenset(origins)
        self._allows_all = EVERYBODY in self._origins
        trusted = [_authority(origin.partition("://")[2]) for origin in self._origins]
        names = {found[0] for found in trusted if found is not None} | {_plain(host) for host in hosts}
        self._names = frozenset(names)
        self._allows_every_name = self._allows_all or EVERYBODY in self._names
        self._schemes = ("https",) if is_secure else ("http", "https")  # a proxy may speak TLS before a plain server

    @property
    def frame_ancestors(self) -> str | None:
        """The sources of Content-Security-Policy whose pages may frame ours; None for all.

        A frame of ours asks as a page of ours, on behalf of the page around it.
        """
        if self._allows_all:
            return None
        return " ".join(["'self'", *sorted(self._origins - {"null"})])

    def knows_host(self, headers: Mapping[str, str]) -> bool:
        """True when the Host header names this server. HTTP/1.0 needs none, and browsers always send one."""
        host = headers.get("host")
        if host is None or self._allows_every_name:
            return True
        found = _authority(host)
        return found is not None and (_is_own(found[0]) or found[0] in self._names)

    def allows(self, headers: Mapping[str, str]) -> bool:
        """True when the page may use this server. A request without an origin is not from another page's script.

        `knows_host` comes first.
        """
        origin = headers.get("origin")
        if self._allows_all or origin is None or origin in self._origins:
            return True
        scheme, _, place = origin.partition("://")
        if scheme not in self._schemes:
            return False
        port, (page, host) = _PORTS[scheme], (_authority(place), _authority(headers.get("host", "")))
        return page is not None and host is not None and (page[0], page[1] or port) == (host[0], host[1] or port)

    def allows_hidden(self, headers: Mapping[str, str]) -> bool:
        """True when a request without an origin may open a session: a script or frame of a foreign page may not."""
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if self._allows_all or "origin" in headers or not is_foreign:
            return True
        scheme, _, rest = headers.get("referer", "").partition("://")
        return f"{scheme}://{rest.partition('/')[0]}" in self._origins

    def cross_origin(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        """The headers that let the script of the asking page read the answer (CORS); cookies go with it.

        A page opened from a file has the origin `null`. SockJS 0.3.4 answers that with `*`, which browsers do not
        accept for requests with cookies, as sockjs-client's are: so it is repeated like any other.
        """
        if not self.allows(headers):
            return [("Vary", "Origin")]
        origin = headers.get("origin")
        if origin is not None:
            fields = [("Access-Control-Allow-Origin", origin), ("Access-Control-Allow-Credentials", "true")]
        elif self._allows_all:
            fields = [("Access-Control-Allow-Origin", "*")]
        else:
            fields = []
        asked = headers.get("access-control-request-headers")
        if asked is not None:
            fields.append(("Access-Control-Allow-Headers", asked))
        return [*fields, ("Vary", "Origin")]


def _authority(text: str) -> tuple[str, str] | None:
    """Host and port (perhaps empty), None for what is neither."""
    found = _AUTHORITY.fullmatch(text)
    return None if found is None else (_plain(found[1] or found[2]), found[3] or "")


def _plain(host: str) -> str:
    """The host as names are compared: in lower case, without the dot of a whole name or the brackets of an address."""
    return host.strip("[]").lower().removesuffix(".")


def _is_own(host: str) -> bool:
    if host == _LOCALHOST or host.endswith(f".{_LOCALHOST}"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
