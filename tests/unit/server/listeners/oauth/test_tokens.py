"""Keys that are fetched in time, turned, or not to be had, and tokens that wait for them."""

import asyncio
from typing import Final

from tests.support.identity_provider import SigningKey, claims_of, key_set

from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import HutongError, LimitExceeded, ProtocolError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner
from hutong.runtime.threads.offload import InlineOffload
from hutong.security.oauth.machine import RETRY_MS_MIN
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal
from hutong.security.oauth.tokens import TokenRules
from hutong.server.listeners.oauth.tokens import CHECKS_AT_ONCE, WAITING_MAX, OauthTokens

FIRST, SECOND = SigningKey("first", "ES256"), SigningKey("second", "ES256")
INTERVAL_MS: Final = 3_600_000
UNKNOWN_MS: Final = 10_000


class HeldOffload(InlineOffload):
    """Inline, or when a test says so."""

    def __init__(self) -> None:
        self.is_held = False
        self.held: list[tuple[object, object]] = []
        self.is_closed = False

    def submit(self, work, then) -> None:  # type: ignore[no-untyped-def]
        if self.is_held:
            self.held.append((work, then))
        else:
            super().submit(work, then)

    def let_go(self) -> None:
        self.is_held, held, self.held = False, self.held, []
        for work, then in held:
            super().submit(work, then)  # type: ignore[arg-type]

    def close(self) -> None:
        self.is_closed = True


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.keys: tuple[SigningKey, ...] = (FIRST,)
        self.is_down = False
        self.reads = 0
        self.worker = HeldOffload()
        self.tokens = OauthTokens(
            self._read,
            TokenRules(),
            refresh_interval_ms=INTERVAL_MS,
            unknown_key_interval_ms=UNKNOWN_MS,
            loop=asyncio.get_running_loop(),
            wheel=self.wheel,
            clock=self.clock,
            worker=self.worker,
        )

    def _read(self) -> bytes:
        self.reads += 1
        if self.is_down:
            raise ProtocolError("the endpoint is down")
        return key_set(*self.keys)

    def check(self, key: SigningKey, *, may_wait: bool = True) -> TokenOwner | TokenRefusal | None:
        token = key.sign(claims_of("alice", self.clock.wall_ms() / 1000, 100_000))
        return self.tokens.check(token, may_wait=may_wait)

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


async def test_keys_are_fetched_at_the_start_and_after_each_interval() -> None:
    scene = Scene()
    scene.tokens.start()
    assert isinstance(scene.check(FIRST), TokenOwner)
    scene.pass_ms(INTERVAL_MS - 1)
    assert scene.reads == 1
    scene.keys = (SECOND,)
    scene.pass_ms(1)
    assert scene.reads == 2
    assert isinstance(scene.check(SECOND), TokenOwner)
    # A key that its provider has withdrawn does not count any more.
    assert isinstance(scene.check(FIRST), TokenRefusal)


async def test_keys_stay_while_their_endpoint_is_down() -> None:
    scene = Scene()
    scene.tokens.start()
    scene.is_down = True
    scene.pass_ms(INTERVAL_MS)
    assert isinstance(scene.check(FIRST), TokenOwner)
    scene.keys, scene.is_down = (FIRST, SECOND), False
    scene.pass_ms(RETRY_MS_MIN)
    assert isinstance(scene.check(SECOND), TokenOwner)
    figures = scene.tokens.figures
    assert (figures.fetched_total, figures.failed_total, figures.keys_count) == (2, 1, 2)


async def test_an_unknown_key_brings_one_fetch_in_each_interval() -> None:
    scene = Scene()
    scene.tokens.start()
    for _ in range(100):
        assert isinstance(scene.check(SECOND), TokenRefusal)
    assert scene.reads == 1
    scene.pass_ms(UNKNOWN_MS)
    for _ in range(100):
        scene.check(SECOND)
    assert scene.reads == 2


async def test_a_token_waits_for_the_fetch_that_it_brings() -> None:
    scene, outcomes = Scene(), []
    scene.tokens.start()
    scene.pass_ms(UNKNOWN_MS)
    scene.worker.is_held, scene.keys = True, (FIRST, SECOND)
    assert scene.check(SECOND) is None
    scene.tokens.wait(lambda _: outcomes.append(scene.check(SECOND, may_wait=False)), Owner())
    scene.worker.let_go()
    assert [type(each) for each in outcomes] == [TokenOwner]


async def test_those_that_wait_are_bounded_and_resumed_in_parts() -> None:
    scene, outcomes = Scene(), list[object]()
    scene.worker.is_held = True
    scene.tokens.start()
    owner = Owner()
    for _ in range(WAITING_MAX):
        scene.tokens.wait(outcomes.append, owner)
    try:
        scene.tokens.wait(outcomes.append, owner)
        is_full = False
    except LimitExceeded:
        is_full = True
    assert is_full
    scene.worker.let_go()
    assert len(outcomes) == CHECKS_AT_ONCE
    for _ in range(WAITING_MAX // CHECKS_AT_ONCE):
        await asyncio.sleep(0)
    assert len(outcomes) == WAITING_MAX
    assert not any(isinstance(each, HutongError) for each in outcomes)


async def test_without_keys_a_token_is_refused_after_the_fetch() -> None:
    scene = Scene()
    scene.is_down = True
    scene.tokens.start()
    assert isinstance(scene.check(FIRST), TokenRefusal)


async def test_what_comes_after_the_end_is_left() -> None:
    scene = Scene()
    scene.worker.is_held = True
    scene.tokens.start()
    scene.tokens.close()
    assert scene.worker.is_closed
    scene.worker.let_go()
    assert scene.tokens.figures.keys_count == 0
    scene.pass_ms(INTERVAL_MS)
    assert scene.reads == 1
