"""Steps of a SASL exchange: the results of each message of the client.

Knows nothing of how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hutong.security.oauth.outcomes import TokenStatus


class SaslFault(Enum):
    """Reasons of a failed authentication, for metrics and logs. The client's answer does not depend on it."""

    CREDENTIALS = "credentials"  # no such user, or not this user's password
    TOKEN = "token"  # an access token that is not accepted
    MALFORMED = "malformed"  # a message that is none of this mechanism
    MECHANISM = "mechanism"  # not one that is offered
    STATE = "state"  # a request that does not belong here
    PRINCIPAL = "principal"  # somebody else than before, or on behalf of somebody else
    DEADLINE = "deadline"  # nothing came of it in time
    BUSY = "busy"  # more passwords are being checked than may be


@dataclass(frozen=True, slots=True)
class Challenge:
    """A message to the client, which must answer it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is `user`; `data` is the last message to it.

    `session_ms` is how long what it has shown is valid; None for as long as the node lets sessions last. `is_by_token`:
    it has shown a delegation token, whose owner the user is.
    """

    user: str
    data: bytes = b""
    session_ms: int | None = None
    is_by_token: bool = False


@dataclass(frozen=True, slots=True)
class CheckPassword:
    """A request to check this password of the user."""

    user: str
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The end of the exchange. `detail` is for the server's log and repeats nothing that the client sent."""

    fault: SaslFault
    detail: str


@dataclass(frozen=True, slots=True)
class CheckProof:
    """A request to check the client's proof. `outcome` does so, quickly, once a guess for this user is allowed."""

    user: str
    outcome: Callable[[], Accepted | Rejected] = field(repr=False)


class TokenOutcomes(Protocol):
    """The exchange that goes on once a token is checked."""

    def owned(self, name: str, life_ms: int) -> Accepted | Rejected: ...

    def refused(self, status: TokenStatus, detail: str) -> Challenge: ...


@dataclass(frozen=True, slots=True)
class CheckToken:
    """A request to check this access token; one of the `outcomes` is its end."""

    token: str = field(repr=False)
    outcomes: TokenOutcomes = field(repr=False)


Step = Challenge | Accepted | CheckPassword | CheckProof | CheckToken | Rejected
