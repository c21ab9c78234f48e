"""Request ids: who asks, and which of his calls it is.

Strategy: a session is a UUID of version 7 (RFC 9562: 48 bits of milliseconds since 1970, then chance), written as 32
hexadecimal digits, so whoever remembers sessions can tell the age of one that he does not know. A request id is
SESSION/SEQUENCE; the sequence numbers of one session rise.

Knows no calls. Clock and chance arrive by constructor; `new_request_id` is the one place that takes the machine's.
"""

import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import ProtocolError

SEQUENCE_MAX: Final = 2**53 - 1  # what every client language counts exactly
_REQUEST_ID: Final = re.compile(r"([0-9a-f]{32})/(0|[1-9][0-9]{0,15})", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_TIME_DIGITS: Final = 12
_RANDOM_BITS: Final = 74


class CallId(NamedTuple):
    """One call of one session."""

    session: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.session}/{self.sequence}"


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


def session_ms(session: str) -> int:
    """When the session began, by its maker's clock, in milliseconds since 1970."""
    return int(session[:_TIME_DIGITS], 16)


def parse_request_id(text: str) -> CallId:
    """Raises ProtocolError for anything but SESSION/SEQUENCE."""
    found = _REQUEST_ID.fullmatch(text)
    if found is None or (sequence := int(found[2])) > SEQUENCE_MAX:
        raise ProtocolError("a request id is the 32 hexadecimal digits of a session, '/', and a sequence number")
    return CallId(found[1], sequence)


def parse_acked_below(text: str | None) -> int:
    """0 where nothing is said. Raises ProtocolError for anything but a sequence number."""
    if text is None:
        return 0
    if _NUMBER.fullmatch(text) is None or (number := int(text)) > SEQUENCE_MAX:
        raise ProtocolError("acked-below is a sequence number")
    return number


def new_request_id() -> str:
    """An id for one call, which the application keeps, so that even its next process asks for the same effect."""
    return str(CallId(SessionIds(SystemClock(), secrets.randbits).make(), 0))
