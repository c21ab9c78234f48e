"""The place of a provider's key set, as the settings name it: at a URL, or in a file.

Knows nothing of when it is read.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.reactor.accept.exposure import is_local
from hutong.security.oauth.key_sets import SET_BYTES_MAX
from hutong.server.configuration.sections.oauth import OauthSettings
from hutong.server.listeners.oauth.fetching import HttpAddress, fetch

_PORTS: Final = {"https": 443, "http": 80}

ReadKeys = Callable[[], bytes]
"""Reads the bytes of a key set. Blocks; raises ProtocolError where they cannot be had."""


def source_of(settings: OauthSettings, monotonic_ms: Callable[[], int]) -> ReadKeys:
    """Raises UsageError for a place that is none, or a file that is not there."""
    place = settings.jwks
    if not place:
        raise _wrong("OAUTHBEARER needs the provider's key set; set oauth.jwks to its URL or to a file")
    if "://" not in place:
        file = Path(place)
        try:
            read_file(file)
        except ProtocolError as error:
            raise UsageError(f"oauth.jwks: {error}.", ExitCode.NOINPUT) from None
        return partial(read_file, file)
    address = _address_of(place)
    authorities = settings.jwks_ca
    if authorities is not None and not authorities.is_file():
        raise UsageError(f"oauth.jwks_ca names {authorities}, which is no file.", ExitCode.NOINPUT)
    return partial(fetch, address, authorities, SET_BYTES_MAX, monotonic_ms)


def read_file(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(SET_BYTES_MAX + 1)  # the parser refuses one byte too many
    except OSError as error:
        raise ProtocolError(f"{file} cannot be read: {error.strerror}") from None


def _address_of(url: str) -> HttpAddress:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong("oauth.jwks is no URL") from None
    host = parts.hostname
    if parts.scheme not in _PORTS or not host or parts.username is not None or parts.fragment:
        raise _wrong("oauth.jwks is no URL such as https://provider.example/keys")
    # An attacker who changes the answer on its way could log in as everybody.
    if parts.scheme == "http" and not is_local(host):
        raise _wrong("oauth.jwks is an http:// URL of another machine; use https://")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise _wrong("oauth.jwks has characters that no URL has")
    return HttpAddress(host, port or _PORTS[parts.scheme], target, parts.scheme == "https")


def _wrong(sentence: str) -> UsageError:
    return UsageError(f"{sentence}.", ExitCode.CONFIG)
