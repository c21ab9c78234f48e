"""TLS handshakes under way at one acceptor: how they ended, and one line of log about those that failed.

Strategy: failures are counted by reason; the log gets one line in `LOG_INTERVAL_MS`, with the number of those that were
not logged, since a peer chooses how often it fails. How many there may be is the intake's affair.

Knows nothing of sockets or certificates.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from hutong.foundation.clock import Clock
from hutong.reactor.figures import HandshakeFailure, ReactorFigures

LOG_INTERVAL_MS: Final = 5_000
_QUIET: Final = frozenset((HandshakeFailure.PEER_LEFT,))  # what health checks do
_log = logging.getLogger("hutong.tls")


class Shaking(Protocol):
    """A connection whose handshake is under way."""

    def abort(self) -> None: ...


class Handshakes:
    """Those of one acceptor. `leave(address)` is called for a connection that ends before its handshake does."""

    def __init__(self, clock: Clock, figures: ReactorFigures, leave: Callable[[str], None]) -> None:
        self.leave = leave
        self._clock = clock
        self._figures = figures
        self._under_way: set[Shaking] = set()
        self._logged_at_ms: int | None = None
        self._unlogged = 0
        self._is_closed = False

    def begin_handshake(self, connection: Shaking) -> bool:
        """False once they are to end: no deadline guards it."""
        if not self._is_closed:
            self._under_way.add(connection)
        return not self._is_closed

    def end_handshake(self, connection: Shaking) -> None:
        """However it ended. A second call does nothing."""
        self._under_way.discard(connection)

    def succeeded(self) -> None:
        self._figures.handshakes_total += 1

    def failed(self, address: str, failure: HandshakeFailure, detail: str) -> None:
        self._figures.handshakes_failed_total[failure] += 1
        if failure in _QUIET:
            return
        now_ms = self._clock.monotonic_ms()
        # A peer chooses how often it fails, and must not fill the disk with log lines.
        if self._logged_at_ms is not None and now_ms < self._logged_at_ms + LOG_INTERVAL_MS:
            self._unlogged += 1
            return
        more = f"; {self._unlogged} more since the last such line" if self._unlogged else ""
        self._logged_at_ms, self._unlogged = now_ms, 0
        _log.warning("TLS handshake with %s failed: %s (%s)%s", address, failure, detail, more)

    def close(self) -> None:
        """Cut off those under way, and all that come."""
        self._is_closed = True
        for connection in list(self._under_way):
            connection.abort()
