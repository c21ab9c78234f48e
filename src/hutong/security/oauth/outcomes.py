"""Outcomes of the check of an access token.

Knows nothing of how that is done. Needs no extra.
"""

from dataclasses import dataclass
from enum import Enum


class TokenStatus(Enum):
    """Error codes of RFC 6750, section 3.1."""

    INVALID = "invalid_token"
    SCOPE = "insufficient_scope"


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """The name that a valid token gives, and how long it is still valid."""

    name: str
    life_ms: int


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """The reason why a token is not accepted. `detail` is for the log and repeats nothing of the token."""

    detail: str
    status: TokenStatus = TokenStatus.INVALID


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A token of a key that is not in the set; a newer set may have it."""
