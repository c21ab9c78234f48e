"""Fall-back transports: the head of each one's response, its preamble, and its wrapping of frames.

Strategy: a response is either ended by its first frame (polling) or continues up to a bound of bytes, after which the
client begins a new one (streaming), since scripts keep all of a response in memory. Knows nothing of sessions.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from hutong.bus.sockjs.web.frames import encode_text
from hutong.bus.sockjs.web.routes import QUERY_FIELDS_MAX, SockJsEndpoint

_SCRIPT: Final = "application/javascript; charset=UTF-8"
_HTMLFILE: Final = """<!doctype html>
<html><head>
  <meta http-equiv="X-UA-Compatible" content="IE=edge">
  <meta charset="UTF-8">
</head><body><h2>This page belongs to SockJS.</h2>
  <script>
    document.domain = document.domain;
    var c = parent.{callback};
    c.start();
    function p(d) {c.message(d);};
    window.onload = c.stop;
  </script>
"""
_HTMLFILE_BYTES_MIN: Final = 1024  # browsers begin to work on a page at this size
_TAG: Final = re.compile("[<>&]")


@dataclass(frozen=True, slots=True)
class FallbackTransport:
    """`wrap` takes a frame and the callback's name; so does `prelude`, without the frame."""

    content_type: str
    is_streaming: bool
    needs_callback: bool
    prelude: Callable[[str], str]
    wrap: Callable[[str, str], str]


def _in_script(frame: str) -> str:
    """The frame as a string within a script within a page: no tag may end it early."""
    return _TAG.sub(lambda found: f"\\u{ord(found.group()):04x}", encode_text(frame))


def _page(callback: str) -> str:
    return _HTMLFILE.replace("{callback}", callback).ljust(_HTMLFILE_BYTES_MIN) + "\r\n\r\n"


TRANSPORTS: Final[Mapping[SockJsEndpoint, FallbackTransport]] = {
    SockJsEndpoint.XHR: FallbackTransport(
        _SCRIPT, False, False, lambda callback: "", lambda frame, callback: f"{frame}\n"
    ),
    SockJsEndpoint.XHR_STREAMING: FallbackTransport(
        _SCRIPT, True, False, lambda callback: "h" * 2048 + "\n", lambda frame, callback: f"{frame}\n"
    ),
    SockJsEndpoint.EVENTSOURCE: FallbackTransport(
        "text/event-stream; charset=UTF-8",
        True,
        False,
        lambda callback: "\r\n",
        lambda frame, callback: f"data: {frame}\r\n\r\n",
    ),
    SockJsEndpoint.HTMLFILE: FallbackTransport(
        "text/html; charset=UTF-8",
        True,
        True,
        _page,
        lambda frame, callback: f"<script>\np({_in_script(frame)});\n</script>\r\n",
    ),
    SockJsEndpoint.JSONP: FallbackTransport(
        _SCRIPT, False, True, lambda callback: "", lambda frame, callback: f"/**/{callback}({_in_script(frame)});\r\n"
    ),
}


def form_payload(body: bytes, content_type: str) -> str | None:
    """The text of jsonp_send: the field `d` of a form, or the body as it is. None for bytes that are no text."""
    try:
        if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
            return body.decode()
        fields = dict(parse_qsl(body.decode(), max_num_fields=QUERY_FIELDS_MAX, errors="strict"))
    except ValueError:
        return None
    return fields.get("d", "")
