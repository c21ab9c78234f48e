"""OAUTHBEARER as a server speaks it (RFC 7628): one message with an access token, checked elsewhere.

Strategy: a token that is refused is answered with an error as JSON. Then the client sends one control character, and
the exchange fails. So the client's library can read the status before the connection closes.

Knows nothing of keys, claims or clocks.
"""

from __future__ import annotations

from hutong.foundation.errors import ProtocolError
from hutong.security.oauth.outcomes import TokenStatus
from hutong.security.sasl.oauth_messages import ABORT, parse_client_token, refusal
from hutong.security.sasl.steps import Accepted, Challenge, CheckToken, Rejected, SaslFault, Step


class OauthExchange:
    """One exchange of one connection. `scope` is named to clients whose token lacks it."""

    __slots__ = ("_authorization_id", "_has_begun", "_refused", "_scope")

    def __init__(self, scope: str = "") -> None:
        self._scope = scope
        self._has_begun = False
        self._authorization_id = ""
        self._refused: Rejected | None = None

    def respond(self, message: bytes) -> Step:
        """The answer to the client's next message."""
        if self._refused is not None:
            # RFC 7628, section 3.2.3: any other answer to an error is none, and fails likewise.
            is_expected = message == ABORT
            return self._refused if is_expected else Rejected(SaslFault.MALFORMED, "no end after a refused token")
        if self._has_begun:
            return Rejected(SaslFault.STATE, "OAUTHBEARER has one message")
        self._has_begun = True
        try:
            given = parse_client_token(message)
        except ProtocolError as error:
            return Rejected(SaslFault.MALFORMED, str(error))
        self._authorization_id = given.authorization_id
        return CheckToken(given.token, self)

    def owned(self, name: str, life_ms: int) -> Accepted | Rejected:
        """The token is `name`'s, for `life_ms` from now."""
        # Kafka allows no impersonation here either.
        if self._authorization_id not in ("", name):
            return Rejected(SaslFault.PRINCIPAL, "a user asked to act for another one")
        return Accepted(name, session_ms=life_ms)

    def refused(self, status: TokenStatus, detail: str) -> Challenge:
        """The token is not accepted."""
        self._refused = Rejected(SaslFault.TOKEN, detail)
        return Challenge(refusal(status.value, self._scope if status is TokenStatus.SCOPE else ""))
