"""Faults of a login at a provider.

Knows nothing of how they are shown.
"""

from enum import Enum

from hutong.foundation.errors import PeerError


class LoginFault(Enum):
    """Reasons that the browser's address has after a login that failed; the pages have a sentence for each."""

    EXPIRED = "expired"
    DENIED = "denied"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    BROKERS = "brokers"
    BUSY = "busy"


class LoginFailure(PeerError):
    """A login that did not succeed. `detail` is for the log, and repeats no token."""

    def __init__(self, fault: LoginFault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
