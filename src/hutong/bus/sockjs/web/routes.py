"""Routes: the meaning of paths under the prefix (SockJS 0.3.4, "Base URL" and "Session-based URLs").

Strategy: every transport is one row: how it is asked for and what its requests do. A path that is not exactly one of
the protocol's means nothing. Knows nothing of sessions or connections.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import parse_qsl

QUERY_FIELDS_MAX: Final = 20
_IFRAME: Final = re.compile(r"iframe[0-9-.a-z_]*\.html")
_CALLBACK: Final = re.compile(r"[a-zA-Z0-9_.]{1,100}")
"""The protocol's characters without the minus sign: a callback is nothing but a name. (CVE-2020-8823's field.)"""


class SockJsEndpoint(Enum):
    """The endpoints of the protocol."""

    ROOT = "root"  # of the whole server
    GREETING = "greeting"
    INFO = "info"
    IFRAME = "iframe"
    RAW_WEBSOCKET = "raw websocket"
    WEBSOCKET = "websocket"
    XHR = "xhr"
    XHR_STREAMING = "xhr_streaming"
    XHR_SEND = "xhr_send"
    EVENTSOURCE = "eventsource"
    HTMLFILE = "htmlfile"
    JSONP = "jsonp"
    JSONP_SEND = "jsonp_send"


_METHODS: Final[Mapping[SockJsEndpoint, tuple[str, ...]]] = {
    SockJsEndpoint.ROOT: ("GET", "HEAD"),
    SockJsEndpoint.GREETING: ("GET", "HEAD"),
    SockJsEndpoint.INFO: ("GET", "OPTIONS"),
    SockJsEndpoint.IFRAME: ("GET",),
    SockJsEndpoint.RAW_WEBSOCKET: ("GET",),
    SockJsEndpoint.WEBSOCKET: ("GET",),
    SockJsEndpoint.XHR: ("POST", "OPTIONS"),
    SockJsEndpoint.XHR_STREAMING: ("POST", "OPTIONS"),
    SockJsEndpoint.XHR_SEND: ("POST", "OPTIONS"),
    SockJsEndpoint.EVENTSOURCE: ("GET",),
    SockJsEndpoint.HTMLFILE: ("GET",),
    SockJsEndpoint.JSONP: ("GET",),
    SockJsEndpoint.JSONP_SEND: ("POST",),
}
_FIXED: Final = {
    "": SockJsEndpoint.GREETING,
    "/": SockJsEndpoint.GREETING,
    "/info": SockJsEndpoint.INFO,
    "/websocket": SockJsEndpoint.RAW_WEBSOCKET,
}
_TRANSPORTS: Final = {
    endpoint.value: endpoint
    for endpoint in SockJsEndpoint
    if endpoint.value not in ("root", "greeting", "info", "iframe", "raw websocket")
}


@dataclass(frozen=True, slots=True)
class SockJsRoute:
    """A parsed path.

    `session` is the client's name for its session, empty for an endpoint without one; `callback` is None if missing or
    no name.
    """

    endpoint: SockJsEndpoint
    methods: tuple[str, ...]
    session: str = ""
    callback: str | None = None
    has_callback: bool = False


def find_route(target: str, prefix: str) -> SockJsRoute | None:
    """The route of a request's target; None for an unknown path. `prefix` begins with a slash, or is empty."""
    path, _, query = target.partition("?")
    if path == "/" and prefix:
        return _route(SockJsEndpoint.ROOT)
    if not path.startswith(prefix):
        return None
    rest = path[len(prefix) :]
    fixed = _FIXED.get(rest)
    if fixed is not None:
        return _route(fixed)
    parts = rest.split("/")
    if len(parts) == 2 and not parts[0] and _IFRAME.fullmatch(parts[1]):
        return _route(SockJsEndpoint.IFRAME)
    if len(parts) != 4 or parts[0]:
        return None
    _, server, session, transport = parts
    endpoint = _TRANSPORTS.get(transport)
    if endpoint is None or not server or not session or "." in server or "." in session:
        return None
    callback = _callback(query)
    is_name = callback is not None and _CALLBACK.fullmatch(callback) is not None
    return SockJsRoute(endpoint, _METHODS[endpoint], session, callback if is_name else None, bool(callback))


def _route(endpoint: SockJsEndpoint) -> SockJsRoute:
    return SockJsRoute(endpoint, _METHODS[endpoint])


def _callback(query: str) -> str | None:
    """`c` is SockJS's name for it, `callback` that of other libraries."""
    try:
        fields = dict(parse_qsl(query, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        return None
    return fields.get("c") or fields.get("callback")
