"""Request ids: a caller's session and the number of the call in it.

Strategy: a session is a UUID of version 7 (RFC 9562: 48 bits of milliseconds since 1970, then random bits), written as
32 hexadecimal digits. So a service knows the age of a session that it has no record of. A request id is
SESSION/SEQUENCE; the sequence numbers of one session rise.

Knows no calls; `session_ids` makes sessions.
"""

import re
from typing import Final, NamedTuple

from hutong.foundation.errors import ProtocolError

SEQUENCE_MAX: Final = 2**53 - 1  # what every client language counts exactly
_REQUEST_ID: Final = re.compile(r"([0-9a-f]{32})/(0|[1-9][0-9]{0,15})", re.ASCII)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_TIME_DIGITS: Final = 12


class CallId(NamedTuple):
    """One call of one session."""

    session: str
    sequence: int

    def __str__(self) -> str:
        return f"{self.session}/{self.sequence}"


def session_ms(session: str) -> int:
    """Return the start of the session by its creator's clock, in milliseconds since 1970."""
    return int(session[:_TIME_DIGITS], 16)


def parse_request_id(text: str) -> CallId:
    """Raises ProtocolError for anything but SESSION/SEQUENCE."""
    found = _REQUEST_ID.fullmatch(text)
    if found is None or (sequence := int(found[2])) > SEQUENCE_MAX:
        raise ProtocolError("a request id is the 32 hexadecimal digits of a session, '/', and a sequence number")
    return CallId(found[1], sequence)


def parse_acked_below(text: str | None) -> int:
    """Parse the header; 0 without one. Raises ProtocolError for anything but a sequence number."""
    if text is None:
        return 0
    if _NUMBER.fullmatch(text) is None or (number := int(text)) > SEQUENCE_MAX:
        raise ProtocolError("acked-below is a sequence number")
    return number
