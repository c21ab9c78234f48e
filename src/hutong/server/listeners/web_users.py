"""Passwords of HTTP requests, checked against the users that exist: those of SASL, by HTTP's Basic scheme.

Strategy: a check is a hash of milliseconds on the thread that all passwords share, and guesses are slowed down as those
of Kafka's clients are. A client sends its password with each request, so right ones are remembered: by a keyed hash,
never as they are, and as long as the user's credential is the same.

Knows nothing of routes.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hutong.broker.authentication.scram import ScramUsers
from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired, HutongError, LimitExceeded
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.handler import Peer
from hutong.runtime.threads.offload import Offload, run, settle
from hutong.security.principals import USER, Principal
from hutong.security.sasl.figures import SaslFigures
from hutong.security.sasl.guesses import Guesses
from hutong.security.sasl.scram_credentials import SHA_256, SHA_512
from hutong.security.sasl.steps import SaslFault
from hutong.web.admission import basic_credentials, unauthorized
from hutong.web.answers import WebRefusal
from hutong.web.messages import HttpRequest

REMEMBERED_MAX: Final = 1_000
MECHANISM: Final = "BASIC"
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class PasswordChecks:
    """The parts by which a node checks passwords; all of its listeners share them."""

    users: ScramUsers
    workers: Offload
    turns: WaitTable[None]
    guesses: Guesses
    figures: SaslFigures
    clock: Clock


class WebUsers:
    """Admits users with their passwords. `random_bytes` makes the key of what is remembered."""

    def __init__(
        self, checks: PasswordChecks, future: Callable[[], asyncio.Future[None]], random_bytes: Callable[[int], bytes]
    ) -> None:
        self._checks = checks
        self._future = future
        self._key = random_bytes(_KEY_BYTES)
        self._remembered: OrderedDict[bytes, object] = OrderedDict()  # the user's credentials at that time

    def admit(self, request: HttpRequest, peer: Peer) -> Principal | Awaitable[Principal]:
        user, password = basic_credentials(request)
        digest = hashlib.blake2b(b"%d:%b%b" % (len(user), user.encode(), password), key=self._key).digest()
        remembered = self._remembered.get(digest)
        if remembered is not None and remembered == self._credentials(user):
            self._remembered.move_to_end(digest)
            return Principal(USER, user)
        return self._check(user, password, digest, peer)

    async def _check(self, user: str, password: bytes, digest: bytes, peer: Peer) -> Principal:
        checks = self._checks
        await self._turn(user, peer)
        is_right: bool | None = None
        try:
            credentials = self._credentials(user)
            check = checks.users.password_check(user)
            is_right = await run(checks.workers, partial(check, password))
        except LimitExceeded:
            checks.figures.failed_total[SaslFault.BUSY] += 1
            raise WebRefusal(503, "too many passwords are being checked") from None
        finally:
            checks.guesses.ended(user, peer.address, checks.clock.monotonic_ms(), is_right=is_right)
        if not is_right:
            checks.figures.failed_total[SaslFault.CREDENTIALS] += 1
            raise unauthorized()
        totals = checks.figures.succeeded_total
        totals[MECHANISM] = totals.get(MECHANISM, 0) + 1
        self._remembered[digest] = credentials
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return Principal(USER, user)

    async def _turn(self, user: str, peer: Peer) -> None:
        """Wait while earlier failures of this user from this address are fresh."""
        checks = self._checks
        since_ms = checks.clock.monotonic_ms()
        is_first = True
        while wait_ms := checks.guesses.wait_ms(user, peer.address, since_ms, checks.clock.monotonic_ms()):
            checks.figures.delayed_total += is_first
            is_first = False
            waited = self._future()

            def over(outcome: HutongError | None, waited: asyncio.Future[None] = waited) -> None:
                settle(waited, None if isinstance(outcome, Expired) else outcome)

            deadline_ms = checks.clock.monotonic_ms() + wait_ms
            checks.turns.park(peer, over, deadline_ms=deadline_ms, owner=peer.owner)
            await waited

    def _credentials(self, user: str) -> object:
        return [self._checks.users.credential(user, mechanism) for mechanism in (SHA_512, SHA_256)]
