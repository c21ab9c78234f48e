"""What an exchange says after each message of the client.

Knows nothing of how messages are carried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class Fault(Enum):
    """Why nobody was authenticated: for figures and logs. What the client is told does not depend on it."""

    CREDENTIALS = "credentials"  # no such user, or not this user's password
    MALFORMED = "malformed"  # a message that is none of this mechanism
    MECHANISM = "mechanism"  # not one that is offered
    STATE = "state"  # a request that does not belong here
    PRINCIPAL = "principal"  # somebody else than before, or on behalf of somebody else
    DEADLINE = "deadline"  # nothing came of it in time
    BUSY = "busy"  # more passwords are being checked than may be


@dataclass(frozen=True, slots=True)
class Challenge:
    """To the client, who has to say more."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client is `user`; `data` is the last message to it."""

    user: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class CheckPassword:
    """Somebody has to find out whether this is the user's password."""

    user: str
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rejected:
    """It ends here. `detail` is for our own log and repeats nothing that the client said."""

    fault: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class CheckProof:
    """The client's proof is there; `outcome` checks it, which is quick, once a guess for this user may be made."""

    user: str
    outcome: Callable[[], Accepted | Rejected] = field(repr=False)


Step = Challenge | Accepted | CheckPassword | CheckProof | Rejected
