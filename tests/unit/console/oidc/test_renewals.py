"""Tokens of sessions: renewed before their end, taken away at it; a provider that is slow holds up nobody else."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hutong.console.limits import PROVIDER_QUESTIONS_MAX
from hutong.console.oidc.asking import ProviderClient
from hutong.console.oidc.messages import OidcClient, TokenAnswer
from hutong.console.oidc.outcomes import LoginFailure, LoginFault
from hutong.console.oidc.renewing import TokenRenewals
from hutong.console.oidc.tokens import RETRY_MS, SessionTokens
from hutong.console.sessions import BrowserSessions, Session
from hutong.foundation.errors import ProtocolError

DESCRIPTION = (
    b'{"issuer": "https://i", "authorization_endpoint": "https://i/a", "token_endpoint": "https://i/t", '
    b'"jwks_uri": "https://i/k"}'
)


class Clock:
    now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms


class Provider:
    """Answers for tokens one after the other."""

    def __init__(self, *answers: tuple[int, bytes] | ProtocolError) -> None:
        self.answers = [*answers]
        self.asked: list[bytes] = []

    def get(self, url: str) -> bytes:
        return DESCRIPTION

    def post_form(self, url: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        self.asked.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, ProtocolError):
            raise answer
        return answer


def given(token: str, refresh: str = "") -> tuple[int, bytes]:
    more = f', "refresh_token": "{refresh}"' if refresh else ""
    return 200, f'{{"token_type": "Bearer", "expires_in": 100, "access_token": "{token}"{more}}}'.encode()


async def at_once(call: Callable[[], Any]) -> Any:
    return call()


class Scene:
    """A session whose time passes as its renewals wait for it."""

    def __init__(self, provider: Provider, refresh: str | None = "r0") -> None:
        self.clock, self.sessions, self.waits = Clock(), BrowserSessions(), list[int]()
        self.tokens = SessionTokens("k", "ann", TokenAnswer("t0", 100.0, refresh, "id"), 1_000, 1_001_000)
        self.session = self.sessions.open("s", "c", "ann", "", 1_000, self.tokens)
        self.client = ProviderClient(OidcClient("https://i", "console"), provider, at_once, self.clock)  # type: ignore[arg-type]
        self.renewals = TokenRenewals(self.client, self)  # type: ignore[arg-type]  # the part of a desk that is needed
        self.seen: list[str] = []

    async def pause(self, interval_ms: int) -> None:
        self.waits.append(interval_ms)
        self.seen.append(self.tokens.of_client("")[0])
        self.clock.now_ms += interval_ms
        await asyncio.sleep(0)

    def close_session(self, session: Session) -> None:
        self.sessions.close(session.token)
        self.tokens.end()

    async def run(self) -> None:
        self.renewals.keep(self.session, self.tokens)
        await asyncio.gather(*self.renewals._tasks)

    @property
    def is_open(self) -> bool:
        return self.sessions.is_open("s", self.clock.now_ms)


async def test_tokens_are_renewed_until_the_provider_refuses() -> None:
    provider = Provider(given("t1", "r1"), given("t2"), (400, b'{"error": "invalid_grant"}'))
    scene = Scene(provider)
    await scene.run()
    assert scene.seen == ["t0", "t1", "t2"]
    assert scene.waits == [70_000, 70_000, 70_000]
    assert [body.rpartition(b"&client_id")[0][-2:] for body in provider.asked] == [b"r0", b"r1", b"r1"]
    assert not scene.is_open
    with pytest.raises(ValueError, match="ended"):
        scene.tokens.of_client("")


async def test_a_provider_that_is_down_is_asked_again_until_the_token_ends() -> None:
    scene = Scene(Provider(ProtocolError("down"), (503, b""), given("t1"), *[ProtocolError("down")] * 6))
    await scene.run()
    assert scene.waits == [70_000, RETRY_MS, RETRY_MS, 70_000, *[RETRY_MS] * 6]
    assert not scene.is_open


async def test_without_a_refresh_token_a_session_ends_with_its_token() -> None:
    scene = Scene(Provider(), refresh=None)
    await scene.run()
    assert scene.waits == [100_000]
    assert not scene.is_open


async def test_a_session_that_ended_is_renewed_no_more() -> None:
    provider = Provider()
    scene = Scene(provider)
    scene.sessions.close("s")
    await scene.run()
    assert provider.asked == []


async def test_a_logout_during_a_renewal_takes_the_tokens_away() -> None:
    provider = Provider(given("t1"))
    scene = Scene(provider)
    answer = provider.post_form

    def log_out(url: str, body: bytes, authorization: str) -> tuple[int, bytes]:
        scene.close_session(scene.session)
        return answer(url, body, authorization)

    provider.post_form = log_out  # type: ignore[method-assign]
    await scene.run()
    with pytest.raises(ValueError, match="ended"):
        scene.tokens.of_client("")


async def test_the_library_is_told_when_the_token_ends() -> None:
    scene = Scene(Provider())
    assert scene.tokens.of_client("") == ("t0", 1_101.0)


async def test_a_session_counts_no_longer_than_its_token() -> None:
    scene = Scene(Provider())
    assert scene.sessions.find("s", 100_999) is scene.session
    assert scene.sessions.find("s", 101_000) is None


async def test_a_slow_provider_takes_few_threads() -> None:
    held: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    questions = 0

    async def blocking(call: Callable[[], Any]) -> Any:
        nonlocal questions
        questions += 1
        if questions > 1:
            await held
        return call()

    client = ProviderClient(OidcClient("https://i", "console"), Provider(*[(400, b"{}")] * 100), blocking, Clock())  # type: ignore[arg-type]
    await client.provider()
    logins = [asyncio.ensure_future(client.of_code("c", "v", "n", "r")) for _ in range(PROVIDER_QUESTIONS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(LoginFailure) as failure:
        await client.of_code("c", "v", "n", "r")
    assert failure.value.fault is LoginFault.BUSY
    held.set_result(None)
    outcomes = await asyncio.gather(*logins, return_exceptions=True)
    assert all(isinstance(each, LoginFailure) and each.fault is LoginFault.REFUSED for each in outcomes)


async def test_one_question_serves_all_that_wait_for_the_description() -> None:
    asked = 0

    async def blocking(call: Callable[[], Any]) -> Any:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return call()

    client = ProviderClient(OidcClient("https://i", "console"), Provider(), blocking, Clock())  # type: ignore[arg-type]
    first, second = await asyncio.gather(client.provider(), client.provider())
    assert (first, asked) == (second, 1)
