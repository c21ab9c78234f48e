"""Passwords of HTTP requests: the users of SASL, guesses that wait, and right ones that are remembered."""

import asyncio
import base64
from collections.abc import Callable

import pytest

from hutong.broker.authentication.scram import ScramUsers
from hutong.foundation.clock import ManualClock
from hutong.foundation.errors import LimitExceeded, OwnerGone
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.handler import Peer
from hutong.security.principals import USER, Principal
from hutong.security.sasl.figures import SaslFigures
from hutong.security.sasl.guesses import FREE_FAILURES, Guesses
from hutong.security.sasl.scram_credentials import Credential, Mechanism
from hutong.security.sasl.steps import SaslFault
from hutong.server.listeners.web_users import REMEMBERED_MAX, PasswordChecks, WebUsers
from hutong.web.answers import WebRefusal
from hutong.web.limits import HttpLimits
from hutong.web.machine import HttpConnection
from hutong.web.messages import HttpRequest


class Workers:
    """Does work at once, counts it, and may be full."""

    def __init__(self) -> None:
        self.done = 0
        self.is_full = False

    def submit(self, work: Callable[[], object], then: Callable[[object], None]) -> None:
        if self.is_full:
            raise LimitExceeded("pending", 1)
        self.done += 1
        then(work())


class Users(ScramUsers):
    """Users whose passwords are known here as they are."""

    def __init__(self) -> None:
        super().__init__(bytes)
        self.passwords = {"ann": b"s\xc3\xa9cret"}

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        password = self.passwords.get(user)
        return None if password is None else Credential(4096, b"salt", password, b"")

    def password_check(self, user: str) -> Callable[[bytes], bool]:
        return lambda password: self.passwords.get(user) == password


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.users, self.workers, self.figures = Users(), Workers(), SaslFigures()
        self.turns: WaitTable[None] = WaitTable("turns", self.wheel, 10)
        checks = PasswordChecks(
            self.users,
            self.workers,  # type: ignore[arg-type]
            self.turns,
            Guesses(10_000),
            self.figures,
            self.clock,
        )
        self.web = WebUsers(checks, asyncio.get_running_loop().create_future, bytes)
        self.peer = Peer(1, "10.0.0.1", 1, HttpConnection(HttpLimits()))

    async def ask(self, user: str, password: str) -> Principal:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        admitted = self.web.admit(HttpRequest("GET", "/", {"authorization": f"Basic {token}"}, b""), self.peer)
        return admitted if isinstance(admitted, Principal) else await admitted

    async def refused(self, user: str, password: str) -> int:
        with pytest.raises(WebRefusal) as caught:
            await self.ask(user, password)
        return caught.value.status


async def test_a_user_is_admitted_by_the_password_and_nobody_by_another() -> None:
    scene = Scene()
    assert await scene.ask("ann", "s\u00e9cret") == Principal(USER, "ann")
    for user, password in (("ann", "secret"), ("ann", ""), ("bob", "s\u00e9cret")):
        assert await scene.refused(user, password) == 401
    assert scene.figures.succeeded_total == {"BASIC": 1}
    assert scene.figures.failed_total[SaslFault.CREDENTIALS] == 3


async def test_a_right_password_is_hashed_once_until_it_changes() -> None:
    scene = Scene()
    for _ in range(3):
        await scene.ask("ann", "s\u00e9cret")
    assert scene.workers.done == 1
    scene.users.passwords["ann"] = b"other"
    assert await scene.refused("ann", "s\u00e9cret") == 401
    del scene.users.passwords["ann"]
    assert await scene.refused("ann", "other") == 401
    assert scene.workers.done == 3


async def test_what_is_remembered_is_bounded() -> None:
    scene = Scene()
    for number in range(REMEMBERED_MAX + 10):
        scene.users.passwords[f"u{number}"] = b"x"
        await scene.ask(f"u{number}", "x")
    assert len(scene.web._remembered) == REMEMBERED_MAX


async def test_guesses_wait_and_a_client_that_goes_ends_its_wait() -> None:
    scene = Scene()
    for _ in range(FREE_FAILURES):
        await scene.refused("ann", "wrong")
    asked = asyncio.ensure_future(scene.refused("ann", "wrong"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(scene.turns), scene.workers.done) == (1, FREE_FAILURES)
    scene.clock.advance(10_000)
    scene.wheel.advance(scene.clock.monotonic_ms())
    assert await asked == 401
    gone = asyncio.ensure_future(scene.ask("ann", "wrong"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scene.peer.owner.end()
    with pytest.raises(OwnerGone):
        await gone
    assert (len(scene.turns), scene.workers.done) == (0, FREE_FAILURES + 1)


async def test_too_many_checks_are_refused_and_counted() -> None:
    scene = Scene()
    scene.workers.is_full = True
    assert await scene.refused("ann", "s\u00e9cret") == 503
    assert scene.figures.failed_total[SaslFault.BUSY] == 1
