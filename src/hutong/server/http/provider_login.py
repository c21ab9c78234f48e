"""The console's login at an OpenID Connect provider, as the settings name it.

Decides nothing about logins: `console/oidc` does.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import ExitCode, ProtocolError, UsageError
from hutong.server.outgoing.asking import Asker
from hutong.server.outgoing.urls import http_address, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.console.desk import ConsoleDesk
    from hutong.console.oidc.signing_on import SigningOn
    from hutong.rest.accounts import Blocking
    from hutong.server.configuration.sections.console import ConsoleSettings

KEY_BYTES: Final = 32
_OWN_PARAMETERS: Final = frozenset(
    (
        "response_type",
        "response_mode",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "nonce",
        "code_challenge",
        "code_challenge_method",
        "request",
        "request_uri",
    )
)


@dataclass(frozen=True, slots=True)
class ProviderHttp:
    """`hutong.console.oidc.asking.OutgoingHttp` by single requests."""

    authorities: Path | None
    answer_bytes_max: int
    monotonic_ms: Callable[[], int]

    def get(self, url: str) -> bytes:
        return self._asker(url).get()

    def post_form(self, url: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        headers = [("Authorization", authorization)] if authorization else []
        return self._asker(url).exchange("application/x-www-form-urlencoded", body, headers)

    def _asker(self, url: str) -> Asker:
        try:
            address = http_address("an address of the provider", url)
        except UsageError as error:
            raise ProtocolError(str(error)) from None
        return Asker(address, self.authorities, self.answer_bytes_max, self.monotonic_ms)


def check_provider(section: ConsoleSettings) -> None:
    """Raises UsageError for settings that cannot be used."""
    if not section.oidc_issuer:
        return
    try:
        from hutong.console.oidc.discovery import is_safe_url
        from hutong.console.oidc.id_tokens import check_id_token as _check_id_token  # noqa: F401  # needs the extra
    except ModuleNotFoundError as error:
        if error.name not in ("jwt", "cryptography"):
            raise
        raise UsageError(
            f"console.oidc_issuer needs {error.name}, which is not installed: pip install 'hutong[console,oauth]'.",
            ExitCode.UNAVAILABLE,
        ) from None
    if not is_safe_url(section.oidc_issuer, may_be_plain=True) or "?" in section.oidc_issuer:
        raise wrong("console.oidc_issuer is no https:// URL (http:// is for this machine alone)")
    if not section.oidc_client_id:
        raise wrong("console.oidc_issuer needs console.oidc_client_id")
    if section.oidc_redirect_url and not is_safe_url(section.oidc_redirect_url, may_be_plain=True):
        raise wrong("console.oidc_redirect_url is no https:// URL (http:// is for this machine alone)")
    if "openid" not in section.oidc_scope:
        raise wrong("console.oidc_scope lacks openid")
    if section.oidc_ca is not None and not section.oidc_ca.is_file():
        raise UsageError(f"console.oidc_ca names {section.oidc_ca}, which is no file.", ExitCode.NOINPUT)
    _parameters(section.oidc_parameters)


def provider_login(section: ConsoleSettings, desk: ConsoleDesk, blocking: Blocking) -> SigningOn | None:
    """The routes of logins; None where the settings name no provider."""
    if not section.oidc_issuer:
        return None
    from hutong.console.limits import OIDC_ANSWER_BYTES_MAX
    from hutong.console.oidc.asking import ProviderClient
    from hutong.console.oidc.attempts import LoginAttempts
    from hutong.console.oidc.messages import OidcClient
    from hutong.console.oidc.renewing import TokenRenewals
    from hutong.console.oidc.signing_on import SigningOn

    client = OidcClient(
        section.oidc_issuer,
        section.oidc_client_id,
        section.oidc_client_secret,
        section.oidc_scope,
        _parameters(section.oidc_parameters),
        section.oidc_redirect_url,
    )
    http = ProviderHttp(section.oidc_ca, OIDC_ANSWER_BYTES_MAX, desk.clock.monotonic_ms)
    provider = ProviderClient(client, http, blocking, desk.clock)
    renewals = TokenRenewals(provider, desk)
    return SigningOn(desk, provider, LoginAttempts(secrets.token_bytes(KEY_BYTES)), renewals)


def _parameters(texts: tuple[str, ...]) -> Mapping[str, str]:
    """Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or name in _OWN_PARAMETERS:
            raise wrong(f"console.oidc_parameters has {name[:100]!r}; write NAME=VALUE, of what no login has anyway")
        found[name] = value
    return found
