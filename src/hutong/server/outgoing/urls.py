"""The URL of a setting, checked.

Knows nothing of what is there.
"""

from typing import Final
from urllib.parse import urlsplit

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.outgoing.asking import HttpAddress

_PORTS: Final = {"https": 443, "http": 80}


def http_address(setting: str, url: str) -> HttpAddress:
    """Raises UsageError for what is no http:// or https:// URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong(f"{setting} is no URL") from None
    host = parts.hostname
    if parts.scheme not in _PORTS or not host or parts.username is not None or parts.fragment:
        raise wrong(f"{setting} is no URL such as https://host.example/path")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise wrong(f"{setting} has characters that no URL has")
    return HttpAddress(host, port or _PORTS[parts.scheme], target, parts.scheme == "https")


def wrong(sentence: str) -> UsageError:
    """A setting that cannot be used."""
    return UsageError(f"{sentence}.", ExitCode.CONFIG)
