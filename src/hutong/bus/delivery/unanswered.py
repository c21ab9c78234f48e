"""Requests whose time ran out: counted, and reported on the side of the handler.

Strategy: the requester has its TIMEOUT, and the owner of a handler that forgets to answer would learn nothing. All of
it happens where a reply expires, so that requests which are answered pay nothing.

Knows no messages. Called on the loop of the bus alone.
"""

import logging
from typing import Final

from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.foundation.clock import Clock

WARN_INTERVAL_MS: Final = 60_000
"""One warning for each address in this time."""
WARNED_ADDRESSES_MAX: Final = 100
"""Addresses that are warned of in that time."""

_log = logging.getLogger("hutong.bus")


class UnansweredRequests:
    """The requests of one bus that got no answer in time."""

    def __init__(self, clock: Clock) -> None:
        self.total = 0
        self._clock = clock
        self._quiet_until_ms: dict[str, int] = {}  # by address, the oldest first

    def note(self, address: str) -> None:
        """Count a request to the address, and warn if that is due."""
        self.total += 1
        # Each reply address is another one: together they are warned of once.
        address = REPLY_PREFIX if address.startswith(REPLY_PREFIX) else address
        now_ms = self._clock.monotonic_ms()
        quiet = self._quiet_until_ms
        while quiet and quiet[oldest := next(iter(quiet))] <= now_ms:
            del quiet[oldest]
        # A mass expiry over many addresses has one cause, and must not flood the log.
        if address in quiet or len(quiet) >= WARNED_ADDRESSES_MAX:
            return
        quiet[address] = now_ms + WARN_INTERVAL_MS
        _log.warning(
            "a request to %r was not answered in time: its handler is still at work, or it returned None without "
            "message.reply(...) or message.fail(...)",
            address,
        )
