"""The place of a provider's key set, as the settings name it: at a URL, or in a file.

Knows nothing of when it is read.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.reactor.accept.exposure import is_local
from hutong.security.oauth.key_sets import SET_BYTES_MAX
from hutong.server.configuration.sections.security import OauthSettings
from hutong.server.outgoing.asking import Asker
from hutong.server.outgoing.urls import http_address, wrong

ReadKeys = Callable[[], bytes]
"""Reads the bytes of a key set. Blocks; raises ProtocolError where they cannot be had."""


def source_of(settings: OauthSettings, monotonic_ms: Callable[[], int]) -> ReadKeys:
    """Raises UsageError for a place that is none, or a file that is not there."""
    place = settings.jwks
    if not place:
        raise wrong("OAUTHBEARER needs the provider's key set; set oauth.jwks to its URL or to a file")
    if "://" not in place:
        file = Path(place)
        try:
            read_file(file)
        except ProtocolError as error:
            raise UsageError(f"oauth.jwks: {error}.", ExitCode.NOINPUT) from None
        return partial(read_file, file)
    address = http_address("oauth.jwks", place)
    # An attacker who changes the answer on its way could log in as everybody.
    if not address.has_tls and not is_local(address.host):
        raise wrong("oauth.jwks is an http:// URL of another machine; use https://")
    authorities = settings.jwks_ca
    if authorities is not None and not authorities.is_file():
        raise UsageError(f"oauth.jwks_ca names {authorities}, which is no file.", ExitCode.NOINPUT)
    return Asker(address, authorities, SET_BYTES_MAX, monotonic_ms).get


def read_file(file: Path) -> bytes:
    """Raises ProtocolError."""
    try:
        with file.open("rb") as opened:
            return opened.read(SET_BYTES_MAX + 1)  # the parser refuses one byte too many
    except OSError as error:
        raise ProtocolError(f"{file} cannot be read: {error.strerror}") from None
