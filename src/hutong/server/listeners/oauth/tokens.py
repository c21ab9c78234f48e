"""Checks clients' access tokens against the keys of their provider, which a thread fetches.

Strategy: a token is checked on the loop, in a fraction of a millisecond. A token whose key is not known waits for the
fetch that is under way, or that it brings about; then it is checked once more. Keys stay in use while their endpoint
is down.

Decides nothing: `security/oauth` does.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import ProtocolError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.runtime.threads.offload import ClosableOffload
from hutong.security.oauth.figures import KeyFigures
from hutong.security.oauth.key_sets import KeySet, parse_key_set
from hutong.security.oauth.machine import KeyFetches
from hutong.security.oauth.outcomes import TokenOwner, TokenRefusal, UnknownKey
from hutong.security.oauth.tokens import TokenRules, check_token
from hutong.server.listeners.oauth.sources import ReadKeys

WAITING_MAX: Final = 1_000
CHECKS_AT_ONCE: Final = 10  # of those that waited, between two iterations of the loop
_KEYS: Final = "keys"
_NO_KEYS: Final = KeySet({})
_log = logging.getLogger("hutong.oauth")


class OauthTokens:
    """The tokens of one provider. `start` fetches the keys, `close` ends that."""

    def __init__(
        self,
        read_keys: ReadKeys,
        rules: TokenRules,
        *,
        refresh_interval_ms: int,
        unknown_key_interval_ms: int,
        loop: asyncio.AbstractEventLoop,
        wheel: TimerWheel,
        clock: Clock,
        worker: ClosableOffload,
    ) -> None:
        self._read_keys = read_keys
        self._rules = rules
        self._loop = loop
        self._wheel = wheel
        self._clock = clock
        self._worker = worker
        self._fetches = KeyFetches(refresh_interval_ms, unknown_key_interval_ms, clock.monotonic_ms())
        self._keys = _NO_KEYS
        self._timer: Timer | None = None
        self._is_closed = False
        self.figures = KeyFigures()
        self.waits: WaitTable[None] = WaitTable("token_keys", wheel, WAITING_MAX)

    def start(self) -> None:
        self._fetch()

    def close(self) -> None:
        """End the thread, after the fetch that is under way."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._worker.close()

    def check(self, token: str, *, may_wait: bool) -> TokenOwner | TokenRefusal | None:
        """Check a token. None means that its key may come with the keys that are being fetched."""
        found = check_token(token, self._keys, self._rules, self._clock.wall_ms())
        if not isinstance(found, UnknownKey):
            return found
        if not may_wait or not self._fetches.key_is_unknown(self._clock.monotonic_ms()):
            return TokenRefusal("a key that is not in the provider's set")
        if not self._fetches.is_fetching:
            self._fetch()
        return None

    def wait(self, then: Continuation[None], owner: Owner) -> None:
        """Call `then` after the fetch that is under way. Raises LimitExceeded."""
        self.waits.park(_KEYS, then, owner=owner)

    def _fetch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fetches.begin(self._clock.monotonic_ms())
        self._worker.submit(partial(_read, self._read_keys), self._fetched)

    def _fetched(self, outcome: KeySet | BaseException) -> None:
        if self._is_closed:
            return
        is_good = isinstance(outcome, KeySet)
        if isinstance(outcome, KeySet):
            self._keys = outcome
            self.figures.keys_count, self.figures.fetched_at_ms = len(outcome), self._clock.wall_ms()
            self.figures.fetched_total += 1
        else:
            self.figures.failed_total += 1
            _log.warning("%s. The keys that were fetched before stay in use (%d).", outcome, len(self._keys))
        self._fetches.ended(self._clock.monotonic_ms(), is_good=is_good)
        assert self._fetches.due_at_ms is not None, "the fetch has ended"
        self._timer = self._wheel.add(self._fetches.due_at_ms, self._fetch)
        self._check_waiting(len(self.waits))
        # A fault of ours: the loop reports it.
        if not isinstance(outcome, KeySet | ProtocolError):
            raise outcome

    def _check_waiting(self, left: int) -> None:
        """Resume those that waited, a few at a time."""
        for _ in range(min(left, CHECKS_AT_ONCE)):
            self.waits.resume(_KEYS, None)
        if left > CHECKS_AT_ONCE:
            self._loop.call_soon(self._check_waiting, left - CHECKS_AT_ONCE)


def _read(read_keys: Callable[[], bytes]) -> KeySet:
    return parse_key_set(read_keys())
