"""The tokens of one session, as its Kafka clients use them.

Strategy: threads of the client library ask for the access token whenever they want. So what they read is one value that
is replaced as a whole, and taken away when the session ends: then no client can log in any more.

Knows nothing of providers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hutong.console.oidc.messages import TokenAnswer

RENEWED_AFTER: Final = 0.7
"""Of a token's life. librdkafka asks for the next at 0.8, and then gets one that is new."""
RETRY_MS: Final = 5_000
_SECOND_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _HeldToken:
    access_token: str = field(repr=False)
    ends_wall_s: float


class SessionTokens:
    """`key` names the session's clients. Times are the monotonic clock's; the library's is Unix time."""

    def __init__(self, key: str, user: str, answer: TokenAnswer, now_ms: int, wall_ms: int) -> None:
        self.key = key
        self.user = user
        self.id_token = ""
        self.refresh_token: str | None = None
        self.ends_ms = 0
        self.renewal_ms = 0
        self._held: _HeldToken | None = None
        self.take(answer, now_ms, wall_ms)

    def take(self, answer: TokenAnswer, now_ms: int, wall_ms: int) -> None:
        """Use these from now on. What the answer lacks stays (RFC 6749, section 6)."""
        self.id_token = answer.id_token or self.id_token
        self.refresh_token = answer.refresh_token or self.refresh_token
        life_ms = int(answer.life_s * _SECOND_MS)
        self.ends_ms, self.renewal_ms = now_ms + life_ms, now_ms + int(life_ms * RENEWED_AFTER)
        self._held = _HeldToken(answer.access_token, wall_ms / _SECOND_MS + answer.life_s)

    def retry(self, now_ms: int) -> None:
        """Plan another renewal after one that failed."""
        self.renewal_ms = now_ms + RETRY_MS

    def end(self) -> None:
        """Give no token any more."""
        self._held = self.refresh_token = None
        self.ends_ms = 0

    def of_client(self, _config: str) -> tuple[str, float]:
        """The access token and its end, for confluent-kafka's `oauth_cb`, on any thread."""
        held = self._held
        if held is None:
            raise ValueError("the session has ended")
        return held.access_token, held.ends_wall_s
