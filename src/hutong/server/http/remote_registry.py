"""A schema registry at a URL, for the console: Confluent's API, as the user that signed in.

Strategy: one request for each question, on a thread, with a deadline and a bound of the answer. The session's name and
password, or its access token, go along, so that the registry decides about rights; a console without a login sends
none. What is no answer of such a registry is refused.

Decides nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.server.outgoing.asking import Asker
from hutong.server.outgoing.urls import http_address, wrong
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.server.configuration.sections.console import ConsoleSettings
    from hutong.web.requests import WebRequest

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
SENTENCE_CHARACTERS_MAX: Final = 2_000
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ERRORS: Final = range(400, 600)
_BUSY: Final = 50301
_FORBIDDEN: Final = 40301
_UNAUTHENTICATED: Final = 40101
_NOTHING: Final[Mapping[str, str]] = {}
T = TypeVar("T")


class _RegistryError(msgspec.Struct):
    error_code: int = 0
    message: str = ""


def check_registry(section: ConsoleSettings) -> None:
    """Raises UsageError for settings that cannot be used."""
    if not section.schema_registry:
        return
    from hutong.console.oidc.discovery import is_safe_url

    # Passwords of users go there.
    if not is_safe_url(section.schema_registry, may_be_plain=True) or "?" in section.schema_registry:
        raise wrong("console.schema_registry is no https:// URL (http:// is for this machine alone)")
    authorities = section.schema_registry_ca
    if authorities is not None and not authorities.is_file():
        raise UsageError(f"console.schema_registry_ca names {authorities}, which is no file.", ExitCode.NOINPUT)


class RemoteRegistryApi:
    """Implements `hutong.console.schemas.registry_api.RegistryApi`."""

    is_near = False

    def __init__(self, url: str, authorities: Path | None, desk: ConsoleDesk) -> None:
        self._url = url.rstrip("/")
        self._authorities = authorities
        self._desk = desk

    async def ask(
        self,
        kind: type[T],
        request: WebRequest,
        method: str,
        pattern: str,
        parameters: Mapping[str, str],
        *,
        query: Mapping[str, str] = _NOTHING,
        body: Any = None,
    ) -> T:
        """The answer of the route with this pattern, as for the user of `request`. Raises WebRefusal."""
        # A name keeps its slashes and dots to itself; of dots alone the other side would make another path.
        escaped = {name: quote(value, safe="").replace(".", "%2E") for name, value in parameters.items()}
        target = self._url + pattern.format_map(escaped) + (f"?{urlencode(query)}" if query else "")
        headers = [("Accept", f"{CONTENT_TYPE}, application/json"), *self._credentials(request)]
        encoded = b"" if body is None else msgspec.json.encode(body)
        if encoded or method in ("POST", "PUT"):
            headers += [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(encoded)))]
        try:
            status, data = await self._desk.blocking(partial(self._exchange, method, target, headers, encoded))
            if status in _ERRORS:
                raise _refusal(status, data)
            return msgspec.json.decode(data, type=kind)
        except ProtocolError as error:
            raise WebRefusal(503, f"The schema registry does not answer: {error}.", _BUSY) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise WebRefusal(503, "The schema registry's answer is none of Confluent's API.", _BUSY) from None

    def _exchange(self, method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, bytes]:
        try:
            address = http_address("an address of the registry", url)
        except UsageError as error:
            raise ProtocolError(str(error)) from None
        asker = Asker(address, self._authorities, ANSWER_BYTES_MAX, self._desk.clock.monotonic_ms)
        return asker.request(method, headers, body)

    def _credentials(self, request: WebRequest) -> list[tuple[str, str]]:
        if not self._desk.asks_for_login:
            return []
        tokens = self._desk.tokens(request)
        if tokens is not None:
            try:
                return [("Authorization", f"Bearer {tokens.of_client('')[0]}")]
            # Between the guard and here the session has ended.
            except ValueError:
                raise WebRefusal(401, "Sign in first.", _UNAUTHENTICATED) from None
        user, password = self._desk.credentials(request)
        pair = base64.b64encode(user.encode() + b":" + password).decode()
        return [("Authorization", f"Basic {pair}")]


def _refusal(status: int, data: bytes) -> WebRefusal:
    """The registry's refusal in its own words, where it has some."""
    try:
        error = msgspec.json.decode(data, type=_RegistryError)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = _RegistryError()
    message = error.message[:SENTENCE_CHARACTERS_MAX] or f"The schema registry answered with status {status}."
    if status == 401:
        # The session of the console is well: the registry alone does not know the user.
        return WebRefusal(403, "The schema registry did not accept your name and password, or your token.", _FORBIDDEN)
    return WebRefusal(status if status < 500 else 503, message, error.error_code or status)
