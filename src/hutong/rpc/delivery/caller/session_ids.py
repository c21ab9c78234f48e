"""Makes the names of sessions, and request ids for applications. Knows no calls.

Clock and chance arrive by constructor; `new_request_id` is the one place that takes the machine's.
"""

import secrets
from collections.abc import Callable
from typing import Final

from hutong.foundation.clock import Clock, SystemClock
from hutong.rpc.delivery.ids import CallId

_RANDOM_BITS: Final = 74


class SessionIds:
    """Makes sessions. `chance(bits)` gives that many random bits."""

    def __init__(self, clock: Clock, chance: Callable[[int], int]) -> None:
        self._clock = clock
        self._chance = chance

    def make(self) -> str:
        chance = self._chance(_RANDOM_BITS)
        number = (self._clock.wall_ms() & (1 << 48) - 1) << 80
        number |= 0x7 << 76 | chance >> 62 << 64  # version
        number |= 0b10 << 62 | chance & (1 << 62) - 1  # variant
        return f"{number:032x}"


def new_request_id() -> str:
    """An id for one call, which the application keeps, so that even its next process asks for the same effect."""
    return str(CallId(SessionIds(SystemClock(), secrets.randbits).make(), 0))
