"""Asks the provider: for its description and keys, for tokens of a code, for new ones.

Strategy: description and keys are kept for an hour, and one question for them serves all that wait. Every question
runs on a thread, within the bounds of `OutgoingHttp`; above a number of them logins are refused.

Decides nothing about tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from hutong.console.limits import PROVIDER_KEPT_MS, PROVIDER_KEYS_AGAIN_MS, PROVIDER_QUESTIONS_MAX
from hutong.console.oidc.discovery import discovery_url, parse_provider
from hutong.console.oidc.id_tokens import check_id_token
from hutong.console.oidc.messages import TokenAnswer, code_question, parse_tokens, refresh_question
from hutong.console.oidc.outcomes import LoginFailure, LoginFault
from hutong.console.oidc.provider import Provider
from hutong.foundation.errors import ProtocolError
from hutong.security.oauth.key_sets import KeySet, parse_key_set
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal, UnknownKey

if TYPE_CHECKING:
    from hutong.console.oidc.messages import OidcClient
    from hutong.foundation.clock import Clock
    from hutong.rest.accounts import Blocking

T = TypeVar("T")
_GOOD: Final = range(200, 300)
_REFUSED: Final = range(400, 500)


class OutgoingHttp(Protocol):
    """Single requests with a deadline and a bound of the answer. They block, and raise ProtocolError."""

    def get(self, url: str) -> bytes: ...

    def post_form(self, url: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        """The status, too: a provider's refusal is an answer."""
        ...


class ProviderClient:
    """The one provider of a console."""

    def __init__(self, client: OidcClient, http: OutgoingHttp, blocking: Blocking, clock: Clock) -> None:
        self.client = client
        self._http = http
        self._blocking = blocking
        self._clock = clock
        self._questions = 0
        self._described: asyncio.Task[Provider] | None = None
        self._described_ms = 0
        self._keys = KeySet({})
        self._keys_ms: int | None = None

    async def provider(self) -> Provider:
        """The provider's description. Raises LoginFailure."""
        now_ms, found = self._clock.monotonic_ms(), self._described
        has_failed = found is not None and found.done() and (found.cancelled() or found.exception() is not None)
        if found is None or has_failed or now_ms - self._described_ms > PROVIDER_KEPT_MS:
            found = self._described = asyncio.get_running_loop().create_task(self._describe())
            self._described_ms = now_ms
        return await asyncio.shield(found)

    async def of_code(self, code: str, verifier: str, nonce: str, redirect_url: str) -> tuple[str, TokenAnswer]:
        """The subject of a login, and its tokens. Raises LoginFailure."""
        provider = await self.provider()
        answer = await self._tokens(provider, *code_question(provider, self.client, code, verifier, redirect_url))
        if answer.id_token is None:
            raise LoginFailure(LoginFault.REFUSED, "the provider gave no ID token: is `openid` in its scope?")
        return await self._subject(provider, answer.id_token, nonce), answer

    async def renewed(self, refresh_token: str, user: str) -> TokenAnswer:
        """New tokens of this user. Raises LoginFailure: REFUSED where there are none any more."""
        provider = await self.provider()
        answer = await self._tokens(provider, *refresh_question(provider, self.client, refresh_token))
        # OpenID Connect Core 1.0, 12.2: the same subject. It has no nonce.
        if answer.id_token is not None and await self._subject(provider, answer.id_token, None) != user:
            raise LoginFailure(LoginFault.REFUSED, "the provider renewed the tokens of another user")
        return answer

    async def close(self) -> None:
        """End the question that is under way."""
        if self._described is not None:
            self._described.cancel()
            await asyncio.gather(self._described, return_exceptions=True)

    async def _describe(self) -> Provider:
        issuer = self.client.issuer
        return await self._asked(lambda: parse_provider(self._http.get(discovery_url(issuer)), issuer))

    async def _tokens(self, provider: Provider, body: bytes, authorization: str) -> TokenAnswer:
        status, data = await self._asked(partial(self._http.post_form, provider.token_url, body, authorization))
        if status in _REFUSED:
            raise LoginFailure(LoginFault.REFUSED, f"the provider refused tokens with status {status}")
        if status not in _GOOD:
            raise LoginFailure(LoginFault.UNREACHABLE, f"the provider answered with status {status}")
        try:
            return parse_tokens(data)
        except ProtocolError as error:
            raise LoginFailure(LoginFault.REFUSED, f"the provider gave {error}") from None

    async def _subject(self, provider: Provider, token: str, nonce: str | None) -> str:
        found = self._checked(token, nonce)
        if isinstance(found, UnknownKey) and self._may_ask_for_keys():
            self._keys_ms = self._clock.monotonic_ms()
            self._keys = await self._asked(lambda: parse_key_set(self._http.get(provider.keys_url)))
            found = self._checked(token, nonce)
        if isinstance(found, UnknownKey):
            raise LoginFailure(LoginFault.REFUSED, "an ID token of a key that is not in the provider's set")
        if isinstance(found, TokenRefusal):
            raise LoginFailure(LoginFault.REFUSED, f"an ID token with {found.detail}")
        return found.name

    def _checked(self, token: str, nonce: str | None) -> TokenOwner | TokenRefusal | UnknownKey:
        # A key that was taken out of the set, as a stolen one, counts for no longer than the description.
        is_old = self._keys_ms is None or self._clock.monotonic_ms() - self._keys_ms > PROVIDER_KEPT_MS
        if is_old:
            return UnknownKey()
        client = self.client
        return check_id_token(token, self._keys, client.issuer, client.client_id, nonce, self._clock.wall_ms())

    def _may_ask_for_keys(self) -> bool:
        return self._keys_ms is None or self._clock.monotonic_ms() - self._keys_ms >= PROVIDER_KEYS_AGAIN_MS

    async def _asked(self, question: Callable[[], T]) -> T:
        """Raises LoginFailure."""
        if self._questions >= PROVIDER_QUESTIONS_MAX:
            raise LoginFailure(LoginFault.BUSY, f"{PROVIDER_QUESTIONS_MAX} questions to the provider are under way")
        self._questions += 1
        try:
            return cast("T", await self._blocking(question))
        except ProtocolError as error:
            raise LoginFailure(LoginFault.UNREACHABLE, str(error)) from None
        finally:
            self._questions -= 1
