"""Access to the metrics: HTTP's Basic scheme (RFC 7617) with one user.

Strategy: the header of a request is compared with the right header, in constant time.

Knows nothing of pages.
"""

import base64
import hmac
from typing import Final

from hutong.foundation.errors import ExitCode, UsageError

CHALLENGE: Final = 'Basic realm="hutong", charset="UTF-8"'
_SCHEME: Final = "basic"


class MetricsCredentials:
    """One user with a password. Raises UsageError for a name that the scheme cannot say."""

    __slots__ = ("_token",)

    def __init__(self, user: str, password: str) -> None:
        if not user or ":" in user:
            raise UsageError(
                "metrics.user must be a name without a colon where metrics.password is set.", ExitCode.CONFIG
            )
        self._token = base64.b64encode(f"{user}:{password}".encode())

    def admit(self, authorization: str) -> bool:
        """Compare an Authorization header with the user's, in constant time."""
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("latin-1", "replace")
        return hmac.compare_digest(given, self._token) and scheme.lower() == _SCHEME
